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
	Version       uint32
}

// version is KTSN_CAPTURE_VERSION of datapath/capture/record.h.
const version = 1

// heartbeat is struct ktsn_capture_heartbeat.
type heartbeat struct{ AtNs, Gated uint64 }

// AllGated is the set of gated priorities, a bit for each, while nobody knows the node's schedule.
const AllGated = 0xffff

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
	if err := putValue(s.of, &now); err != nil {
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

func (s *State) read() (now state, err error) { return readState(s.of) }

func readState(from *ebpf.Map) (now state, err error) {
	if err := readValue(from, &now); err != nil {
		return now, fmt.Errorf("read the program's state: %w", err)
	}
	return now, nil
}

func readHeartbeat(from *ebpf.Map) (last heartbeat, err error) {
	if err := readValue(from, &last); err != nil {
		return last, fmt.Errorf("read the heartbeat: %w", err)
	}
	return last, nil
}

// readValue reads the only entry of a map into a struct. The entry of a former release's program can be shorter; the fields
// that it lacks become 0.
func readValue(from *ebpf.Map, value any) error {
	read := make([]byte, max(int(from.ValueSize()), binary.Size(value)))
	if err := from.Lookup(uint32(0), read[:from.ValueSize()]); err != nil {
		return err
	}
	_, err := binary.Decode(read, binary.NativeEndian, value)
	return err
}

// putValue is the inverse of readValue.
func putValue(to *ebpf.Map, value any) error {
	written, err := binary.Append(nil, binary.NativeEndian, value)
	if err != nil {
		return err
	}
	written = append(written, make([]byte, max(0, int(to.ValueSize())-len(written)))...)
	return to.Put(uint32(0), written[:to.ValueSize()])
}

// SetGated tells the program at a port whose relay does not answer which priorities have a gate that the schedule closes at
// times, a bit for each.
func (s *State) SetGated(gated uint64) error {
	last, err := readHeartbeat(s.heartbeat)
	if err != nil || last.Gated == gated {
		return err
	}
	last.Gated = gated
	if err := putValue(s.heartbeat, &last); err != nil {
		return fmt.Errorf("write the gated priorities: %w", err)
	}
	return nil
}

func heartbeatAge(m *ebpf.Map) (time.Duration, error) {
	last, err := readHeartbeat(m)
	if err != nil || last.AtNs == 0 {
		return -1, err
	}
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return max(0, time.Duration(clock.Nano())-time.Duration(last.AtNs)), nil
}
