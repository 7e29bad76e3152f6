// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// State is that of the program at a port.
type State interface {
	// SetRelay says which device captured frames go to; 0: none.
	SetRelay(index int) error
	// Relay is the device that was said.
	Relay() (int, error)
	// Heartbeat is how long ago the relay said that ktsnd takes frames without a transmit time; negative if it never did.
	Heartbeat() (time.Duration, error)
	// HeartbeatFD is a descriptor of what the relay writes: its heartbeat, and nothing else.
	HeartbeatFD() int
	Close() error
}

// openState keeps a pointer that is nil out of the interface.
func openState(portName string) (State, error) {
	state, err := capture.OpenState(portName)
	if err != nil {
		return nil, err
	}
	return state, nil
}

// capturedSource is a device to which the program at the port redirects captured frames.
type capturedSource struct {
	state State
	tap   *overlay.Tap
	// dropped frames found no room in the tap.
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
		return fmt.Errorf("have captured frames go to %s: %w", c.tap.Name, err)
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

func (c *capturedSource) look(s *Supervisor, _ *attachment) (taken bool) {
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
		return true // whoever removed it puts it back, and with it another one
	}
	defer other.Close()
	// One that was attached anew has a state of its own, in which no relay is.
	device, err := other.Relay()
	return err != nil || device == c.tap.Index
}

// resultFull counts frames for which there was no room where they wait for the relay.
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
