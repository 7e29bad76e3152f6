// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// verdicts runs the program on one datagram of each family and returns the reasons that were counted.
func (w *world) verdicts(t *testing.T) (ipv4, ipv6 string) {
	t.Helper()
	datagram, other := w.valid(), w.valid6()
	before := w.counts(t)
	w.run(t, datagram.bytes())
	between := w.counts(t)
	w.run(t, other.bytes())
	return difference(before, between), difference(between, w.counts(t))
}

func (w *world) expect(t *testing.T, when, ipv4, ipv6 string) {
	t.Helper()
	if got4, got6 := w.verdicts(t); got4 != ipv4 || got6 != ipv6 {
		t.Errorf("%s: %q and over IPv6 %q, want %q and %q", when, got4, got6, ipv4, ipv6)
	}
	// enum ktsn_receive_left of datapath/ring/receive_layout.h: the value of the last datagram, which ktsnd's status shows.
	places := map[string]uint32{"received": 0, "packet-filter": 1, "policy": 2, "cgroup-program": 3, "reuseport-program": 4}
	var control [32]uint32
	if err := w.control.Lookup(uint32(0), &control); err != nil || control[2] != places[ipv6] {
		t.Errorf("%s: the control page says %d (%v), want %d", when, control[2], err, places[ipv6])
	}
}

func TestPacketFiltersInPod(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<16)
	w.expect(t, "without rules", "received", "received")
	for name, c := range map[string]struct {
		family     nftables.TableFamily
		hook       *nftables.ChainHook
		ipv4, ipv6 string
	}{
		"input of IPv4":      {nftables.TableFamilyIPv4, nftables.ChainHookInput, "packet-filter", "received"},
		"prerouting of IPv6": {nftables.TableFamilyIPv6, nftables.ChainHookPrerouting, "received", "packet-filter"},
		"input of both":      {nftables.TableFamilyINet, nftables.ChainHookInput, "packet-filter", "packet-filter"},
		"output":             {nftables.TableFamilyINet, nftables.ChainHookOutput, "received", "received"},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, w.pod, func() error { return addChain(c.family, c.hook) })
			w.expect(t, "with rules", c.ipv4, c.ipv6)
			do(t, w.pod, func() error {
				rules, err := nftables.New()
				if err != nil {
					return err
				}
				rules.FlushRuleset()
				return rules.Flush()
			})
			// The kernel removes unused hooks later.
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if ipv4, ipv6 := w.verdicts(t); ipv4 == "received" && ipv6 == "received" {
					break
				}
			}
			w.expect(t, "after the rules", "received", "received")
		})
	}
}

func addChain(family nftables.TableFamily, hook *nftables.ChainHook) error {
	rules, err := nftables.New()
	if err != nil {
		return err
	}
	table := rules.AddTable(&nftables.Table{Family: family, Name: "test"})
	rules.AddChain(&nftables.Chain{Table: table, Name: "test", Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
	return rules.Flush()
}

func TestIPsecPoliciesInPod(t *testing.T) {
	w := newWorld(t)
	w.openRing(t, 1<<16)
	policy := &netlink.XfrmPolicy{
		Src: &net.IPNet{IP: net.IPv4(203, 0, 113, 0), Mask: net.CIDRMask(24, 32)},
		Dst: &net.IPNet{IP: net.IPv4(203, 0, 113, 0), Mask: net.CIDRMask(24, 32)},
		Dir: netlink.XFRM_DIR_IN, Action: netlink.XFRM_POLICY_BLOCK,
	}
	do(t, w.pod, func() error { return netlink.XfrmPolicyAdd(policy) })
	w.expect(t, "with a policy", "policy", "policy")
	do(t, w.pod, func() error { return netlink.XfrmPolicyDel(policy) })
	w.expect(t, "when it has gone", "received", "received")
}

func TestCgroupPrograms(t *testing.T) {
	w := newWorld(t)
	cgroup := newCgroup(t)
	w.enterRing(t, w.socketOf(t, cgroup), 1<<16)
	w.expect(t, "without a program", "received", "received")
	for name, c := range map[string]struct {
		kind ebpf.ProgramType
		at   ebpf.AttachType
		want string
	}{
		"ingress":                 {ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, "cgroup-program"},
		"recvmsg of IPv6":         {ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP6Recvmsg, "cgroup-program"},
		"recvmsg of IPv4 sockets": {ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP4Recvmsg, "received"},
		"egress":                  {ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress, "received"},
		"sendmsg":                 {ebpf.CGroupSockAddr, ebpf.AttachCGroupUDP4Sendmsg, "received"},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: c.kind, AttachType: c.at, License: "GPL",
				Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
			testlab.Must(t, err)
			defer program.Close()
			attached, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: c.at, Program: program})
			testlab.Must(t, err)
			w.expect(t, "with a program", c.want, c.want)
			attached.Close()
			w.expect(t, "when it has gone", "received", "received")
		})
	}
}

func TestReuseport(t *testing.T) {
	w := newWorld(t)
	var sockets [2]int
	var pages [2]*ebpf.Map
	for i := range sockets {
		do(t, w.pod, func() (err error) {
			sockets[i], err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				err = errors.Join(unix.SetsockoptInt(sockets[i], unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
					unix.Bind(sockets[i], &unix.SockaddrInet6{Port: testPodPort}))
			}
			return err
		})
		t.Cleanup(func() { unix.Close(sockets[i]) })
		w.enterRing(t, sockets[i], 1<<16)
		pages[i] = w.control
	}
	const many = 64
	before := w.counts(t).Received
	for i := range many {
		datagram := w.valid()
		datagram.sourcePort += uint16(i)
		w.run(t, datagram.bytes())
	}
	var got [2]uint64
	for i, page := range pages {
		var control [16]uint64
		testlab.Must(t, page.Lookup(uint32(0), &control))
		got[i] = control[9]
	}
	if sum := w.counts(t).Received - before; sum != many || got[0] == 0 || got[1] == 0 || got[0]+got[1] != many {
		t.Errorf("%d of %d datagrams went into rings: %v", sum, many, got)
	}
	// Always the first socket.
	chooses := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	err := unix.SetsockoptSockFprog(sockets[1], unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &chooses[0]})
	testlab.Must(t, err)
	if got4, got6 := w.verdicts(t); got4 != "reuseport-program" || got6 != "reuseport-program" {
		t.Errorf("with a program: %q and over IPv6 %q", got4, got6)
	}
	testlab.Must(t, unix.SetsockoptInt(sockets[0], unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0))
	if got4, got6 := w.verdicts(t); got4 != "received" || got6 != "received" {
		t.Errorf("when it has gone: %q and over IPv6 %q", got4, got6)
	}
}

// newCgroup creates a cgroup of version 2 and returns its folder.
func newCgroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var at unix.Statfs_t
		if unix.Statfs(root, &at) != nil || at.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		folder, err := os.MkdirTemp(root, "ktsn-test-")
		testlab.Must(t, err)
		t.Cleanup(func() {
			if err := os.Remove(folder); err != nil {
				t.Error(err)
			}
		})
		return folder
	}
	testlab.Missing(t, "no cgroups of version 2")
	return ""
}

const handsSocket = "KTSN_TEST_HANDS_SOCKET"

// socketOf returns a socket that a process of the cgroup has opened in the pod.
func (w *world) socketOf(t *testing.T, cgroup string) int {
	t.Helper()
	folder, err := os.Open(cgroup)
	testlab.Must(t, err)
	defer folder.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	testlab.Must(t, err)
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "pair")
	defer theirs.Close()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), handsSocket+"=1")
	command.ExtraFiles = []*os.File{theirs}
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	do(t, w.pod, func() error {
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("the other process says: %s", out)
		}
		return err
	})
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	testlab.Must(t, err)
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d control messages: %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	testlab.Must(t, err)
	t.Cleanup(func() { unix.Close(fds[0]) })
	return fds[0]
}
