// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// floodEntries lists the nodes to which the tunnel floods.
func (n *node) floodEntries(t *testing.T) []string {
	t.Helper()
	var all []string
	must(t, n.Do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err != nil {
			return err
		}
		entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
		for _, entry := range entries {
			if entry.IP != nil && entry.HardwareAddr.String() == "00:00:00:00:00:00" {
				all = append(all, entry.IP.String())
			}
		}
		return err
	}))
	return all
}

// ktsndPeers lists the peers of ktsnd.
func (n *node) ktsndPeers(t *testing.T) []string {
	t.Helper()
	peers, err := n.client.Peers(t.Context())
	must(t, err)
	var all []string
	for _, peer := range peers {
		all = append(all, peer.Address.String())
	}
	return all
}

func checkPeers(t *testing.T, n *node, when, kernel, ktsnd string) {
	t.Helper()
	if got := strings.Join(n.floodEntries(t), " "); got != kernel {
		t.Errorf("%s: the kernel floods to %q, want %q", when, got, kernel)
	}
	if got := strings.Join(n.ktsndPeers(t), " "); got != ktsnd {
		t.Errorf("%s: ktsnd has %q, want %q", when, got, ktsnd)
	}
}

func TestPeersReachKernelAndKtsnd(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	add := []string{"node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24"}
	del := []string{"node", "peers", "del", "--vni", "42", "192.0.2.2"}
	const header = "VNI  ADDRESS    SUBNETS         REMEMBERED  KERNEL     KTSND  GROUPS          MTU  LOST  HEALTH\n"

	lab.a.ktsn(t, add...)
	if out := lab.a.ktsn(t, "node", "peers", "list"); out != header+"42   192.0.2.2  [10.42.2.0/24]  yes         no tunnel  yes    all: not known  -    -     not measured\n" {
		t.Errorf("before there is a pod: %q", out)
	}
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	checkPeers(t, lab.a, "a tunnel that was made later", "192.0.2.2", "192.0.2.2")
	for range 2 {
		lab.a.ktsn(t, del...)
		checkPeers(t, lab.a, "deleted, and once more", "", "")
	}
	for range 2 {
		lab.a.ktsn(t, add...)
		checkPeers(t, lab.a, "added, and once more", "192.0.2.2", "192.0.2.2")
	}
	if out := lab.a.ktsn(t, "node", "peers", "list", "-o", "json"); !strings.Contains(out, `"kernel": "yes"`) || !strings.Contains(out, `"ktsnd": "yes"`) {
		t.Errorf("as JSON: %s", out)
	}

	t.Run("an error of ktsnd changes nothing", func(t *testing.T) {
		_, err := lab.a.tryKtsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.1", "10.42.9.0/24")
		testlab.CheckError(t, err, "this is the local node's own address")
		checkPeers(t, lab.a, "after it", "192.0.2.2", "192.0.2.2")
	})
	t.Run("without ktsnd nothing changes", func(t *testing.T) {
		lab.a.stopDaemon(t)
		command := exec.Command(program(t, "ktsn"), append(del, "--control", lab.a.control(), "--state-dir", filepath.Join(lab.a.dir, "state"))...)
		testlab.CheckError(t, start(t, lab.a, "ktsn", command).Wait(), "is ktsnd running")
		if got := strings.Join(lab.a.floodEntries(t), " "); got != "192.0.2.2" {
			t.Errorf("the kernel floods to %q", got)
		}
	})
}

// TestKilledPeerChangeIsRepaired kills `ktsn node peers add` between its steps.
func TestKilledPeerChangeIsRepaired(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	pod.add(t, lab.a.config(nil))
	dir := buildFolder(t, "ktsn-killable")
	must(t, build("../..", dir, "-tags=ktsn_faults", "./cmd/ktsn"))
	common := []string{"--control", lab.a.control(), "--state-dir", filepath.Join(lab.a.dir, "state")}
	for _, point := range fault.Peers {
		for name, after := range map[string]struct {
			command string
			want    string
		}{"by add": {"add", "192.0.2.2"}, "by del": {"del", ""}} {
			t.Run(point+", "+name, func(t *testing.T) {
				command := exec.Command(filepath.Join(dir, "ktsn"), append([]string{"node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24"}, common...)...)
				command.Env = append(os.Environ(), fault.Variable+"="+point)
				mustBeKilled(t, start(t, lab.a, "ktsn", command).Wait())
				arguments := []string{"node", "peers", after.command, "--vni", "42", "192.0.2.2"}
				if after.command == "add" {
					arguments = append(arguments, "10.42.2.0/24")
				}
				lab.a.ktsn(t, arguments...)
				checkPeers(t, lab.a, "after it", after.want, after.want)
				lab.a.ktsn(t, "node", "peers", "del", "--vni", "42", "192.0.2.2")
			})
		}
	}
}

func buildFolder(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/" + name)
	must(t, err)
	return dir
}

// TestRemovedPeerRemovesItsPods checks the learned entries of the tunnel. The node is disconnected first: the tunnel
// learns from each received frame, and the kernel of a pod sends some on its own (MLD reports within the first
// seconds).
func TestRemovedPeerRemovesItsPods(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	target := r.address(r.b1, true)
	ping(t, r.a1, target, 56)
	if !r.a.learnt(t, netip.MustParseAddr("192.0.2.2")) {
		t.Fatal("the tunnel has learnt nothing; the test proves nothing")
	}
	on(t, r.b.Namespace, uplinkName, netlink.LinkSetDown)
	r.a.ktsn(t, "node", "peers", "del", "--vni", "42", "192.0.2.2")
	if r.a.learnt(t, netip.MustParseAddr("192.0.2.2")) {
		t.Error("the tunnel still knows pods of the peer")
	}
}

// learnt reports whether the tunnel forwards any address to a node.
func (n *node) learnt(t *testing.T, address netip.Addr) bool {
	t.Helper()
	learnt := false
	on(t, n.Namespace, tunnelName, func(link netlink.Link) error {
		entries, err := netlink.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
		for _, entry := range entries {
			learnt = learnt || entry.IP.Equal(address.AsSlice())
		}
		return err
	})
	return learnt
}
