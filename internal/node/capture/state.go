// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// state is struct ktsn_capture_state of datapath/capture/record.h.
type state struct {
	RelayIfindex  uint32
	Mode, ClassBy uint16
}

// heartbeat is struct ktsn_capture_heartbeat.
type heartbeat struct{ AtNs, Gated uint64 }

// HeartbeatLimit is the age of a heartbeat from which on frames without a time are the bridge's, unless the schedule closes their gate
// at times: KTSN_CAPTURE_HEARTBEAT_NS of datapath/capture/record.h.
const HeartbeatLimit = 50 * time.Millisecond

// State is the state of the program at a port: by it who runs the relay tells the program of the relay, and the relay that it
// answers. A State stays valid after the port has gone, and then has no effect.
type State struct{ of, heartbeat *ebpf.Map }

// OpenState opens the state of the program at a port. It is another one when the program was attached anew.
func OpenState(portName string) (*State, error) {
	maps, err := portHook.open(portName)
	if err != nil {
		return nil, err
	}
	defer maps.close()
	return &State{maps.take(stateMap), maps.take(heartbeatMap)}, nil
}

// HeartbeatFD is the descriptor of the only map that is for the relay, which maps it into its memory.
func (s *State) HeartbeatFD() int { return s.heartbeat.FD() }

// Close closes it.
func (s *State) Close() error { return errors.Join(s.of.Close(), s.heartbeat.Close()) }

// SetRelay tells the program which device the relay reads; 0: none, so that timed frames are dropped, and others are the bridge's
// unless the schedule closes their gate at times.
func (s *State) SetRelay(ifindex int) error {
	now, err := s.read()
	if err != nil {
		return err
	}
	now.RelayIfindex = uint32(ifindex)
	if err := s.of.Put(uint32(0), &now); err != nil {
		return fmt.Errorf("write the program's state: %w", err)
	}
	return nil
}

// Relay is the device that the program was told of, 0 for none.
func (s *State) Relay() (int, error) {
	now, err := s.read()
	return int(now.RelayIfindex), err
}

// Heartbeat is how long ago the relay said that ktsnd takes untimed frames; negative if it never did.
func (s *State) Heartbeat() (time.Duration, error) { return heartbeatAge(s.heartbeat) }

func (s *State) read() (now state, err error) {
	if err := s.of.Lookup(uint32(0), &now); err != nil {
		return now, fmt.Errorf("read the program's state: %w", err)
	}
	return now, nil
}

func readHeartbeat(of *ebpf.Map) (heartbeat, error) {
	var last heartbeat
	// That of a former release's program has the time only.
	value := make([]byte, max(int(of.ValueSize()), binary.Size(last)))
	if err := of.Lookup(uint32(0), value[:of.ValueSize()]); err != nil {
		return last, fmt.Errorf("read the heartbeat: %w", err)
	}
	_, err := binary.Decode(value, binary.NativeEndian, &last)
	return last, err
}

func heartbeatAge(of *ebpf.Map) (time.Duration, error) {
	last, err := readHeartbeat(of)
	if err != nil || last.AtNs == 0 {
		return -1, err
	}
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return max(0, time.Duration(clock.Nano())-time.Duration(last.AtNs)), nil
}
