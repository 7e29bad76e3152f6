// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// rings returns the IPv4 addresses of the pods in the program for receive rings.
func (n *node) rings(t *testing.T) []string {
	t.Helper()
	var all []string
	must(t, n.Do(func() error {
		maps, err := receive.Open(receive.DefaultDir)
		if errors.Is(err, receive.ErrAbsent) {
			return nil
		}
		if err != nil {
			return err
		}
		defer maps.Close()
		endpoints, err := maps.Endpoints()
		for _, endpoint := range endpoints {
			all = append(all, endpoint.IPv4.String())
		}
		return err
	}))
	return all
}

// withoutRings removes the program at the end of the test.
func (n *node) withoutRings(t *testing.T) {
	t.Helper()
	if attached, err := os.ReadDir(receive.DefaultDir); err == nil && len(attached) > 0 {
		t.Fatal("another test left a program for receive rings")
	}
	t.Cleanup(func() {
		if err := n.Do(func() error { _, err := receive.Detach(receive.DefaultDir); return err }); err != nil {
			t.Error(err)
		}
	})
}

// peerEntries counts the peers in the program's map.
func (n *node) peerEntries(t *testing.T) (count int) {
	t.Helper()
	name := within(t, n, func() (string, error) { return receive.NodeDir(receive.DefaultDir) })
	peers, err := ebpf.LoadPinnedMap(filepath.Join(name, "peers"), nil)
	must(t, err)
	defer peers.Close()
	var key [36]byte
	var value uint8
	entries := peers.Iterate()
	for entries.Next(&key, &value) {
		count++
	}
	must(t, entries.Err())
	return count
}

func TestReceivePodIsInProgram(t *testing.T) {
	lab := newServedLab(t)
	lab.a.withoutRings(t)
	others, pod := lab.a.newPod(t), lab.a.newPod(t)
	others.add(t, lab.a.config(nil))
	if _, err := os.Stat(receive.DefaultDir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a program was loaded for a pod that did not ask: %v", err)
	}
	config := lab.a.config(fields{"receive": fields{"rings": true}, "args": fields{"cni": fields{"receive": "ring"}}})
	address := addressOf(pod.add(t, config), true).String()
	if got := strings.Join(lab.a.rings(t), " "); got != address {
		t.Errorf("the program has %q, want %s", got, address)
	}
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))

	// Remove everything externally.
	must(t, lab.a.Do(func() error { _, err := receive.Detach(receive.DefaultDir); return err }))
	checkRefused(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()), 106, "it does again")
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
	if got := strings.Join(lab.a.rings(t), " "); got != address {
		t.Errorf("after CHECK the program has %q, want %s", got, address)
	}

	must(t, lab.a.runtime.DelNetworkList(t.Context(), list(t, config), pod.attachment()))
	if got := lab.a.rings(t); len(got) != 0 {
		t.Errorf("after DEL the program has %q", got)
	}

	// The runtime forgets the next pod, and its network namespace is removed.
	last := lab.a.newPod(t)
	last.add(t, config)
	must(t, last.Destroy())
	must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, lab.a.config(nil))))
	if got := lab.a.rings(t); len(got) != 0 {
		t.Errorf("after GC the program has %q", got)
	}
}

func TestReceiveEntryAfterLostDel(t *testing.T) {
	lab := newLab(t)
	lab.a.withoutRings(t)
	address := lab.a.subnet.Addr().Next().Next().Next().String()
	fixed := static(address + "/24")
	lost, next := lab.a.newPod(t), lab.a.newPod(t)
	lost.add(t, lab.a.config(fields{"ipam": fixed, "receive": fields{"redirect": true}}))
	if got := strings.Join(lab.a.rings(t), " "); got != address {
		t.Fatalf("the program has %q, want %s", got, address)
	}
	must(t, lost.Destroy()) // without DEL
	configs := list(t, lab.a.config(fields{"ipam": fixed}))
	t.Cleanup(func() { _ = next.node.runtime.DelNetworkList(context.Background(), configs, next.attachment()) })
	eventually(t, "the kernel has removed the port of the pod", func() bool {
		_, err := lab.a.runtime.AddNetworkList(t.Context(), configs, next.attachment())
		return err == nil
	})
	if got := lab.a.rings(t); len(got) != 0 {
		t.Errorf("for the next pod of the address, which is on the kernel's path, the program has %q", got)
	}
}

func TestReceiveProgramFollowsPeers(t *testing.T) {
	lab := newServedLab(t)
	lab.a.withoutRings(t)
	change := func(changes ...overlay.Change) {
		t.Helper()
		must(t, lab.a.Do(func() error {
			node, err := overlay.Open(filepath.Join(lab.a.dir, "state"), patience)
			if err != nil {
				return err
			}
			defer node.Close()
			return node.ChangePeers(t.Context(), changes, lab.a.client)
		}))
	}
	peer := control.Peer{VNI: vni, Address: lab.b.address, Subnets: []netip.Prefix{lab.b.subnet}}
	change(overlay.Change{Peer: peer})
	pod := lab.a.newPod(t)
	pod.add(t, lab.a.config(fields{"receive": fields{"rings": true}, "args": fields{"cni": fields{"receive": "ring"}}}))
	// Its subnet, and all of IPv6, since it has no IPv6 subnet.
	if got := lab.a.peerEntries(t); got != 2 {
		t.Errorf("a program that was loaded later has %d entries of peers, want 2", got)
	}
	change(overlay.Change{Peer: peer, Gone: true})
	if got := lab.a.peerEntries(t); got != 0 {
		t.Errorf("when the peer has gone there are %d entries", got)
	}
	other := peer
	other.VNI = vni + 1
	change(overlay.Change{Peer: peer}, overlay.Change{Peer: other})
	if got := lab.a.peerEntries(t); got != 2 {
		t.Errorf("of a peer of a network without a tunnel, too, there are %d entries, want 2", got)
	}
}

// TestReceiveProgramHasNoEncryptedPeers checks that after a network becomes encrypted, unencrypted packets with a
// peer's address reach no ring.
func TestReceiveProgramHasNoEncryptedPeers(t *testing.T) {
	lab := newServedLab(t)
	lab.a.withoutRings(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(fields{"receive": fields{"rings": true}, "args": fields{"cni": fields{"receive": "ring"}}})
	address := addressOf(pod.add(t, config), true).String()
	lab.a.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24")
	if count := lab.a.peerEntries(t); count == 0 {
		t.Fatal("the program has no peer of a network that is not encrypted")
	}
	must(t, lab.a.Do(func() error {
		tunnel, err := netlink.LinkByName(tunnelName)
		if err != nil {
			return err
		}
		return netlink.LinkSetAlias(tunnel, "tsn-cni:1 encrypted")
	}))
	lab.a.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.3", "10.42.3.0/24")
	if count := lab.a.peerEntries(t); count != 0 {
		t.Errorf("the program believes %d sources of an encrypted network", count)
	}
	second := lab.a.newPod(t)
	must(t, lab.a.Do(func() error { _, err := receive.Detach(receive.DefaultDir); return err }))
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
	second.add(t, config)
	if got := strings.Join(lab.a.rings(t), " "); got != "" {
		t.Errorf("the program has %q, %q before, on an encrypted network", got, address)
	}
}

func TestReplacedReceiveProgramKeepsPodsAndPeers(t *testing.T) {
	lab := newServedLab(t)
	lab.a.withoutRings(t)
	pod := lab.a.newPod(t)
	address := addressOf(pod.add(t, lab.a.config(fields{"receive": fields{"rings": true}, "args": fields{"cni": fields{"receive": "ring"}}})), true).String()
	must(t, lab.a.Do(func() error {
		dir, err := receive.NodeDir(receive.DefaultDir)
		if err != nil {
			return err
		}
		other, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 1, MaxEntries: 1})
		if err != nil {
			return err
		}
		defer other.Close()
		if err := os.Remove(filepath.Join(dir, "peers")); err != nil {
			return err
		}
		if err := other.Pin(filepath.Join(dir, "peers")); err != nil {
			return err
		}
		node, err := attachment.OpenNode(filepath.Join(lab.a.dir, "state"), patience)
		if err != nil {
			return err
		}
		defer node.Close()
		peer := control.Peer{VNI: vni, Address: lab.b.address, Subnets: []netip.Prefix{lab.b.subnet}}
		return node.ChangePeers(t.Context(), []overlay.Change{{Peer: peer}}, lab.a.client)
	}))
	if got := strings.Join(lab.a.rings(t), " "); got != address {
		t.Errorf("the new program has the pods %q, want %s", got, address)
	}
	if got := lab.a.peerEntries(t); got != 2 {
		t.Errorf("the new program has %d entries of peers, want 2", got)
	}
}

func TestRestoreFillsReceiveProgram(t *testing.T) {
	lab := newServedLab(t)
	lab.a.withoutRings(t)
	pod := lab.a.newPod(t)
	address := addressOf(pod.add(t, lab.a.config(fields{"receive": fields{"rings": true}, "args": fields{"cni": fields{"receive": "ring"}}})), true).String()
	must(t, lab.a.Do(func() error {
		if _, err := receive.Detach(receive.DefaultDir); err != nil {
			return err
		}
		node, err := overlay.Open(filepath.Join(lab.a.dir, "state"), patience)
		if err != nil {
			return err
		}
		defer node.Close()
		count, err := attachment.RestoreReceive(t.Context(), filepath.Join(lab.a.dir, "state"), node)
		if count != 1 {
			t.Errorf("it told the program of %d interfaces", count)
		}
		return err
	}))
	if got := strings.Join(lab.a.rings(t), " "); got != address {
		t.Errorf("the program has %q, want %s", got, address)
	}
}

func TestKilledAddLeavesNoReceiveEntry(t *testing.T) {
	lab := newServedLab(t)
	lab.a.withoutRings(t)
	configs := list(t, lab.a.config(fields{"receive": fields{"rings": true}, "args": fields{"cni": fields{"receive": "ring"}}}))
	for name, clean := range cleaners {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			lab.a.killAdd(t, "receiving", configs, pod.attachment())
			if got := lab.a.rings(t); len(got) != 1 {
				t.Fatalf("before, the program has %q", got)
			}
			clean(t, pod, configs)
			if got := lab.a.rings(t); len(got) != 0 {
				t.Errorf("the program has %q", got)
			}
		})
	}
}
