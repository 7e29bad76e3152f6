// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeNode is kernel, state directory and ktsnd of a node.
type fakeNode struct {
	remembered, ktsnd map[key]control.Peer
	flooded           map[uint32]map[netip.Addr]bool
	calls             int
	err               error
	// guarded counts looks at the filter, which fail with unguardable.
	guarded     int
	unguardable error
	// unguarded are the differences that the next look at the filter finds.
	unguarded []string
}

func newFakeNode(tunnels ...uint32) *fakeNode {
	built := &fakeNode{map[key]control.Peer{}, map[key]control.Peer{}, map[uint32]map[netip.Addr]bool{}, 0, nil, 0, nil, nil}
	for _, vni := range tunnels {
		built.flooded[vni] = map[netip.Addr]bool{}
	}
	return built
}

type fakeOverlay struct{ *fakeNode }

func (f fakeOverlay) Close() {}
func (f fakeOverlay) Guard(context.Context) ([]string, error) {
	f.guarded++
	differences := f.unguarded
	f.unguarded = nil
	return differences, f.unguardable
}
func (f fakeOverlay) Peers() ([]control.Peer, error) {
	return slices.Collect(maps.Values(f.remembered)), nil
}
func (f fakeOverlay) FloodTargets() (map[uint32]map[netip.Addr]bool, error) { return f.flooded, nil }

func (f fakeOverlay) ChangePeers(ctx context.Context, changes []overlay.Change, timed overlay.Timed) error {
	for _, change := range changes {
		f.calls++
		peer := change.Peer
		at := key{peer.VNI, peer.Address}
		var err error
		switch {
		case change.Gone:
			delete(f.remembered, at)
			delete(f.flooded[at.vni], at.address)
			err = timed.PeerDel(ctx, at.vni, at.address)
		case f.err != nil:
			return f.err
		default:
			f.remembered[at] = peer
			if f.flooded[at.vni] != nil {
				f.flooded[at.vni][at.address] = true
			}
			err = timed.PeerAdd(ctx, peer)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type fakeKtsnd struct{ *fakeNode }

func (f fakeKtsnd) Status(context.Context) (*control.Status, error) { return &control.Status{}, nil }
func (f fakeKtsnd) Peers(context.Context) ([]control.Peer, error) {
	return slices.Collect(maps.Values(f.ktsnd)), nil
}
func (f fakeKtsnd) PeerAdd(_ context.Context, peer control.Peer) error {
	f.ktsnd[key{peer.VNI, peer.Address}] = peer
	return nil
}
func (f fakeKtsnd) PeerDel(_ context.Context, vni uint32, address netip.Addr) error {
	delete(f.ktsnd, key{vni, address})
	return nil
}

type fixed []network.Network

func (f fixed) Networks(context.Context) ([]network.Network, error) { return f, nil }

func kubeNode(name, podCIDR, address string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.NodeSpec{PodCIDR: podCIDR},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address},
		}},
	}
}

var oneNetwork = fixed{{Name: "tsn", VNI: 42, Port: 4789, Ranges: []network.Range{{Prefix: netip.MustParsePrefix("10.42.0.0/16"), NodeBits: 24}}}}

// newReconciler is one for node1 with these nodes; parts and said are what it configured and reported last.
func newReconciler(on *fakeNode, networks network.Source, nodes ...*corev1.Node) (r *Reconciler, parts *map[string][]netip.Prefix, reported *error) {
	objects := fake.NewClientBuilder()
	for _, node := range nodes {
		objects = objects.WithObjects(node)
	}
	return newReconcilerFor(on, &FromNodes{Nodes: objects.Build(), Networks: networks, Node: "node1"})
}

// reconcilerOf is one with a planner.
func newReconcilerFor(on *fakeNode, planner Planner) (r *Reconciler, parts *map[string][]netip.Prefix, reported *error) {
	parts, reported = new(map[string][]netip.Prefix), new(error)
	return &Reconciler{
		Plan: planner, Now: time.Now,
		Open: func() (Overlay, error) { return fakeOverlay{on}, nil },
		Do: func(ctx context.Context, ask func(context.Context, Ktsnd) error) error {
			return ask(ctx, fakeKtsnd{on})
		},
		Configure: func(_ []network.Network, built map[string][]netip.Prefix, _ bool) error { *parts = built; return nil },
		Report:    func(err error) { *reported = err },
		LeftOut:   func(int) {}, Warn: func(*corev1.Node, string, string) {},
		Log: slog.New(slog.DiscardHandler),
	}, parts, reported
}

func reconcileOnce(t *testing.T, r *Reconciler) reconcile.Result {
	t.Helper()
	result, err := r.Reconcile(t.Context(), reconcile.Request{})
	testlab.Must(t, err)
	return result
}

func (f *fakeNode) text() string {
	var all []string
	for at, peer := range f.remembered {
		all = append(all, fmt.Sprint(at.vni, " ", at.address, " ", peer.Subnets, " flooded ", f.flooded[at.vni][at.address],
			" told ", f.ktsnd[at].Subnets))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func TestReconcileAddsPeers(t *testing.T) {
	on := newFakeNode(42, 1)
	// Flannel's tunnel floods, too.
	on.flooded[1][netip.MustParseAddr("192.0.2.9")] = true
	r, parts, reported := newReconciler(on, oneNetwork, kubeNode("node1", "10.244.0.0/24", "192.0.2.1", nil),
		kubeNode("node2", "10.244.1.0/24", "192.0.2.2", nil),
		kubeNode("node3", "10.244.2.0/24", "192.0.2.3", map[string]string{v1alpha1.TunnelAddressAnnotation: "198.51.100.3", "range.kubernetsn.io/tsn": "10.42.200.0/24"}))
	if result := reconcileOnce(t, r); result.RequeueAfter != repeat.Every || *reported != nil {
		t.Errorf("again after %v, said %v", result.RequeueAfter, *reported)
	}
	want := "42 192.0.2.2 [10.42.1.0/24] flooded true told [10.42.1.0/24]; 42 198.51.100.3 [10.42.200.0/24] flooded true told [10.42.200.0/24]"
	if got := on.text(); got != want {
		t.Errorf("peers are %s, want %s", got, want)
	}
	if got := fmt.Sprint(*parts); got != "map[tsn:[10.42.0.0/24]]" {
		t.Errorf("configured %s", got)
	}
	on.calls = 0
	if reconcileOnce(t, r); on.calls != 0 {
		t.Errorf("%d changes where nothing was to change", on.calls)
	}
	if !on.flooded[1][netip.MustParseAddr("192.0.2.9")] {
		t.Error("Flannel's tunnel does not flood any more")
	}
}

func TestReconcileRestoresGuard(t *testing.T) {
	on := newFakeNode(42)
	r, _, reported := newReconciler(on, oneNetwork, kubeNode("node1", "10.244.0.0/24", "192.0.2.1", nil),
		kubeNode("node2", "10.244.1.0/24", "192.0.2.2", nil))
	for look := range 3 {
		if reconcileOnce(t, r); on.guarded != look+1 || *reported != nil {
			t.Errorf("after look %d: it was looked at %d times, and said %v", look+1, on.guarded, *reported)
		}
	}
	on.unguardable = errors.New("no nf_tables")
	delete(on.ktsnd, key{42, netip.MustParseAddr("192.0.2.2")})
	result := reconcileOnce(t, r)
	if !errors.Is(*reported, on.unguardable) || result.RequeueAfter != repeat.AfterFailure {
		t.Errorf("it said %v, and looks again after %v", *reported, result.RequeueAfter)
	}
	if len(on.ktsnd) != 1 {
		t.Error("without a filter ktsnd is not told of the peer any more")
	}
}

func TestEventOfRestoredFilter(t *testing.T) {
	on := newFakeNode(42)
	r, _, _ := newReconciler(on, oneNetwork, kubeNode("node1", "10.244.0.0/24", "192.0.2.1", nil))
	var reasons []string
	r.Warn = func(_ *corev1.Node, reason, _ string) { reasons = append(reasons, reason) }
	on.unguarded = []string{"the table of another release"}
	if reconcileOnce(t, r); len(reasons) > 0 {
		t.Errorf("Events %q of the agent's start", reasons)
	}
	on.unguarded = []string{"table inet kubernetsn is missing"}
	reconcileOnce(t, r)
	if reconcileOnce(t, r); !slices.Equal(reasons, []string{v1alpha1.ReasonTSNFilterRestored}) {
		t.Errorf("Events %q", reasons)
	}
}

func TestReconcileRepairsPeers(t *testing.T) {
	two := netip.MustParseAddr("192.0.2.2")
	at := key{42, two}
	for name, spoil := range map[string]func(*fakeNode){
		"a ktsnd that was started anew":   func(on *fakeNode) { delete(on.ktsnd, at) },
		"a ktsnd with other subnets":      func(on *fakeNode) { on.ktsnd[at] = control.Peer{VNI: 42, Address: two} },
		"a forwarding entry that is gone": func(on *fakeNode) { delete(on.flooded[42], two) },
		"a list of peers that is gone":    func(on *fakeNode) { clear(on.remembered) },
		"a peer that no node is": func(on *fakeNode) {
			stranger := netip.MustParseAddr("192.0.2.77")
			on.remembered[key{42, stranger}] = control.Peer{VNI: 42, Address: stranger}
		},
		"a peer that only the kernel knows": func(on *fakeNode) { on.flooded[42][netip.MustParseAddr("192.0.2.77")] = true },
		"a peer of a network that is gone": func(on *fakeNode) {
			on.ktsnd[key{43, two}] = control.Peer{VNI: 43, Address: two}
		},
	} {
		t.Run(name, func(t *testing.T) {
			on := newFakeNode(42)
			r, _, reported := newReconciler(on, oneNetwork, kubeNode("node1", "10.244.0.0/24", "192.0.2.1", nil), kubeNode("node2", "10.244.1.0/24", "192.0.2.2", nil))
			reconcileOnce(t, r)
			before := on.text()
			spoil(on)
			reconcileOnce(t, r)
			if got := on.text(); got != before || len(on.ktsnd) != 1 || len(on.flooded[42]) != 1 || *reported != nil {
				t.Errorf("peers are %s, told %v, flooded %v (%v); want %s", got, on.ktsnd, on.flooded, *reported, before)
			}
		})
	}
}

func TestFaultyNodeIsSkipped(t *testing.T) {
	nodes := []*corev1.Node{
		kubeNode("node1", "10.244.0.0/24", "192.0.2.1", nil), kubeNode("node2", "", "192.0.2.2", nil),
		kubeNode("node3", "10.244.2.0/24", "", nil), kubeNode("node4", "10.244.3.0/24", "192.0.2.4", nil),
		kubeNode("node5", "10.244.5.0/24", "192.0.2.5", map[string]string{"range.kubernetsn.io/tsn": "10.42.0.0/20"}),
		kubeNode("node6", "10.244.6.0/24", "192.0.2.6", map[string]string{v1alpha1.TunnelAddressAnnotation: "192.0.2.4"}),
	}
	const peers1, peers4 = "42 192.0.2.1 [10.42.0.0/24] flooded false told [10.42.0.0/24]", "42 192.0.2.4 [10.42.3.0/24] flooded false told [10.42.3.0/24]"
	for nodeName, test := range map[string]struct{ peers, sentence string }{
		"node1": {peers4, ""},
		"node4": {peers1, ""},
		"node2": {peers1 + "; " + peers4, "node node2 has no subnet of network tsn: it has no spec.podCIDR"},
		"node3": {peers1 + "; " + peers4, "node node3 is unreachable on network tsn: it has no IPv4 InternalIP; annotate it with kubernetsn.io/tunnel-address"},
		"node5": {peers1 + "; " + peers4, "node node5 has no subnet of network tsn: its 10.42.0.0/20 and 10.42.0.0/24 of node node1 overlap"},
		"node6": {peers1 + "; " + peers4, "node node6 is unreachable on network tsn: annotation kubernetsn.io/tunnel-address: 192.0.2.4 is the InternalIP of node node4"},
	} {
		t.Run("as "+nodeName+" sees it", func(t *testing.T) {
			on := newFakeNode()
			r, _, reported := newReconciler(on, oneNetwork, nodes...)
			r.Plan.(*FromNodes).Node = nodeName
			leftOut, events := 0, []string{}
			r.LeftOut = func(count int) { leftOut = count }
			r.Warn = func(on *corev1.Node, reason, sentence string) {
				events = append(events, on.Name+" "+reason+" "+sentence)
			}
			result := reconcileOnce(t, r)
			reconcileOnce(t, r) // says nothing again
			if got := on.text(); got != test.peers {
				t.Errorf("peers are %s, want %s", got, test.peers)
			}
			if leftOut != 4 {
				t.Errorf("%d nodes are left out, want 4", leftOut)
			}
			if test.sentence == "" {
				if *reported != nil || result.RequeueAfter != repeat.Every || len(events) > 0 {
					t.Errorf("said %v, again after %v, Events %q, of other nodes' faults", *reported, result.RequeueAfter, events)
				}
				return
			}
			if !strings.Contains(fmt.Sprint(*reported), test.sentence) {
				t.Errorf("said %v, want %q", *reported, test.sentence)
			}
			if len(events) != 1 || !strings.HasPrefix(events[0], nodeName+" TSNNodeLeftOut "+test.sentence) {
				t.Errorf("the Events are %q, want one", events)
			}
		})
	}
}

func TestReconcileReportsFailure(t *testing.T) {
	on := newFakeNode()
	on.err = errors.New("no")
	r, _, reported := newReconciler(on, oneNetwork, kubeNode("node1", "10.244.0.0/24", "192.0.2.1", nil), kubeNode("node4", "10.244.3.0/24", "192.0.2.4", nil))
	if result := reconcileOnce(t, r); result.RequeueAfter != repeat.AfterFailure || !strings.Contains(fmt.Sprint(*reported), "change peers: no") {
		t.Errorf("said %v, again after %v", *reported, result.RequeueAfter)
	}
}

func TestPlanBothFamilies(t *testing.T) {
	networks := fixed{{Name: "tsn", VNI: 42, Port: 4789, Ranges: []network.Range{
		{Prefix: netip.MustParsePrefix("10.42.0.0/16"), NodeBits: 24}, {Prefix: netip.MustParsePrefix("fd42::/48"), NodeBits: 64},
	}}}
	built := planFor("node1", []corev1.Node{
		*kubeNode("node1", "10.244.1.0/24", "192.0.2.1", nil), *kubeNode("node2", "10.244.2.0/24", "192.0.2.2", nil),
	}, networks)
	peer := built.peers[key{42, netip.MustParseAddr("192.0.2.2")}]
	if got, want := fmt.Sprint(peer.Subnets), "[10.42.2.0/24 fd42:0:0:2::/64]"; got != want || len(built.faults) > 0 {
		t.Errorf("node2 has %s, %v, want %s", got, built.faults, want)
	}
}

func TestInvalidTunnelAddressIsReported(t *testing.T) {
	built := planFor("node1", []corev1.Node{
		*kubeNode("node1", "10.244.1.0/24", "192.0.2.1", nil),
		*kubeNode("node2", "10.244.2.0/24", "192.0.2.2", map[string]string{v1alpha1.TunnelAddressAnnotation: "fd00::1"}),
	}, oneNetwork)
	if err := built.faults["node2"]; err == nil || !strings.Contains(err.Error(), `annotation kubernetsn.io/tunnel-address: "fd00::1" is not an IPv4 address`) {
		t.Errorf("got %v", err)
	}
}

func TestSwitchGetsSupportedTunnels(t *testing.T) {
	networks := fixed{oneNetwork[0], {Name: "large", VNI: 4095, Port: 4789, Ranges: []network.Range{{Prefix: netip.MustParsePrefix("10.43.0.0/16"), NodeBits: 24}}}}
	r, _, reported := newReconciler(newFakeNode(), networks, kubeNode("node1", "10.0.1.0/24", "192.0.2.1", nil),
		kubeNode("node2", "10.0.2.0/24", "192.0.2.2", nil), kubeNode("node3", "10.0.3.0/24", "192.0.2.9", map[string]string{v1alpha1.TunnelAddressAnnotation: "198.51.100.3"}))
	var received openvswitch.Tunnels
	var refuse error
	var events []string
	r.Switch = func(_ context.Context, tunnels openvswitch.Tunnels) error { received = tunnels; return refuse }
	r.Warn = func(ownNode *corev1.Node, reason, sentence string) {
		events = append(events, ownNode.Name+" "+reason+" "+sentence)
	}
	reconcileOnce(t, r)
	slices.SortFunc(received.Peers, netip.Addr.Compare)
	if want := (openvswitch.Tunnels{
		Local: netip.MustParseAddr("192.0.2.1"), Networks: map[uint32]uint16{42: 4789},
		Peers: []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.3")},
	}); fmt.Sprint(received) != fmt.Sprint(want) || *reported != nil {
		t.Errorf("it is told of %v, want %v; %v", received, want, *reported)
	}
	refuse = errors.New("set up Open vSwitch: no hugepages")
	for range 2 {
		reconcileOnce(t, r)
		if *reported == nil || !strings.Contains((*reported).Error(), "no hugepages") {
			t.Errorf("it reports %v", *reported)
		}
	}
	if want := []string{"node1 TSNOpenVSwitchNotSetUp set up Open vSwitch: no hugepages"}; !slices.Equal(events, want) {
		t.Errorf("events are %q, want %q", events, want)
	}
	refuse = nil
	if reconcileOnce(t, r); *reported != nil {
		t.Errorf("it reports %v", *reported)
	}
}
