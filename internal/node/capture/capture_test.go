// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// frames_test.go and test/netns test what the programs do with packets.

// The two ends of a veth pair, here in one network namespace.
const (
	podEnd  = "tsn0"
	nodeEnd = "port"
)

// namespace creates a network namespace with both ends of an interface.
func namespace(t *testing.T) *topology.Namespace {
	t.Helper()
	netns := emptyNamespace(t)
	do(t, netns, func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = podEnd
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: nodeEnd})
	})
	return netns
}

func emptyNamespace(t *testing.T) *topology.Namespace {
	t.Helper()
	testlab.Root(t)
	if _, err := object.Open(objectFile); err != nil {
		testlab.Missing(t, "the program is not built; run `make build`")
	}
	return topology.NewTestNamespace(t, "capture")
}

func do(t *testing.T, where *topology.Namespace, work func() error) {
	t.Helper()
	testlab.Must(t, where.Do(work))
}

// filters counts the filters of one side of an interface.
func filters(t *testing.T, interfaceName string, parent uint32) int {
	t.Helper()
	link, errLink := netlink.LinkByName(interfaceName)
	all, errList := netlink.FilterList(link, parent)
	testlab.Must(t, errors.Join(errLink, errList))
	return len(all)
}

func TestAttachAndRead(t *testing.T) {
	where := namespace(t)
	do(t, where, func() error {
		before, errBefore := Read(podEnd)
		if before.Attached {
			t.Error("the program is attached before AttachPod")
		}
		// The second replaces the first.
		errAttach := errors.Join(AttachPod(podEnd, Timed), AttachPod(podEnd, All))
		if got := filters(t, podEnd, netlink.HANDLE_MIN_EGRESS); got != 1 {
			t.Errorf("there are %d filters, want 1", got)
		}
		return errors.Join(errBefore, errAttach)
	})
	count, err := ReadIn(where.Path(), podEnd)
	if err != nil || !count.Attached || count.Mode != All || count.Captured != 0 || len(count.Refused) != 0 || len(count.Programs) != 0 {
		t.Errorf("the counters are %+v, %v", count, err)
	}
}

func TestSetRelay(t *testing.T) {
	where := namespace(t)
	do(t, where, func() error {
		if _, err := OpenState(nodeEnd); !errors.Is(err, ErrUnattached) {
			t.Errorf("of a port without the program OpenState returns %v", err)
		}
		if err := AttachPort(nodeEnd, All, ClassByRecord, 0); err != nil {
			return err
		}
		now, err := OpenState(nodeEnd)
		if err != nil {
			return err
		}
		defer now.Close()
		count, errRead := ReadPort(nodeEnd)
		if !count.Attached || count.Mode != All || count.RelayIfindex != 0 || count.HeartbeatAge >= 0 {
			t.Errorf("without a relay ReadPort returns %+v", count)
		}
		errSet := now.SetRelay(42)
		relay, errRelay := now.Relay()
		mode, errMode := ReadPort(nodeEnd)
		if relay != 42 || mode.RelayIfindex != 42 || mode.Mode != All {
			t.Errorf("the relay is %d, %+v, want 42", relay, mode)
		}
		return errors.Join(errRead, errSet, errRelay, errMode)
	})
}

func TestHeartbeatAge(t *testing.T) {
	where := namespace(t)
	do(t, where, func() error {
		if err := AttachPort(nodeEnd, All, ClassByRecord, 0); err != nil {
			return err
		}
		opened, err := OpenState(nodeEnd)
		if err != nil {
			return err
		}
		defer opened.Close()
		var clock unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
			return err
		}
		err = opened.heartbeat.Put(uint32(0), &heartbeat{AtNs: uint64(clock.Nano() - int64(time.Hour))})
		if age, errAge := opened.Heartbeat(); errAge != nil || age < time.Hour || age > 2*time.Hour {
			t.Errorf("the heartbeat's age is %v, %v", age, errAge)
		}
		return err
	})
}

func TestReattachResetsRelay(t *testing.T) {
	do(t, namespace(t), func() error {
		errFirst := AttachPort(nodeEnd, Timed, ClassByRecord, 0)
		first, err := OpenState(nodeEnd)
		if err := errors.Join(errFirst, err); err != nil {
			return err
		}
		defer first.Close()
		errSet := first.SetRelay(42)
		before, errBefore := ReadPort(nodeEnd)
		errAgain := AttachPort(nodeEnd, Timed, ClassByRecord, 0)
		after, errAfter := ReadPort(nodeEnd)
		if before.RelayIfindex != 42 || after.RelayIfindex != 0 {
			t.Errorf("the relay is %d before, %d after", before.RelayIfindex, after.RelayIfindex)
		}
		return errors.Join(errSet, errBefore, errAgain, errAfter)
	})
}

func TestHeartbeatMapIsolation(t *testing.T) {
	do(t, namespace(t), func() error {
		errAttach := AttachPort(nodeEnd, All, ClassByRecord, 0)
		opened, err := OpenState(nodeEnd)
		if err := errors.Join(errAttach, err); err != nil {
			return err
		}
		defer opened.Close()
		given, err := opened.heartbeat.Info()
		if err != nil {
			return err
		}
		if opened.HeartbeatFD() != opened.heartbeat.FD() || given.Name != heartbeatMap || given.ValueSize != 16 || given.MaxEntries != 1 {
			t.Errorf("the relay gets the map %+v", given)
		}
		if _, err := unix.Mmap(opened.state.FD(), 0, unix.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED); err == nil {
			t.Error("the state can be mapped")
		}
		return nil
	})
}

// addForeign adds a filter of another program.
func addForeign(interfaceName string, parent uint32) error {
	link, errLink := netlink.LinkByName(interfaceName)
	loaded, errLoad := load(captureProgram, None, ClassByRecord)
	if err := errors.Join(errLink, errLoad, netlink.QdiscAdd(netdev.Clsact(link))); err != nil {
		return err
	}
	defer loaded.Close()
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: link.Attrs().Index, Parent: parent, Priority: 5, Protocol: unix.ETH_P_ALL},
		Fd:          loaded.Programs[captureProgram].FD(), Name: "another", DirectAction: true,
	})
}

func TestForeignFilterStays(t *testing.T) {
	for name, test := range map[string]struct {
		at     string
		parent uint32
		attach func() error
		there  func() (bool, error)
	}{
		"in the pod": {
			podEnd, netlink.HANDLE_MIN_EGRESS, func() error { return AttachPod(podEnd, Timed) },
			func() (bool, error) { count, err := Read(podEnd); return count.Attached, err },
		},
		"at the node's end": {
			nodeEnd, netlink.HANDLE_MIN_INGRESS, func() error { return AttachPort(nodeEnd, Timed, ClassByRecord, 0) },
			func() (bool, error) { count, err := ReadPort(nodeEnd); return count.Attached, err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, namespace(t), func() error {
				err := addForeign(test.at, test.parent)
				before, errBefore := test.there()
				errAttach := test.attach()
				beside, errBeside := test.there()
				if got := filters(t, test.at, test.parent); before || !beside || got != 2 {
					t.Errorf("ours is there before: %v, after: %v; there are %d filters, want 2", before, beside, got)
				}
				return errors.Join(err, errBefore, errAttach, errBeside)
			})
		})
	}
}

func TestBehindTCX(t *testing.T) {
	do(t, namespace(t), func() error {
		if err := AttachOther(podEnd); err != nil {
			return err
		}
		link, err := netlink.LinkByName(podEnd)
		if err != nil {
			return err
		}
		if behind, err := podHook.isBehindOthers(link); err != nil || behind {
			t.Errorf("alone, it is behind others: %t, %v", behind, err)
		}
		loaded, err := load(captureProgram, None, ClassByRecord)
		if err != nil {
			return err
		}
		defer loaded.Close()
		theirs, err := bpflink.AttachTCX(bpflink.TCXOptions{
			Interface: link.Attrs().Index, Program: loaded.Programs[captureProgram], Attach: ebpf.AttachTCXEgress,
		})
		if errors.Is(err, ebpf.ErrNotSupported) {
			t.Skip("the kernel is older than Linux 6.6 and has no tcx")
		}
		if err != nil {
			return err
		}
		defer theirs.Close()
		if behind, err := podHook.isBehindOthers(link); err != nil || !behind {
			t.Errorf("with a tcx program, it is behind others: %t, %v", behind, err)
		}
		return nil
	})
}

// A pod's interface may get our program between two looks at it.
func TestAttachOtherOnce(t *testing.T) {
	do(t, namespace(t), func() error {
		err := errors.Join(AttachPod(podEnd, Timed), AttachOther(podEnd), AttachOther(nodeEnd), AttachOther(nodeEnd))
		for _, name := range []string{podEnd, nodeEnd} {
			if got := filters(t, name, netlink.HANDLE_MIN_EGRESS); got != 1 {
				t.Errorf("%s has %d filters, want 1", name, got)
			}
		}
		if count, errRead := Read(podEnd); errRead != nil || count.Mode != Timed {
			t.Errorf("the counters are %+v, %v", count, errRead)
		}
		return err
	})
}

func TestAttachMissingInterface(t *testing.T) {
	do(t, namespace(t), func() error {
		if err := AttachOther("none"); !errors.Is(err, ErrGone) {
			t.Errorf("of an interface off the network it said %v", err)
		}
		if err := AttachPod("none", None); err == nil || !strings.Contains(err.Error(), "leaving none early") {
			t.Errorf("it said %v", err)
		}
		if err := AttachPort("none", All, ClassByRecord, 0); err == nil || !strings.Contains(err.Error(), "come in at none") {
			t.Errorf("of a port it said %v", err)
		}
		if _, err := Read("none"); !errors.Is(err, ErrGone) {
			t.Errorf("of its count it said %v", err)
		}
		return nil
	})
}

func TestHasClock(t *testing.T) {
	if err := hasClock(&btf.Struct{Name: "sock", Members: []btf.Member{{Name: "sk_priority"}}}); err == nil || !strings.Contains(err.Error(), "no sk_clockid") {
		t.Errorf("of a kernel without it, it said %v", err)
	}
	if err := hasClock(&btf.Struct{Name: "sock", Members: []btf.Member{{Name: "sk_priority"}, {Name: "sk_clockid"}}}); err != nil {
		t.Errorf("of one with it, it said %v", err)
	}
}

func TestModeText(t *testing.T) {
	for _, mode := range []Mode{None, Timed, All} {
		if got, err := ParseMode(mode.String()); err != nil || got != mode {
			t.Errorf("%v was read as %v, %v", mode, got, err)
		}
	}
	if _, err := ParseMode("timed"); err == nil || !strings.Contains(err.Error(), `give "None", "Timed" or "All"`) {
		t.Errorf("of another word it said %v", err)
	}
}

func TestReadPortOtherRelease(t *testing.T) {
	do(t, namespace(t), func() error {
		errAttach := AttachPort(nodeEnd, All, ClassByRecord, 0)
		opened, err := OpenState(nodeEnd)
		if err := errors.Join(errAttach, err); err != nil {
			return err
		}
		defer opened.Close()
		before, errBefore := ReadPort(nodeEnd)
		errPut := opened.state.Put(uint32(0), &state{Mode: uint16(All), Version: version - 1})
		after, errAfter := ReadPort(nodeEnd)
		if before.Former || !after.Former {
			t.Errorf("it is of another release before: %v, after: %v", before.Former, after.Former)
		}
		return errors.Join(errBefore, errPut, errAfter)
	})
}

// Maps of other releases can have shorter entries.
func TestShorterMapEntries(t *testing.T) {
	testlab.Root(t)
	former, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	testlab.Must(t, err)
	defer former.Close()
	last, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	testlab.Must(t, err)
	defer last.Close()
	opened := &State{former, last}
	errMode := putValue(former, &state{Mode: uint16(All)})
	errRelay := opened.SetRelay(42)
	now, errRead := opened.read()
	testlab.Must(t, errors.Join(errMode, errRelay, errRead, opened.SetGated(1)))
	if now.RelayIfindex != 42 || Mode(now.Mode) != All || now.Version == version {
		t.Errorf("it read %+v", now)
	}
}
