// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/control/controltest"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func (k *fakeKtsnd) Peers(ctx context.Context) ([]control.Peer, error) {
	if k.read != nil {
		return k.read(ctx)
	}
	return k.peers, nil
}

// withPeers returns node a with other nodes on its network.
func withPeers(t testing.TB, count int) *lab {
	t.Helper()
	l := newLab(t, aNetwork())
	members := []network.Member{{Node: "a", Address: netip.MustParseAddr("192.0.2.1")}, {Node: "far", Cluster: "north", Address: netip.MustParseAddr("198.51.100.1")}}
	for i := range count {
		address := netip.AddrFrom4([4]byte{192, 0, 3 + byte(i/250), byte(i % 250)})
		members = append(members, network.Member{Node: fmt.Sprintf("node%d", i), Address: address})
		l.ktsnd.peers = append(l.ktsnd.peers, control.Peer{VNI: 42, Address: address})
	}
	l.state.Networks[0].Shards = [][]network.Member{members}
	return l
}

// all sets the health of all peers.
func (l *lab) all(health control.PeerHealth) {
	for i := range l.ktsnd.peers {
		l.ktsnd.peers[i].Health = &health
	}
}

func peersCondition(status *v1alpha1.NodeNetworkStatus) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPeersReachable)
}

func TestSilentPeers(t *testing.T) {
	const (
		recent, late = silentAfterMs - 1, silentAfterMs + 1
		old          = firstWithinMs + 1
	)
	unheard := "a does not hear node0 (192.0.3.0) since %s on UDP 4789; nothing arrives at eth0: ktsnd does not run there, " +
		"or a firewall, a filter of the network plugin or a security group drops it"
	unheardByESP := "a does not hear node0 (192.0.3.0) since %s by ESP; ktsnd does not run there, IP protocol 50 does not pass, " +
		"or the nodes' keys differ: see EncryptionOperational of both nodes"
	for name, test := range map[string]struct {
		health *control.PeerHealth
		want   string
		// silent is how long the peer has been silent, by the message.
		silent time.Duration
	}{
		"not measured":            {nil, "Unknown PeersUnknown no other node has announced itself yet", 0},
		"young":                   {&control.PeerHealth{ListeningMs: late, UplinkAgoMs: -1, TunnelAgoMs: -1}, "Unknown PeersUnknown no other node has announced itself yet", 0},
		"never heard of":          {&control.PeerHealth{ListeningMs: old, UplinkAgoMs: -1, TunnelAgoMs: -1}, "False PeerSilent " + unheard, old * time.Millisecond},
		"reachable":               {&control.PeerHealth{ListeningMs: old, UplinkAgoMs: recent, TunnelAgoMs: recent}, "True AsAsked ", 0},
		"silent":                  {&control.PeerHealth{ListeningMs: old, UplinkAgoMs: late, TunnelAgoMs: late}, "False PeerSilent " + unheard, late * time.Millisecond},
		"about to be heard of":    {&control.PeerHealth{ListeningMs: recent, UplinkAgoMs: 0, TunnelAgoMs: -1}, "Unknown PeersUnknown no other node has announced itself yet", 0},
		"dropped from the start":  {&control.PeerHealth{ListeningMs: late, UplinkAgoMs: 0, TunnelAgoMs: -1}, "", late * time.Millisecond},
		"silent, encrypted":       {&control.PeerHealth{Encrypted: true, ListeningMs: old, UplinkAgoMs: -1, TunnelAgoMs: late}, "False PeerSilent " + unheardByESP, late * time.Millisecond},
		"reachable, encrypted":    {&control.PeerHealth{Encrypted: true, ListeningMs: old, UplinkAgoMs: -1, TunnelAgoMs: recent}, "True AsAsked ", 0},
		"older, encrypted":        {&control.PeerHealth{Encrypted: true, ListeningMs: old, UplinkAgoMs: -1, TunnelAgoMs: -1}, "Unknown PeersUnknown no other node has announced itself yet", 0},
		"dropped since some time": {&control.PeerHealth{ListeningMs: old, UplinkAgoMs: recent, TunnelAgoMs: late}, "", late * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			l := withPeers(t, 1)
			l.ktsnd.peers[0].Health = test.health
			since := l.now.Add(-test.silent).UTC().Format("2006-01-02 15:04 UTC") // it remains the time of the first look
			status := l.look()
			condition := peersCondition(&status)
			got := fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
			want := test.want
			switch {
			case want == "":
				want = "False PeerSilent a does not hear node0 (192.0.3.0) since " + since +
					" on UDP 4789; it arrives at eth0, and this node drops it: see `nft list ruleset` and `iptables-save`"
			case strings.Contains(want, "%s"):
				want = fmt.Sprintf(want, since)
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestSilentPeerThroughOpenVSwitch(t *testing.T) {
	l := withPeers(t, 1)
	l.ktsnd.status.Uplink, l.ktsnd.status.Interface = "ovs", "br-phy"
	for want, agoMs := range map[string]int64{"True ": 100, "False a does not hear node0": silentAfterMs + 1} {
		l.all(control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: -1, TunnelAgoMs: agoMs})
		l.now = l.now.Add(repeatEvery)
		status := l.look()
		condition := peersCondition(&status)
		got := string(condition.Status) + " " + condition.Message
		if !strings.HasPrefix(got, want) || (condition.Status == "False") != strings.HasSuffix(got, "`ktsn ovs status`") {
			t.Errorf("last heard %d ms ago: got %s", agoMs, got)
		}
	}
}

func TestSilentPeerClears(t *testing.T) {
	l := withPeers(t, 2)
	status := func() string {
		t.Helper()
		l.now = l.now.Add(repeatEvery)
		status := l.look()
		condition := peersCondition(&status)
		return string(condition.Status) + " " + condition.Message
	}
	l.all(control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: 100, TunnelAgoMs: 100})
	if got := status(); got != "True " {
		t.Errorf("got %s of peers that are heard", got)
	}
	l.ktsnd.peers[1].Health = &control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: silentAfterMs + 1, TunnelAgoMs: silentAfterMs + 1}
	if got := status(); !strings.HasPrefix(got, "False a does not hear node1 (192.0.3.1)") || l.counts["tsn"].Silent != 1 || l.counts["tsn"].Reachable != 1 {
		t.Errorf("got %s, counted %v", got, l.counts)
	}
	// A new ktsnd knows nothing yet.
	l.all(control.PeerHealth{UplinkAgoMs: -1, TunnelAgoMs: -1})
	if got := status(); !strings.HasPrefix(got, "False a does not hear node1 (192.0.3.1)") {
		t.Errorf("after a restart of ktsnd got %s", got)
	}
	l.all(control.PeerHealth{ListeningMs: 100, UplinkAgoMs: 100, TunnelAgoMs: 100})
	if got := status(); got != "True " {
		t.Errorf("got %s of peers that are heard again", got)
	}
	l.state.Networks[0].Shards = [][]network.Member{}
	l.now = l.now.Add(repeatEvery)
	if status := l.look(); peersCondition(&status) != nil {
		t.Errorf("without other nodes got %+v", status.Conditions)
	}
}

func TestPeersConditionStaysUntilNodesAreListed(t *testing.T) {
	l := withPeers(t, 1)
	l.all(control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: 100, TunnelAgoMs: 100})
	listed := l.look()
	l.state.Networks[0].Shards = nil // as in an agent that has just begun to watch
	l.now = l.now.Add(repeatEvery)
	unlisted := l.look()
	if before, after := peersCondition(&listed), peersCondition(&unlisted); after == nil || *after != *before {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
}

// TestPeersOfEncryptedNetwork has a peer that may have an older ktsnd, then one that becomes silent and stays so for a new ktsnd.
func TestPeersOfEncryptedNetwork(t *testing.T) {
	l := withPeers(t, 1)
	l.all(control.PeerHealth{Encrypted: true, ListeningMs: firstWithinMs + 1, UplinkAgoMs: -1, TunnelAgoMs: -1})
	l.encryption.condition = &metav1.Condition{Type: v1alpha1.ConditionEncryptionOperational, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}
	for _, step := range []struct {
		tunnelAgoMs int64
		want        metav1.ConditionStatus
		words       string
	}{
		{-1, metav1.ConditionUnknown, "IP protocol 50 must pass"},
		{0, metav1.ConditionTrue, ""},
		{silentAfterMs + 1, metav1.ConditionFalse, "does not hear node0"},
		{-1, metav1.ConditionFalse, "does not hear node0"},
	} {
		l.all(control.PeerHealth{Encrypted: true, ListeningMs: firstWithinMs + 1, UplinkAgoMs: -1, TunnelAgoMs: step.tunnelAgoMs})
		status := l.look()
		if condition := peersCondition(&status); condition.Status != step.want || !strings.Contains(condition.Message, step.words) {
			t.Errorf("%d ms after the last announcement: got %+v", step.tunnelAgoMs, condition)
		}
		l.now = l.now.Add(repeatEvery)
	}
}

// TestSilentPeersAreWrittenOnce lets the peers of a network become silent one after the other, and remain so.
func TestSilentPeersAreWrittenOnce(t *testing.T) {
	const count = 40
	l := withPeers(t, count)
	l.all(control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: 100, TunnelAgoMs: 100})
	l.look()
	before, rounds := l.written, 0
	round := func() {
		l.now = l.now.Add(repeatEvery)
		l.reconcile()
		l.hear()
		rounds++
	}
	for i := range count {
		l.ktsnd.peers[i].Health = &control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: silentAfterMs + 1, TunnelAgoMs: silentAfterMs + 1}
		round()
	}
	elapsed := time.Duration(rounds) * repeatEvery
	if written := l.written - before; time.Duration(written) > elapsed/peersMessageEvery+2 {
		t.Errorf("written %d times in %v", written, elapsed)
	}
	for range 3 { // the last change may wait
		round()
	}
	before = l.written
	for range 30 {
		for i := range l.ktsnd.peers {
			l.ktsnd.peers[i].Health.TunnelAgoMs += repeatEvery.Milliseconds()
		}
		round()
	}
	if l.written != before {
		t.Errorf("written %d times without a change", l.written-before)
	}
}

func TestTunnelAddressOfAnotherNode(t *testing.T) {
	l := newLab(t, aNetwork())
	l.ktsnd.status.LocalAddress = netip.MustParseAddr("192.0.2.1")
	node := &corev1.Node{}
	testlab.Must(t, l.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, node))
	for address, want := range map[string]metav1.ConditionStatus{"192.0.2.11": metav1.ConditionFalse, "192.0.2.1": metav1.ConditionTrue} {
		node.Annotations = map[string]string{v1alpha1.TunnelAddressAnnotation: address}
		testlab.Must(t, l.Client.Update(t.Context(), node))
		status := l.look()
		ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
		if ready.Status != want || want == metav1.ConditionFalse && !strings.Contains(ready.Message, "the other nodes send to 192.0.2.11") {
			t.Errorf("with %s it is %+v", address, ready)
		}
	}
}

func TestPeerPaths(t *testing.T) {
	healthy := control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: 100, TunnelAgoMs: 100}
	lossy := func(lost, announced int) *control.PeerHealth {
		health := healthy
		health.Lost, health.Announced = lost, announced
		return &health
	}
	l := withPeers(t, 5)
	l.all(healthy)
	status := l.look() // pods' interfaces have 1450 bytes
	if want := (metrics.PeerSummary{Reachable: 5}); l.counts["tsn"] != want {
		t.Errorf("of a ktsnd that measures neither it counts %+v", l.counts["tsn"])
	}
	l.ktsnd.peers[0].MTU, l.ktsnd.peers[1].MTU, l.ktsnd.peers[2].MTU = 1450, 1350, 1400
	l.ktsnd.peers[0].Health, l.ktsnd.peers[1].Health, l.ktsnd.peers[3].Health = lossy(2, 64), lossy(16, 64), lossy(1, 2)
	before := l.written
	after := l.look()
	if want := (metrics.PeerSummary{Reachable: 5, Lossy: 1, Narrow: 2, LossRatio: 0.5, MTU: 1350}); l.counts["tsn"] != want {
		t.Errorf("counts %+v, want %+v", l.counts["tsn"], want)
	}
	if l.written != before || peersCondition(&after).Status != peersCondition(&status).Status {
		t.Errorf("written %d times, %+v", l.written-before, after)
	}
	l.state.Networks[0].Object.Spec.MTU = 1400
	if l.look(); l.counts["tsn"].Narrow != 1 {
		t.Errorf("with interfaces of 1400 bytes %d routes are too narrow", l.counts["tsn"].Narrow)
	}
}

// serveMany serves many peers at a control socket as ktsnd does, in pages.
func serveMany(b *testing.B, peers []control.Peer) string {
	socket, _ := controltest.Serve(b, func(request []byte) string {
		var page struct{ Offset, Limit int }
		testlab.Must(b, json.Unmarshal(request, &page))
		entries, err := json.Marshal(peers[min(page.Offset, len(peers)):min(page.Offset+page.Limit, len(peers))])
		testlab.Must(b, err)
		return fmt.Sprintf(`{"version":1,"reply":"peers","total":%d,"peers":%s}`, len(peers), entries)
	})
	return socket
}

// processorTime is that of the process.
func processorTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	testlab.Must(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkPeers is a round of a node with other nodes, of which each has lost announcements and every other is silent: with reading them from a
// control socket, including what the fake ktsnd there needs, and with the metrics. It reports the share of a processor that a round every
// 10 s uses.
func BenchmarkPeers(b *testing.B) {
	for _, count := range []int{0, 999} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			l := withPeers(b, count)
			for i := range l.ktsnd.peers {
				peer := &l.ktsnd.peers[i]
				peer.MTU, peer.Subnets = 1350, []netip.Prefix{netip.MustParsePrefix("10.42.7.0/24")}
				peer.Health = &control.PeerHealth{ListeningMs: firstWithinMs + 1, UplinkAgoMs: 100, TunnelAgoMs: int64(i%2) * (silentAfterMs + 1), Announced: 64, Lost: i % 64}
			}
			client, err := control.Dial(b.Context(), serveMany(b, l.ktsnd.peers))
			testlab.Must(b, err)
			defer client.Close()
			l.ktsnd.read = client.Peers
			all, err := metrics.New(prometheus.NewRegistry())
			testlab.Must(b, err)
			l.CountPeers = all.Peers
			before := processorTime(b)
			for b.Loop() {
				l.now = l.now.Add(repeatEvery)
				l.reconcile()
			}
			used := (processorTime(b) - before) / time.Duration(b.N)
			b.ReportMetric(float64(used.Microseconds()), "processor-us/op")
			b.ReportMetric(used.Seconds()/repeatEvery.Seconds(), "cores")
		})
	}
}
