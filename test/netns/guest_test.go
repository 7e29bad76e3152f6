// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
	"github.com/kubernetsn/kubernetsn/test/internal/guest"
)

const (
	guestTap = "vm0"
	// guestPatience is for a virtual machine, which takes half a minute on an idle machine.
	guestPatience = 5 * time.Minute
)

// connectGuest gives pod a's interface to a virtual machine: all frames pass between the interface and a tap, whose other end is
// QEMU's. It returns the interface's hardware address, which is to be the machine's.
func (c *captured) connectGuest(t *testing.T) (address string) {
	t.Helper()
	err := c.PodA.Do(func() error {
		link, err := netlink.LinkByName(topology.PodInterface)
		if err != nil {
			return err
		}
		address = link.Attrs().HardwareAddr.String()
		attributes := netlink.NewLinkAttrs()
		attributes.Name = guestTap
		tap := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_NO_PI}
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(tap); err != nil {
			return err
		}
		for _, way := range [][2]string{{guestTap, topology.PodInterface}, {topology.PodInterface, guestTap}} {
			if err := passOn(way[0], way[1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// passOn sends all that comes in at one interface out of another.
func passOn(from, to string) error {
	in, err := netlink.LinkByName(from)
	if err != nil {
		return err
	}
	out, err := netlink.LinkByName(to)
	if err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(out.Attrs().Index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	}})
	if err != nil {
		return err
	}
	defer program.Close()
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: in.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := netlink.QdiscAdd(clsact); err != nil && !os.IsExist(err) {
		return err
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: in.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
		Fd:          program.FD(), Name: "pass-on", DirectAction: true,
	})
}

// guestStatus is what ktsn-guest says of an interface.
type guestStatus struct {
	Known   bool              `json:"known"`
	BoundNs int64             `json:"bound_ns"`
	AheadNs int64             `json:"host_tai_ahead_of_guest_ns"`
	Sent    uint64            `json:"sent"`
	Refused map[string]uint64 `json:"refused"`
}

func readGuestStatus(t *testing.T, path string) guestStatus {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []guestStatus
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 1 {
		t.Fatalf("ktsn-guest says %q: %v", text, err)
	}
	return all[0]
}

// bootGuest runs a program in a virtual machine behind pod a's interface, with ktsn-guest, and returns what that said before and
// after it.
func (c *captured) bootGuest(t *testing.T, processors int, program string, arguments ...string) (before, after guestStatus) {
	t.Helper()
	address := c.connectGuest(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	socket := filepath.Join(c.dir, "clock.sock")
	qemu := guest.QEMU(t, root)
	machine := guest.Machine{
		Base: guest.Kernel(t, root), First: testenv.Program(t, "ktsn-test-guest"), Out: out, Processors: processors, MemoryMiB: 512,
		Shown: []string{root, filepath.Dir(program)},
		QEMU:  append([]string{"ip", "netns", "exec", c.PodA.Name()}, qemu...),
		Devices: []string{
			"-netdev", "tap,id=net,ifname=" + guestTap + ",script=no,downscript=no,vhost=off", "-device", "virtio-net-pci,netdev=net,mac=" + address,
			"-device", "virtio-serial", "-chardev", "socket,id=clock,path=" + socket + ",server=on,wait=off",
			"-device", "virtserialport,chardev=clock,name=org.kubernetsn.clock",
		},
	}
	start(t, c.NodeA, "ktsn vm clock", exec.Command(testenv.Program(t, "ktsn"), "vm", "clock", "--socket", socket))
	ctx, cancel := context.WithTimeout(t.Context(), guestPatience)
	defer cancel()
	status, err := machine.Run(ctx, guest.Command{
		Dir: filepath.Join(root, "test/netns"),
		Arguments: append([]string{"testdata/guest.sh", testenv.Program(t, "ktsn-guest"), netip.PrefixFrom(topology.PodAddressA, 16).String(), "1450", program},
			arguments...),
	})
	said, _ := os.ReadFile(filepath.Join(out, guest.LogFile))
	ran, _ := os.ReadFile(filepath.Join(out, "run"))
	if err != nil || status != 0 {
		t.Fatalf("the virtual machine: %v, status %d\n%s\n%s", err, status, said, ran)
	}
	t.Logf("%s%s", said, ran)
	return readGuestStatus(t, filepath.Join(out, "before")), readGuestStatus(t, filepath.Join(out, "after"))
}

func TestGuestsFramesAreHeldOnTheHostUntilTheirTime(t *testing.T) {
	const count = 200
	c := newCaptured(t, capture.Timed)
	p := &plan{to: atPodB, count: count, clock: unix.CLOCK_TAI, leadNs: 100_000_000, cycle: 10_000_000}
	sender := cProgram(t, muslCompiler(t), "sendmsg", p)
	listener := listen(t, c.PodB, "udp", atPodB)
	tap := c.openTap(t, 2*count)
	before, after := c.bootGuest(t, 2, sender.Path, sender.Args[1:]...)
	if !before.Known || !after.Known || after.Sent != count || len(after.Refused) > 0 {
		t.Errorf("ktsn-guest says %+v before and %+v after", before, after)
	}
	seen := marksOn(t, tap, count)
	if len(seen) != count {
		t.Errorf("%d of %d messages were on the wire", len(seen), count)
	}
	// What the host's clock is ahead is known at both ends only, each time within a bound.
	least := min(before.AheadNs, after.AheadNs) - max(before.BoundNs, after.BoundNs)
	latest := int64(0)
	var worst int64
	for _, one := range seen {
		if early := one.txtime + least - one.wireTAI; early > 0 {
			t.Errorf("message %d left %v early", one.number, time.Duration(early))
		}
		if one.txtime < latest {
			t.Errorf("message %d left behind one of a later time", one.number)
		}
		latest = max(latest, one.txtime)
		worst = max(worst, one.wireTAI-one.txtime-least)
	}
	t.Logf("bounds %v and %v, worst departure behind the earliest possible %v", time.Duration(before.BoundNs), time.Duration(after.BoundNs), time.Duration(worst))
	checkMarksReceived(t, texts(t, listener), count)
	status, err := c.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Counters.Sent != count {
		t.Errorf("ktsnd has sent %d", status.Counters.Sent)
	}
}
