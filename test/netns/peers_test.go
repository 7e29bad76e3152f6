// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// awaitHealth waits until node b's view of node a satisfies a condition.
func (d *twoDaemons) awaitHealth(t *testing.T, what string, condition func(*control.PeerHealth) bool) {
	t.Helper()
	d.awaitPeer(t, what, func(peer control.Peer) bool { return condition(peer.Health) })
}

func (d *twoDaemons) awaitPeer(t *testing.T, what string, condition func(control.Peer) bool) {
	t.Helper()
	testlab.Eventually(t, membersPatience, 10*time.Millisecond, func() error {
		peers, err := d.clientB.Peers(t.Context())
		must(t, err)
		if condition(peers[0]) {
			return nil
		}
		return fmt.Errorf("not %s: %+v, %+v", what, peers[0], peers[0].Health)
	})
}

// announce makes node a announce its groups at once, and waits until node b has received that at its uplink.
func (d *twoDaemons) announce(t *testing.T, group string) {
	t.Helper()
	join(t, d.PodA, "udp4", netip.AddrPortFrom(netip.MustParseAddr(group), listenPort))
	awaitGroups(t, d.clientB, topology.NodeAddressA, "the group announced", hasGroup(group))
}

// TestPeerHealth lets the packet filter of node b drop what comes by the tunnel, as firewalls do, and then the underlay.
func TestPeerHealth(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	measured := func(health *control.PeerHealth) bool { return health != nil && health.TunnelAgoMs >= 0 }
	both.awaitHealth(t, "received", measured)

	run := func(rules string) { must(t, finish(t, start(t, both.NodeB, "nft", exec.Command("nft", rules)))) }
	run("table inet firewall { chain in { type filter hook input priority -10; udp dport 4789 drop; }; }")
	both.announce(t, "239.1.2.3") // one before it may have arrived in between
	both.awaitHealth(t, "dropped by node b", func(health *control.PeerHealth) bool {
		return measured(health) && health.UplinkAgoMs < health.TunnelAgoMs
	})
	run("delete table inet firewall")
	both.announce(t, "239.1.2.4")
	both.awaitHealth(t, "received again", func(health *control.PeerHealth) bool {
		return measured(health) && health.TunnelAgoMs <= health.UplinkAgoMs+patience.Milliseconds() && health.TunnelAgoMs < patience.Milliseconds()
	})

	must(t, both.daemon.Stop(patience))
	both.awaitHealth(t, "told that ktsnd ended", func(health *control.PeerHealth) bool { return health == nil })
}

// TestEncryptedPeerHealth has node b's kernel replaced by a program that decrypts.
func TestEncryptedPeerHealth(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitHealth(t, "received in clear", func(health *control.PeerHealth) bool { return health != nil && health.TunnelAgoMs >= 0 })
	decrypter := both.startDecrypter(t)
	decrypter.toTunnel(t, both.lab)

	must(t, both.clientB.SetNetworkEncryption(t.Context(), topology.VNI, control.EncryptionRequired))
	both.awaitHealth(t, "encrypted", func(health *control.PeerHealth) bool {
		return health != nil && health.Encrypted && health.TunnelAgoMs < 0
	})
	must(t, both.client.SetSecurityAssociations(t.Context(), topology.NodeAddressB, makeAssociations(1, 1)))
	must(t, both.client.SetNetworkEncryption(t.Context(), topology.VNI, control.EncryptionRequired))
	both.awaitHealth(t, "received encrypted", func(health *control.PeerHealth) bool {
		return health != nil && health.Encrypted && health.TunnelAgoMs >= 0 && health.UplinkAgoMs < 0 && health.Announced > 0
	})
	decrypter.check(t)
}

// receiveNothing attaches an XDP program to the uplink of a node that drops everything, or removes it. Nothing else drops frames before
// packet sockets get them.
func receiveNothing(t *testing.T, node *topology.Namespace, nothing bool) {
	t.Helper()
	fd := -1
	if nothing {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R0, 1), // XDP_DROP
			asm.Return(),
		}})
		must(t, err)
		defer program.Close()
		fd = program.FD()
	}
	must(t, node.Do(func() error {
		uplink, err := netlink.LinkByName("phys0")
		if err != nil {
			return err
		}
		return netlink.LinkSetXdpFdWithFlags(uplink, fd, nl.XDP_FLAGS_SKB_MODE)
	}))
}

// TestPeerLoss loses announcements between the nodes.
func TestPeerLoss(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	before := 0
	both.awaitHealth(t, "counted", func(health *control.PeerHealth) bool {
		if health == nil || health.Announced == 0 {
			return false
		}
		before = health.Lost
		return true
	})
	receiveNothing(t, both.NodeB, true)
	join(t, both.PodA, "udp4", netip.AddrPortFrom(netip.MustParseAddr("239.1.2.3"), listenPort))
	awaitGroups(t, both.client, topology.NodeAddressA, "the group known", hasGroup("239.1.2.3"))
	time.Sleep(2 * time.Second) // on an idle machine it is repeated within that
	receiveNothing(t, both.NodeB, false)
	both.announce(t, "239.1.2.4")
	both.awaitHealth(t, "lost", func(health *control.PeerHealth) bool {
		return health != nil && health.Lost > before && health.Announced > health.Lost
	})
}

// TestPeerMTU gives the route to a peer an MTU.
func TestPeerMTU(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	mtu := func(want int) func(control.Peer) bool {
		return func(peer control.Peer) bool { return peer.MTU == want }
	}
	both.awaitPeer(t, "with the MTU of the uplink less the tunnel's headers", mtu(1450))
	must(t, finish(t, start(t, both.NodeB, "ip", exec.Command("ip", "route", "add", topology.NodeAddressA.String()+"/32", "dev", "phys0", "mtu", "1400"))))
	join(t, both.PodB, "udp4", netip.AddrPortFrom(netip.MustParseAddr("239.1.2.3"), listenPort)) // node b announces at once
	both.awaitPeer(t, "with the MTU of the route", mtu(1350))
	must(t, both.clientB.SetNetworkEncryption(t.Context(), topology.VNI, control.EncryptionRequired))
	join(t, both.PodB, "udp4", netip.AddrPortFrom(netip.MustParseAddr("239.1.2.4"), listenPort))
	both.awaitPeer(t, "with that less the encryption", func(peer control.Peer) bool { return peer.MTU == 1350-37 })
}
