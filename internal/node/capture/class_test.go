// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const (
	machineTap    = "machine"
	machineQueues = 4
	// untimed is KTSN_RECORD_UNTIMED, which marks the record of a frame with a class and without a time.
	untimed = 3 << 4
)

// machine is a multi-queue tap, as opened by QEMU, whose frames are redirected to the ingress of the node's end.
type machine struct {
	*wire
	queues []int
}

func newMachine(t *testing.T, by ClassBy) *machine {
	t.Helper()
	m := &machine{wire: newWireWithClasses(t, All, by)}
	do(t, m.node, func() error {
		for range machineQueues {
			fd, err := openTapAs(machineTap, unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_MULTI_QUEUE)
			if err != nil {
				return err
			}
			m.queues = append(m.queues, fd)
		}
		return errors.Join(setUp(machineTap), redirectIn(machineTap, nodeEnd))
	})
	t.Cleanup(func() {
		for _, fd := range m.queues {
			_ = unix.Close(fd)
		}
	})
	return m
}

// redirectIn redirects incoming frames of one device to the ingress of another.
func redirectIn(from, to string) error {
	at, errAt := netlink.LinkByName(from)
	target, errTarget := netlink.LinkByName(to)
	if err := errors.Join(errAt, errTarget); err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(target.Attrs().Index)), asm.Mov.Imm(asm.R2, 1), asm.FnRedirect.Call(), asm.Return(),
	}})
	if err != nil {
		return err
	}
	defer program.Close()
	return netdev.Filter{Side: netdev.Ingress, Priority: filterPriority, Name: "redirect"}.Attach(netdev.Here, at, program)
}

// leave sends a frame from a queue of the machine and returns the frame that the relay gets.
func (m *machine) leave(t *testing.T, queue int, frame []byte) []byte {
	t.Helper()
	// Without a recent heartbeat the bridge would get the frame; a busy machine can take longer than HeartbeatLimit.
	return testlab.EventuallyValue(t, patience, 0, func() ([]byte, error) {
		m.beat(t, -HeartbeatLimit/2)
		if _, err := unix.Write(m.queues[queue], frame); err != nil {
			t.Fatal(err)
		}
		for m.comes(HeartbeatLimit) {
			// The pod's kernel sends frames of its own.
			if got := m.read(t); bytes.HasSuffix(got, frame[14:]) {
				return got, nil
			}
		}
		return nil, fmt.Errorf("%x did not come to the relay", frame)
	})
}

// comes reports whether a frame reaches the relay in time.
func (m *machine) comes(within time.Duration) bool {
	count, err := unix.Poll([]unix.PollFd{{Fd: int32(m.tap), Events: unix.POLLIN}}, int(within.Milliseconds()))
	return err == nil && count > 0
}

func TestClassByQueue(t *testing.T) {
	m := newMachine(t, ClassByQueue)
	if _, port := m.counts(t); port.ClassBy != ClassByQueue {
		t.Errorf("the class is by %v", port.ClassBy)
	}
	for queue := range machineQueues {
		frame := ethernet([]byte(fmt.Sprintf("by queue %d", queue)), 0x0800)
		got := m.leave(t, queue, frame)
		if queue > 0 {
			got = withoutRecord(t, got, byte(queue)|untimed, 0)
		}
		if !bytes.Equal(got, frame) {
			t.Errorf("queue %d: the relay got %x, want %x", queue, got, frame)
		}
	}
}

// tagged returns a frame's bytes from the tag on.
func tagged(tag uint16) []byte {
	return append(binary.BigEndian.AppendUint16(nil, tag), append([]byte{0x08, 0x00}, make([]byte, 46)...)...)
}

func TestClassByTag(t *testing.T) {
	m := newMachine(t, ClassByPCP)
	for _, test := range []struct {
		name  string
		frame []byte
		what  byte
	}{
		{"without a tag", ethernet([]byte("plain"), 0x0800), 0},
		{"with PCP 0", ethernet(tagged(0x0005), unix.ETH_P_8021Q), 0},
		{"with PCP 6", ethernet(tagged(0xc005), unix.ETH_P_8021Q), 6},
	} {
		got := m.leave(t, 1, test.frame)
		if test.what != 0 {
			got = withoutRecord(t, got, test.what|untimed, 0)
		}
		if !bytes.Equal(got, test.frame) {
			t.Errorf("%s: the relay got %x, want %x", test.name, got, test.frame)
		}
	}
}

func TestClassByText(t *testing.T) {
	for _, by := range []ClassBy{ClassByRecord, ClassByPCP, ClassByQueue} {
		if got, err := ParseClassBy(by.String()); err != nil || got != by {
			t.Errorf("%v is read as %v, %v", by, got, err)
		}
	}
	if _, err := ParseClassBy("vlan"); err == nil {
		t.Error("vlan is accepted")
	}
}

// A machine chooses the tag. A frame must not bypass the gates by a tag with a higher priority than those that are gated.
func TestGatesOfLowerPriorities(t *testing.T) {
	m := newMachine(t, ClassByPCP)
	testlab.Must(t, m.state.SetRelay(0))
	twice := append(binary.BigEndian.AppendUint16(nil, 0xe005), append([]byte{0x81, 0x00}, tagged(0x0006)...)...)
	for _, test := range []struct {
		name   string
		gated  uint64
		frame  []byte
		passes bool
	}{
		{"PCP 7 while 3 is gated", 1 << 3, ethernet(tagged(0xe005), unix.ETH_P_8021Q), false},
		{"PCP 2 while 3 is gated", 1 << 3, ethernet(tagged(0x4005), unix.ETH_P_8021Q), true},
		{"PCP 7 while 8 is gated", 1 << 8, ethernet(tagged(0xe005), unix.ETH_P_8021Q), true},
		{"two tags while 3 is gated", 1 << 3, ethernet(twice, unix.ETH_P_8021Q), true},
	} {
		testlab.Must(t, m.state.SetGated(test.gated))
		_, before := m.counts(t)
		if _, err := unix.Write(m.queues[1], test.frame); err != nil {
			t.Fatal(err)
		}
		_, after := m.counts(t)
		for deadline := time.Now().Add(patience); after.Passed+after.Gated == before.Passed+before.Gated && time.Now().Before(deadline); {
			_, after = m.counts(t)
		}
		if passed := after.Passed > before.Passed; passed != test.passes || (after.Gated > before.Gated) == test.passes {
			t.Errorf("%s: it counted %+v, before %+v", test.name, after, before)
		}
	}
}
