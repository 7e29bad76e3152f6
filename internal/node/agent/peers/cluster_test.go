// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func member(number int) network.Member {
	return network.Member{
		Node: fmt.Sprintf("node%d", number), Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(number)}),
		Subnets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 42, byte(number), 0}), 24)},
	}
}

// clusterOf is a cluster with one network and these shards, as node1 knows it.
func clusterOf(shards ...[]network.Member) *network.Cluster {
	part := v1alpha1.NodeNetwork{Name: "tsn", IPv4: "10.42.1.0/24"}
	return &network.Cluster{Node: &v1alpha1.TSNNode{}, Networks: []network.Joined{{Part: part, Shards: shards, Object: &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "tsn"},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: 42, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24}},
	}}}}
}

// lab is node1 of a cluster, with a clock that the test moves.
type lab struct {
	*Reconciler
	on       *fakeNode
	state    *network.Cluster
	now      time.Time
	parts    *map[string][]netip.Prefix
	reported *error
	// all tells whether other networks' configuration was to go.
	all bool
}

func newLab(state *network.Cluster) *lab {
	l := &lab{on: newFakeNode(42, 43), state: state, now: time.Now()}
	nodes := fake.NewClientBuilder().WithObjects(kubeNode("node1", "", "192.0.2.1", nil)).Build()
	l.Reconciler, l.parts, l.reported = newReconcilerFor(l.on, &FromCluster{Nodes: nodes, Node: "node1", State: func() network.Cluster { return *l.state }})
	l.Linger, l.Now = 10*time.Second, func() time.Time { return l.now }
	configure := l.Configure
	l.Configure = func(networks []network.Network, parts map[string][]netip.Prefix, all bool) error {
		l.all = all
		return configure(networks, parts, all)
	}
	return l
}

func TestPlanMembers(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2)}, []network.Member{member(3), member(2)}))
	reconcileOnce(t, l.Reconciler)
	want := "42 192.0.2.2 [10.42.2.0/24] flooded true told [10.42.2.0/24]; 42 192.0.2.3 [10.42.3.0/24] flooded true told [10.42.3.0/24]"
	if got := l.on.text(); got != want || *l.reported != nil || !l.all {
		t.Errorf("peers are %s, %v, want %s", got, *l.reported, want)
	}
	if got := fmt.Sprint(*l.parts); got != "map[tsn:[10.42.1.0/24]]" {
		t.Errorf("configured %s", got)
	}
	l.on.calls = 0
	if reconcileOnce(t, l.Reconciler); l.on.calls != 0 {
		t.Errorf("%d changes where nothing was to change", l.on.calls)
	}
	// One shard changes.
	moved := member(3)
	moved.Subnets = []netip.Prefix{netip.MustParsePrefix("10.42.9.0/24")}
	l.state = clusterOf(l.state.Networks[0].Shards[0], []network.Member{moved, member(2)})
	if reconcileOnce(t, l.Reconciler); l.on.calls != 1 || !strings.Contains(l.on.text(), "192.0.2.3 [10.42.9.0/24]") {
		t.Errorf("%d changes of one peer; peers are %s", l.on.calls, l.on.text())
	}
}

// TestPlanPort has peers that are known without the port of their network.
func TestPlanPort(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2)}))
	reconcileOnce(t, l.Reconciler)
	at := key{42, member(2).Address}
	if port := l.on.ktsnd[at].Port; port != 0 {
		t.Errorf("ktsnd gets port %d for the default", port)
	}
	l.state.Networks[0].Object.Spec.Port = 8472
	reconcileOnce(t, l.Reconciler)
	if ktsnd, recorded := l.on.ktsnd[at].Port, l.on.remembered[at].Port; ktsnd != 8472 || recorded != 8472 {
		t.Errorf("ktsnd has port %d, the record %d", ktsnd, recorded)
	}
	l.on.calls = 0
	if reconcileOnce(t, l.Reconciler); l.on.calls != 0 {
		t.Errorf("%d changes where nothing was to change", l.on.calls)
	}
}

// TestPlanRejectsSubnetOutsidePart has TSNPeers without a cluster that somebody else than the operator wrote.
func TestPlanRejectsSubnetOutsidePart(t *testing.T) {
	for name, test := range map[string]struct {
		part, subnet, address string
		peers                 int
	}{
		"in the network":                {"", "10.42.7.0/24", "192.0.2.7", 2},
		"outside the network":           {"", "10.43.7.0/24", "192.0.2.7", 1},
		"all addresses":                 {"", "0.0.0.0/0", "192.0.2.7", 1},
		"in the cluster's part":         {"10.42.0.0/20", "10.42.7.0/24", "192.0.2.7", 2},
		"outside the cluster's part":    {"10.42.0.0/20", "10.42.16.0/24", "192.0.2.7", 1},
		"at this node's tunnel address": {"", "10.42.7.0/24", "192.0.2.1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			forged := member(7)
			forged.Address, forged.Subnets = netip.MustParseAddr(test.address), []netip.Prefix{netip.MustParsePrefix(test.subnet)}
			state := clusterOf([]network.Member{member(1), member(2)}, []network.Member{forged})
			state.Networks[0].Object.Spec.IPv4.Part = test.part
			l := newLab(state)
			reconcileOnce(t, l.Reconciler)
			if len(l.on.ktsnd) != test.peers {
				t.Errorf("ktsnd knows %v, want %d peers", l.on.ktsnd, test.peers)
			}
		})
	}
}

func TestUnplannedPeerLingers(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2), member(3)}))
	reconcileOnce(t, l.Reconciler)
	l.state = clusterOf([]network.Member{member(1), member(2)})
	if result := reconcileOnce(t, l.Reconciler); len(l.on.ktsnd) != 2 || result.RequeueAfter > l.Linger {
		t.Errorf("ktsnd knows %v at once, and is told again after %v", l.on.ktsnd, result.RequeueAfter)
	}
	l.now = l.now.Add(l.Linger / 2)
	l.state = clusterOf([]network.Member{member(1), member(2)}, []network.Member{member(3)}) // in another shard
	reconcileOnce(t, l.Reconciler)
	l.now = l.now.Add(l.Linger)
	l.state = clusterOf([]network.Member{member(1), member(2)})
	if reconcileOnce(t, l.Reconciler); len(l.on.ktsnd) != 2 {
		t.Errorf("ktsnd knows %v, of which one was planned a moment ago", l.on.ktsnd)
	}
	l.now = l.now.Add(l.Linger - 3*time.Second) // something else was to be looked at
	if result := reconcileOnce(t, l.Reconciler); len(l.on.ktsnd) != 2 || result.RequeueAfter != 3*time.Second {
		t.Errorf("it looks again after %v at a peer that stays for 3 s, and ktsnd knows %v", result.RequeueAfter, l.on.ktsnd)
	}
	l.now = l.now.Add(3 * time.Second)
	if reconcileOnce(t, l.Reconciler); len(l.on.ktsnd) != 1 || len(l.on.flooded[42]) != 1 || len(l.on.remembered) != 1 {
		t.Errorf("ktsnd still knows %v", l.on.ktsnd)
	}
}

// TestFailedRemovalIsRetried has the node's tunnels not be there when the peer's time is over.
func TestFailedRemovalIsRetried(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2)}))
	reconcileOnce(t, l.Reconciler)
	l.state = clusterOf([]network.Member{member(1)})
	reconcileOnce(t, l.Reconciler)
	l.Open = func() (Overlay, error) { return nil, errors.New("no tunnels") }
	l.now = l.now.Add(l.Linger)
	if result := reconcileOnce(t, l.Reconciler); len(l.on.ktsnd) != 1 || result.RequeueAfter != repeat.AfterFailure {
		t.Errorf("ktsnd knows %v, and is told again after %v", l.on.ktsnd, result.RequeueAfter)
	}
}

func TestStartupGrace(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2), member(3)}))
	reconcileOnce(t, l.Reconciler)
	again := newLab(clusterOf([]network.Member{member(1)})) // the operator has begun to write
	again.on, again.Open, again.Do, again.StartupGrace = l.on, l.Open, l.Do, 2*time.Minute
	for _, step := range []struct {
		after time.Duration
		peers int
	}{{0, 2}, {time.Minute, 2}, {time.Minute, 0}} {
		again.now = again.now.Add(step.after)
		if result := reconcileOnce(t, again.Reconciler); len(l.on.ktsnd) != step.peers || result.RequeueAfter != repeat.Every {
			t.Errorf("%v later ktsnd knows %v, and is told again after %v", step.after, l.on.ktsnd, result.RequeueAfter)
		}
	}
}

func TestPeerWithReassignedSubnetIsRemoved(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2)}))
	reconcileOnce(t, l.Reconciler)
	heir := member(3)
	heir.Subnets = member(2).Subnets
	l.state = clusterOf([]network.Member{member(1), heir})
	reconcileOnce(t, l.Reconciler)
	if want := "42 192.0.2.3 [10.42.2.0/24] flooded true told [10.42.2.0/24]"; l.on.text() != want {
		t.Errorf("peers are %s, want %s", l.on.text(), want)
	}
}

func TestPeersStayWhileStateIsUnknown(t *testing.T) {
	second := func(l *lab) *network.Joined {
		other := clusterOf([]network.Member{member(1), member(2)}).Networks[0]
		other.Part.Name, other.Object.Name, other.Object.Spec.VNI = "second", "second", 43
		l.state.Networks = append(l.state.Networks, other)
		return &l.state.Networks[1]
	}
	for name, test := range map[string]struct {
		forget   func(*lab)
		sentence string
		// kept tells which networks' peers stay.
		kept42, kept43, all bool
	}{
		"of the node":              {func(l *lab) { l.state = &network.Cluster{Unknown: errors.New("not heard")} }, "not heard", true, true, true},
		"of a network":             {func(l *lab) { second(l).Object = nil }, "network second is not known yet", false, true, false},
		"of a network's nodes":     {func(l *lab) { second(l).Shards = nil }, "the nodes of network second are not known yet", false, true, true},
		"of the shard of the node": {func(l *lab) { second(l).Shards = [][]network.Member{{member(5)}} }, "network second do not know this one", false, true, true},
		"but no longer":            {func(l *lab) { second(l).Shards = [][]network.Member{{member(1)}} }, "<nil>", false, false, true},
		"but not of a network that the node has left": {func(*lab) {}, "<nil>", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(clusterOf([]network.Member{member(1), member(2)}))
			second(l)
			reconcileOnce(t, l.Reconciler)
			if len(l.on.ktsnd) != 2 {
				t.Fatalf("ktsnd knows %v", l.on.ktsnd)
			}
			l.state = clusterOf([]network.Member{member(1)})
			l.all = true
			test.forget(l)
			reconcileOnce(t, l.Reconciler)
			l.now = l.now.Add(time.Minute)
			reconcileOnce(t, l.Reconciler)
			for vni, want := range map[uint32]bool{42: test.kept42, 43: test.kept43} {
				if _, kept := l.on.ktsnd[key{vni, member(2).Address}]; kept != want {
					t.Errorf("network %d: ktsnd still knows its peer: %v, want %v", vni, kept, want)
				}
			}
			if !strings.Contains(fmt.Sprint(*l.reported), test.sentence) || l.all != test.all {
				t.Errorf("said %v, want %q; other networks go: %v", *l.reported, test.sentence, l.all)
			}
		})
	}
}

func TestNodeWithoutUplink(t *testing.T) {
	l := newLab(clusterOf([]network.Member{member(1), member(2)}))
	l.state.Networks[0].Object.Spec.Uplinks = []v1alpha1.Uplink{{Interface: "eno2", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}}}
	if reconcileOnce(t, l.Reconciler); len(*l.parts) != 0 || len(l.on.ktsnd) != 1 {
		t.Errorf("configured %v, ktsnd knows %v", *l.parts, l.on.ktsnd)
	}
}

// The cost of a change of one shard must not be quadratic in the number of peers.
func BenchmarkPlan(b *testing.B) {
	for _, count := range []int{100, 1000} {
		var shards [][]network.Member
		for i := range count {
			if i%v1alpha1.MaxPeers == 0 {
				shards = append(shards, nil)
			}
			item := member(i)
			item.Address = netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)})
			shards[len(shards)-1] = append(shards[len(shards)-1], item)
		}
		state := clusterOf(shards...)
		nodes := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}).Build()
		planner := &FromCluster{Nodes: nodes, Node: "node1", State: func() network.Cluster { return *state }}
		b.Run(fmt.Sprintf("of %d nodes", count), func(b *testing.B) {
			for b.Loop() {
				built, err := planner.plan(b.Context())
				if err != nil || len(built.tunnels(netip.Addr{}).Peers) < count-1 {
					b.Fatal(err)
				}
			}
		})
	}
}

// remote is a node of cluster south with this part.
func remote(number int, part string) network.Member {
	built := member(number)
	built.Cluster, built.Node, built.Subnets = "south", "node1", []netip.Prefix{netip.MustParsePrefix(part)}
	return built
}

func TestPlanForeignMembers(t *testing.T) {
	state := clusterOf([]network.Member{member(1), member(2)}, []network.Member{remote(9, "10.42.64.0/24")})
	state.Networks[0].Object.Spec.IPv4.Part = "10.42.0.0/20"
	l := newLab(state)
	reconcileOnce(t, l.Reconciler)
	want := "42 192.0.2.2 [10.42.2.0/24] flooded true told [10.42.2.0/24]; 42 192.0.2.9 [10.42.64.0/24] flooded true told [10.42.64.0/24]"
	if got := l.on.text(); got != want || *l.reported != nil {
		t.Errorf("peers are %s, %v, want %s", got, *l.reported, want)
	}
}

func TestPlanRejectsForeignClaims(t *testing.T) {
	for what, test := range map[string]struct {
		remote network.Member
		part   string
		want   string
	}{
		"a part of this cluster's":   {remote(9, "10.42.2.0/24"), "10.42.0.0/20", "its 10.42.2.0/24 is in this cluster's part of network tsn, 10.42.0.0/20"},
		"a range around it":          {remote(9, "10.42.0.0/16"), "10.42.0.0/20", "is in this cluster's part"},
		"addresses outside":          {remote(9, "10.96.0.0/24"), "10.42.0.0/20", "its 10.96.0.0/24 is not in network tsn"},
		"this node's address":        {remote(1, "10.42.64.0/24"), "10.42.0.0/20", "its address 192.0.2.1 is that of this node"},
		"a network of one's own":     {remote(9, "10.42.64.0/24"), "", "network tsn has no spec.ipv4.part"},
		"the address of a neighbour": {remote(2, "10.42.64.0/24"), "10.42.0.0/20", ""},
	} {
		t.Run(what, func(t *testing.T) {
			state := clusterOf([]network.Member{member(1), member(2)}, []network.Member{test.remote})
			state.Networks[0].Object.Spec.IPv4.Part = test.part
			l := newLab(state)
			built, err := l.Plan.plan(t.Context())
			testlab.Must(t, err)
			if reported := built.faults["south/node1"]; test.want == "" && reported != nil || test.want != "" && (reported == nil || !strings.Contains(reported.Error(), test.want)) {
				t.Errorf("said %v, want %q", reported, test.want)
			}
			reconcileOnce(t, l.Reconciler)
			if got := l.on.text(); got != "42 192.0.2.2 [10.42.2.0/24] flooded true told [10.42.2.0/24]" {
				t.Errorf("peers are %s", got)
			}
		})
	}
}

// TestPlanUsesSignedSubnets has TSNPeers name other ranges of a node than its cluster has signed.
func TestPlanUsesSignedSubnets(t *testing.T) {
	changed := remote(9, "10.42.80.0/24")
	impostor := changed
	impostor.Cluster = "evil"
	state := clusterOf([]network.Member{member(1)}, []network.Member{impostor}, []network.Member{changed})
	state.Networks[0].Object.Spec.IPv4.Part = "10.42.0.0/20"
	l := newLab(state)
	trusted := &encryption.Trusted{Cluster: "south", Name: "node1", Address: changed.Address, Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.64.0/24")}}
	l.Plan.(*FromCluster).Encryption = func(*network.Joined) *encryption.Verdict {
		return &encryption.Verdict{Active: true, Peers: map[netip.Addr]*encryption.Trusted{changed.Address: trusted}}
	}
	reconcileOnce(t, l.Reconciler)
	if got := l.on.text(); got != "42 192.0.2.9 [10.42.64.0/24] flooded true told [10.42.64.0/24]" {
		t.Errorf("peers are %s", got)
	}
}
