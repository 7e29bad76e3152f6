// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// State is the state of the capturing program at a port; see [capture.State].
type State interface {
	// SetRelay sets the interface index of the device to which captured frames are redirected; 0: none.
	SetRelay(index int) error
	// Relay returns that index.
	Relay() (int, error)
	// Heartbeat returns the age of the relay's last report that ktsnd takes untimed frames; negative if there was none.
	Heartbeat() (time.Duration, error)
	// HeartbeatFD returns the descriptor of the only map that the relay writes.
	HeartbeatFD() int
	Close() error
}

// openState opens the state of the program at a port. It does not return a nil pointer in the interface.
func openState(portName string) (State, error) {
	state, err := capture.OpenState(portName)
	if err != nil {
		return nil, err
	}
	return state, nil
}

// capturedSource is a tap to which the program at the port redirects captured frames.
type capturedSource struct {
	state State
	tap   *overlay.Tap
	// dropped counts frames that the full tap dropped.
	dropped uint64
}

func (c *capturedSource) begin(s *Supervisor, a *attachment, with *order) (err error) {
	if c.state == nil {
		if c.state, err = s.Open(a.relayed.PortName()); err != nil {
			return fmt.Errorf("look for the program that captures frames: %w", err)
		}
	}
	if c.tap == nil {
		if c.tap, err = s.Node.MakeTap(&a.relayed.Attachment); err != nil {
			return fmt.Errorf("make the relay's device: %w", err)
		}
	}
	if err := c.state.SetRelay(c.tap.Index); err != nil {
		return fmt.Errorf("redirect captured frames to %s: %w", c.tap.Name, err)
	}
	with.program = &s.Programs.Captured
	with.pass("--source-fd", c.tap.File)
	if a.relayed.Mode != capture.All {
		return nil
	}
	heartbeat, err := duplicate(c.state.HeartbeatFD())
	if err != nil {
		return fmt.Errorf("duplicate the heartbeat for the relay: %w", err)
	}
	with.own(heartbeat)
	with.pass("--heartbeat-fd", heartbeat)
	with.add("--all")
	return nil
}

func (c *capturedSource) observe(s *Supervisor, _ *attachment) (taken bool) {
	if c.tap != nil {
		if dropped, err := s.Node.TapDropped(c.tap); err == nil {
			c.dropped = dropped
		}
	}
	if c.state == nil {
		return false
	}
	age, err := c.state.Heartbeat()
	return err == nil && age >= 0 && age <= capture.HeartbeatLimit
}

func (c *capturedSource) isReady() bool { return true }

func (c *capturedSource) holds(s *Supervisor, a *attachment) bool {
	if c.state == nil || c.tap == nil {
		return true
	}
	other, err := s.Open(a.relayed.PortName())
	if err != nil {
		return true // the program is being replaced; the next check finds the new one
	}
	defer other.Close()
	// A program that was attached again has a new state without a relay.
	device, err := other.Relay()
	return err != nil || device == c.tap.Index
}

// resultFull counts frames that were dropped because the tap was full.
const resultFull = "drop-queue-full"

func (c *capturedSource) frames(_ *attachment, counted map[string]uint64) {
	counted[resultFull] = c.dropped
}

func (c *capturedSource) stop() error {
	if c.state == nil {
		return nil
	}
	return c.state.SetRelay(0)
}

func (c *capturedSource) release() error {
	var all error
	if c.state != nil {
		all = c.state.Close()
	}
	if c.tap != nil {
		all = errors.Join(all, c.tap.Close())
	}
	return all
}
