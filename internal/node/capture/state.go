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

// AllGated has a bit for every priority. It is the set of gated priorities while the node's schedule is unknown.
const AllGated = 0xffff

// HeartbeatLimit is the heartbeat's age beyond which untimed frames go to the bridge, unless the schedule closes their gate
// at times: KTSN_CAPTURE_HEARTBEAT_NS of datapath/capture/record.h.
const HeartbeatLimit = 50 * time.Millisecond

// State is the state of the program at a port. Through it the supervisor sets the relay's device, and the relay writes its
// heartbeat. A State stays valid after the port has gone, and then has no effect.
type State struct{ state, heartbeat *ebpf.Map }

// OpenState opens the state of the program at a port. A program that is attached again has a new state.
func OpenState(portName string) (*State, error) {
	maps, err := portHook.open(portName)
	if err != nil {
		return nil, err
	}
	defer maps.close()
	return &State{maps.take(stateMap), maps.take(heartbeatMap)}, nil
}

// HeartbeatFD returns the descriptor of the heartbeat map, the only map that the relay gets; it maps it into its memory.
func (s *State) HeartbeatFD() int { return s.heartbeat.FD() }

// Close closes the maps.
func (s *State) Close() error { return errors.Join(s.state.Close(), s.heartbeat.Close()) }

// SetRelay sets the interface index of the device that the relay reads; 0: none. Timed frames are then dropped, others go to the bridge
// unless the schedule closes their gate at times.
func (s *State) SetRelay(ifindex int) error {
	now, err := s.read()
	if err != nil {
		return err
	}
	now.RelayIfindex = uint32(ifindex)
	if err := putValue(s.state, &now); err != nil {
		return fmt.Errorf("write the program's state: %w", err)
	}
	return nil
}

// Relay returns the interface index given to SetRelay, 0 for none.
func (s *State) Relay() (int, error) {
	now, err := s.read()
	return int(now.RelayIfindex), err
}

// Heartbeat returns the age of the relay's last report that ktsnd takes untimed frames; negative if there was none.
func (s *State) Heartbeat() (time.Duration, error) { return heartbeatAge(s.heartbeat) }

func (s *State) read() (now state, err error) { return readState(s.state) }

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

// readValue reads the only entry of a map into a struct. The entry of another release's program can be shorter; the fields
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

// SetGated sets, for a port whose relay does not answer, which priorities have a gate that the schedule closes at
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
