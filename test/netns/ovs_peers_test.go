// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// awaitOnlyPeer waits until a ktsnd's only peer satisfies a condition, and returns it.
func awaitOnlyPeer(t *testing.T, client *control.Client, what string, condition func(*control.PeerHealth) bool) (peer control.Peer) {
	t.Helper()
	testlab.Eventually(t, membersPatience, 10*time.Millisecond, func() error {
		peers, err := client.Peers(t.Context())
		must(t, err)
		if peer = peers[0]; peer.Health != nil && condition(peer.Health) {
			return nil
		}
		return fmt.Errorf("not %s: %+v, %+v", what, peer, peer.Health)
	})
	return peer
}

// TestPeerHealthThroughOpenVSwitch has node a with Open vSwitch and node b without it announce themselves to each other, cuts the way to
// node a, and sends what looks like an announcement from where a pod's frames enter Open vSwitch.
func TestPeerHealthThroughOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, switched := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	direct, _ := lab.startDirectFarEnd(t)
	received := func(health *control.PeerHealth) bool { return health.TunnelAgoMs >= 0 && health.Announced > 0 }
	if peer := awaitOnlyPeer(t, switched, "received", received); peer.Health.UplinkAgoMs >= 0 || peer.MTU != 1450 {
		t.Errorf("node a has %+v, %+v", peer, peer.Health)
	}
	awaitOnlyPeer(t, direct, "received", received)
	// Other ports of Open vSwitch may have members.
	awaitGroups(t, direct, topology.NodeAddressA, "all", func(groups control.NodeGroups) bool { return groups.Known && groups.Everything })
	awaitGroups(t, direct, topology.NodeAddressB, "listed", isListed)
	// Node b announces the group at once, and again after a second.
	joinAtB := func(group string) {
		t.Helper()
		join(t, lab.PodB, "udp4", netip.AddrPortFrom(netip.MustParseAddr(group), listenPort))
	}

	t.Run("cut", func(t *testing.T) {
		const outageMs = 2000
		before := awaitOnlyPeer(t, switched, "received", received).Health.Lost
		receiveNothing(t, lab.NodeA, true)
		joinAtB("239.1.2.4")
		awaitGroups(t, direct, topology.NodeAddressB, "known", hasGroup("239.1.2.4"))
		awaitOnlyPeer(t, switched, "silent", func(health *control.PeerHealth) bool { return health.TunnelAgoMs > outageMs })
		receiveNothing(t, lab.NodeA, false)
		joinAtB("239.1.2.5")
		awaitOnlyPeer(t, switched, "received again", func(health *control.PeerHealth) bool {
			return health.TunnelAgoMs < outageMs && health.Lost > before
		})
	})
	t.Run("repeated setup", func(t *testing.T) {
		lab.mustKtsn(t, "setup", lab.setup()...)
		if dumped := lab.ofctl(t, "dump-flows", "dl_dst=01:80:c2:00:00:0e"); strings.Count(dumped, "priority") != 2 ||
			regexp.MustCompile(`n_packets=0,.*priority=120`).MatchString(dumped) {
			t.Errorf("setup replaced the flows, which are\n%s", dumped)
		}
	})
	t.Run("forged", func(t *testing.T) {
		lab.vsctl(t, "set", "Bridge", ovs.BridgeInternal, "other_config:forward-bpdu=true")
		lab.ofctl(t, "del-flows", "--strict", "priority=110,dl_dst=01:80:c2:00:00:0e,dl_type=0x88b5")
		lab.awaitForged(t, true) // otherwise the rest proves nothing
		lab.mustKtsn(t, "setup", lab.setup()...)
		lab.awaitForged(t, false)
	})
	t.Run("restart of Open vSwitch", func(t *testing.T) {
		must(t, lab.node.Kill())
		must(t, lab.node.StartDaemon())
		lab.mustKtsn(t, "setup", lab.setup()...)
		lab.awaitConnected(t)
		restarted := time.Now()
		joinAtB("239.1.2.6")
		for _, client := range []*control.Client{switched, direct} {
			awaitOnlyPeer(t, client, "received again", func(health *control.PeerHealth) bool {
				return health.TunnelAgoMs < time.Since(restarted).Milliseconds()
			})
		}
	})
	must(t, daemon.Stop(patience))
	awaitGroups(t, direct, topology.NodeAddressA, "announced to end", func(groups control.NodeGroups) bool { return !groups.Known })
}

// awaitForged waits until frames like announcements that enter Open vSwitch where those of pods do reach node b's tunnel, or do not:
// Open vSwitch follows changes of flows after some milliseconds.
func (l *ovsLab) awaitForged(t *testing.T, wanted bool) {
	t.Helper()
	const source = "\x02\x00\xc0\x00\x02\x09\x88\xb5"
	from := frameSocket(t, l.NodeA, overlay.TunnelName(topology.VNI), 0)
	defer unix.Close(from)
	to := frameSocket(t, l.NodeB, topology.TunnelName, unix.ETH_P_ALL)
	defer unix.Close(to)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		for _, frame := range []string{"\x01\x80\xc2\x00\x00\x0e" + source + "forged", "\xff\xff\xff\xff\xff\xff" + source + "marker"} {
			_, err := unix.Write(from, append([]byte(frame), make([]byte, 40)...))
			must(t, err)
		}
		forged := false
		for frame := []byte(nil); !bytes.Contains(frame, []byte("marker")); forged = forged || bytes.Contains(frame, []byte("forged")) {
			if frame = receiveFrame(t, to, patience); frame == nil {
				t.Fatal("nothing arrives through Open vSwitch")
			}
		}
		if forged == wanted {
			return nil
		}
		return fmt.Errorf("a forged announcement reaches the other node: %v", forged)
	})
}
