// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// world is some nodes of one network, and what their operator does.
type world struct {
	t       *testing.T
	key     *clusterkey.Private
	network *v1alpha1.TSNNetwork
	now     time.Time
	nodes   []*node
	// shard is what the operator has written; carry changes what nodes hear of it.
	shard *v1alpha1.TSNPeers
	// former are what it had written before, and when; nodes that are late still have that.
	former []published
	carry  func(*v1alpha1.TSNPeers)
	// lossy tells that something was done by which packets are lost for a moment.
	lossy bool
	// sequence is the number of the last statement.
	sequence int64
	// sent are all keys that anybody was given for sending.
	sent map[[security.KeyBytes]byte]string
}

type published struct {
	at    time.Time
	shard *v1alpha1.TSNPeers
}

// node is one of them, with the agent's part.
type node struct {
	*Reconciler
	w                  *world
	name               string
	address            netip.Addr
	dir, witness, seen string
	kernel             *fakeKernel
	ktsnd              *fakeKtsnd
	cannot             error
	tunnels            []Tunnel
	err                error
	// more are nodes of another cluster, nil: there are none.
	more *v1alpha1.TSNPeers
	// late is how long the API server takes to tell the node of something.
	late time.Duration
}

func newWorld(t *testing.T, encryption string, count int) *world {
	t.Helper()
	key, err := clusterkey.New()
	testlab.Must(t, err)
	w := &world{t: t, key: key, now: time.Unix(1e9, 0), carry: func(*v1alpha1.TSNPeers) {}, sent: map[[security.KeyBytes]byte]string{}}
	w.network = &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "line"}, Spec: v1alpha1.TSNNetworkSpec{
		VNI: 42, Port: 8472, Encryption: encryption, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24},
	}, Status: v1alpha1.TSNNetworkStatus{ClusterKeys: []v1alpha1.ClusterKey{{PublicKey: key.Public().String()}}}}
	for i := range count {
		w.add(i + 1)
	}
	w.publish()
	return w
}

func (w *world) add(number int) *node {
	n := &node{w: w, name: fmt.Sprint("node", number), address: netip.AddrFrom4([4]byte{192, 0, 2, byte(number)}),
		dir: memoryDir(w.t), witness: memoryDir(w.t), seen: memoryDir(w.t)}
	n.kernel, n.ktsnd = &fakeKernel{node: n, states: map[xfrm.Name]*xfrm.State{}, peers: sets.New[netip.Addr]()}, newKtsnd(n)
	n.start()
	w.nodes = append(w.nodes, n)
	return n
}

// memoryDir is a folder in memory where there is that, so that a test that writes keys thousands of times does not wait for a disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ktsn-encryption-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { testlab.Must(t, os.RemoveAll(dir)) })
	return dir
}

// start starts the node's agent, again.
func (n *node) start() {
	n.Reconciler = New(Config{
		Judge: &Judge{Node: n.name}, State: n.state, Now: func() time.Time { return n.w.now }, Linger: 10 * time.Second, Settle: 2 * time.Second, Changed: func() {},
		Own:        func(context.Context) (netip.Addr, error) { return n.address, nil },
		Try:        func() error { return n.cannot },
		OpenKernel: func() (Kernel, error) { return n.kernel, nil },
		OpenKeys: func() (*security.Keyring, string, error) {
			return security.Open(n.dir, n.witness, security.DefaultTimes, func() time.Time { return n.w.now })
		},
		RemoveKeys: func() error { return security.Remove(n.dir, n.witness) }, SeenDir: n.seen,
		Do:     func(ctx context.Context, ask func(context.Context, Ktsnd) error) error { return ask(ctx, n.ktsnd) },
		Retune: func(_ context.Context, wanted []Tunnel) error { n.tunnels = wanted; return nil },
		MTU:    func(*network.Joined) int { return 1413 },
		Log:    slog.New(slog.DiscardHandler),
	})
}

// state is what the API server tells the node.
func (n *node) state() network.Cluster {
	peers := n.w.heard(n.late).DeepCopy()
	n.w.carry(peers)
	members, faults := network.MembersOf(peers)
	if len(faults) > 0 {
		n.w.t.Fatal(faults)
	}
	shards := [][]network.Member{members}
	if n.more != nil {
		others, faults := network.MembersOf(n.more)
		if len(faults) > 0 {
			n.w.t.Fatal(faults)
		}
		shards = append(shards, others)
	}
	return network.Cluster{Node: &v1alpha1.TSNNode{}, Networks: []network.Joined{{
		Part: v1alpha1.NodeNetwork{Name: "line"}, Object: n.w.network, Shards: shards,
	}}}
}

// heard is what the operator had written a while ago.
func (w *world) heard(late time.Duration) *v1alpha1.TSNPeers {
	peers := w.former[0].shard
	for i := range w.former {
		if w.now.Sub(w.former[i].at) >= late {
			peers = w.former[i].shard
		}
	}
	return peers
}

// publish does what the operator does with what nodes announce.
func (w *world) publish() {
	w.shard = &v1alpha1.TSNPeers{Spec: v1alpha1.TSNPeersSpec{Network: "line", ClusterKey: w.key.Public().String()}}
	for _, n := range w.nodes {
		ownAnnouncement := n.Judge.Announced()
		entry := v1alpha1.PeerNode{Name: n.name, Address: n.address.String(), IPv4: fmt.Sprintf("10.42.%d.0/24", n.address.As4()[3]),
			Keys: ownAnnouncement.Keys, Sender: ownAnnouncement.Sender, CannotEncrypt: ownAnnouncement.Unavailable != ""}
		entry.Sequence = w.nextSequence()
		w.key.Sign("line", &entry)
		w.shard.Spec.Nodes = append(w.shard.Spec.Nodes, entry)
	}
	const kept = 8
	w.former = append(w.former, published{w.now, w.shard})
	w.former = w.former[max(0, len(w.former)-kept):]
}

// nextSequence numbers statements of the operator.
func (w *world) nextSequence() int64 {
	w.sequence++
	return w.sequence
}

// look has an agent look, and checks that what anybody sends can be received.
func (n *node) look() {
	n.w.t.Helper()
	n.err = nil
	result, err := n.Reconcile(n.w.t.Context(), reconcile.Request{})
	testlab.Must(n.w.t, err)
	if n.err = n.Judge.trouble; n.err == nil && result.RequeueAfter <= 0 {
		n.w.t.Errorf("%s looks again after %v", n.name, result.RequeueAfter)
	}
	n.w.check()
}

// settle has all agents look and the operator write, until nothing more can come of it.
func (w *world) settle() {
	w.t.Helper()
	for range 6 {
		for _, n := range w.nodes {
			n.look()
		}
		w.publish()
		w.now = w.now.Add(time.Second)
	}
}

// pass advances the time. Nodes read announcements within Settle, as with the API server.
func (w *world) pass(duration time.Duration) {
	w.t.Helper()
	if settled := w.nodes[0].Settle - 1; duration > settled {
		w.now = w.now.Add(settled)
		duration -= settled
		for _, n := range w.nodes {
			n.look()
		}
	}
	w.now = w.now.Add(duration)
}

// check finds packets that the other end would not take.
func (w *world) check() {
	w.t.Helper()
	if w.lossy {
		return
	}
	for _, from := range w.nodes {
		for _, to := range w.nodes {
			if from == to || !from.kernel.peers.Has(to.address) {
				continue
			}
			for name, state := range from.kernel.states {
				if !state.Incoming && name.To == to.address && !to.takes(name, state.Key) {
					w.t.Errorf("%v: the kernel of %s sends to %s by %#x, which that does not take", w.now.Unix()-1e9, from.name, to.name, name.SPI)
				}
			}
			if now := from.ktsnd.using(to.address); now != nil && !to.takes(xfrm.Name{From: from.address, To: to.address, SPI: now.SPI}, now.Key) {
				w.t.Errorf("%v: ktsnd of %s sends to %s by generation %d, which that does not take", w.now.Unix()-1e9, from.name, to.name, now.Generation)
			}
		}
	}
}

func (n *node) takes(name xfrm.Name, key [security.KeyBytes]byte) bool {
	state := n.kernel.states[name]
	return state != nil && state.Incoming && state.Key == key
}

// speaks tells whether kernel and ktsnd of a node send to another one, encrypted.
func (n *node) speaks(to *node) bool {
	speaking := false
	for name, state := range n.kernel.states {
		speaking = speaking || !state.Incoming && name.To == to.address
	}
	return speaking && n.kernel.peers.Has(to.address) && n.ktsnd.using(to.address) != nil && n.ktsnd.modes[42] == control.EncryptionRequired
}

func (w *world) mustSpeak() {
	w.t.Helper()
	for _, from := range w.nodes {
		for _, to := range w.nodes {
			if from != to && !from.speaks(to) {
				w.t.Errorf("%s does not send to %s (%v)", from.name, to.name, from.err)
			}
		}
	}
}

// fakeKernel is the kernel of a node.
type fakeKernel struct {
	node      *node
	states    map[xfrm.Name]*xfrm.State
	peers     sets.Set[netip.Addr]
	protected bool
	changes   int
}

func (k *fakeKernel) Protect() error { k.protected = true; return nil }
func (k *fakeKernel) Close()         {}

func (k *fakeKernel) States() (all []xfrm.Found, err error) {
	for name := range k.states {
		all = append(all, xfrm.Found{Name: name})
	}
	return all, nil
}

func (k *fakeKernel) AddState(state *xfrm.State) error {
	k.changes++
	for name := range k.states {
		if name.To == state.To && name.SPI == state.SPI {
			return errors.New("file exists")
		}
	}
	if !k.protected {
		k.node.w.t.Error("a state without the policies")
	}
	if !state.Incoming {
		k.node.sends(state.Key, "kernel")
	}
	k.states[state.Name] = state
	return nil
}

func (k *fakeKernel) RemoveState(name xfrm.Name) error {
	k.changes++
	delete(k.states, name)
	return nil
}
func (k *fakeKernel) Peers() ([]netip.Addr, error)     { return k.peers.UnsortedList(), nil }
func (k *fakeKernel) AddPeer(_, peer netip.Addr) error { k.changes++; k.peers.Insert(peer); return nil }
func (k *fakeKernel) RemovePeer(peer netip.Addr) error { k.changes++; k.peers.Delete(peer); return nil }

func (k *fakeKernel) Clear() error {
	k.states, k.peers, k.protected = map[xfrm.Name]*xfrm.State{}, sets.New[netip.Addr](), false
	return nil
}

// sends notes a key by which a counter begins.
func (n *node) sends(key [security.KeyBytes]byte, who string) {
	at := fmt.Sprint(who, " of ", n.name, " at ", n.w.now.Unix()-1e9)
	if before := n.w.sent[key]; before != "" {
		n.w.t.Errorf("%s begins with a key of %s", at, before)
	}
	n.w.sent[key] = at
}

// fakeKtsnd is a ktsnd that uses, of each list, what it uses already, else the first that it may.
type fakeKtsnd struct {
	node    *node
	modes   map[uint32]control.Encryption
	lists   map[netip.Addr][]control.SecurityAssociation
	former  uint32
	highest *uint32
	now     map[netip.Addr]*control.SecurityAssociation
	calls   int
	// refused counts lists without a generation that may be used.
	refused int
}

func newKtsnd(n *node) *fakeKtsnd {
	return &fakeKtsnd{node: n, modes: map[uint32]control.Encryption{}, lists: map[netip.Addr][]control.SecurityAssociation{},
		highest: new(uint32), now: map[netip.Addr]*control.SecurityAssociation{}}
}

// replaced is the next ktsnd: it has the state that a successor gets, or none.
func (k *fakeKtsnd) replaced(handedOver bool) *fakeKtsnd {
	next := newKtsnd(k.node)
	next.highest, next.former = k.highest, *k.highest
	if handedOver {
		for vni, mode := range k.modes {
			next.modes[vni] = mode
		}
		for peer, list := range k.lists {
			next.lists[peer] = list
			next.use(peer)
		}
	}
	return next
}

func (k *fakeKtsnd) use(peer netip.Addr) {
	for i := range k.lists[peer] {
		if reported := &k.lists[peer][i]; reported.Generation > k.former {
			if now := k.now[peer]; now == nil || now.Key != reported.Key {
				k.node.sends(reported.Key, "ktsnd")
			}
			*k.highest = max(*k.highest, reported.Generation)
			k.now[peer] = reported
			return
		}
	}
	delete(k.now, peer)
}

func (k *fakeKtsnd) using(peer netip.Addr) *control.SecurityAssociation { return k.now[peer] }

func (k *fakeKtsnd) NetworkEncryptions(context.Context) (all []control.NetworkEncryption, err error) {
	for vni, mode := range k.modes {
		all = append(all, control.NetworkEncryption{VNI: vni, Encryption: mode})
	}
	return all, nil
}

func (k *fakeKtsnd) SetNetworkEncryption(_ context.Context, vni uint32, mode control.Encryption) error {
	k.calls++
	k.modes[vni] = mode
	return nil
}

func (k *fakeKtsnd) SetSecurityAssociations(_ context.Context, peer netip.Addr, all []control.SecurityAssociation) error {
	k.calls++
	for i := range all {
		if now := k.now[peer]; now != nil && now.Generation == all[i].Generation && now.Key != all[i].Key {
			return &control.Error{Field: "associations"}
		}
	}
	if len(all) > 0 && all[len(all)-1].Generation <= k.least(peer) {
		k.refused++
		return &control.Error{Field: "associations"}
	}
	k.lists[peer] = all
	k.use(peer)
	return nil
}

// least is what the newest generation of a list must be above, unless that is in use.
func (k *fakeKtsnd) least(peer netip.Addr) uint32 {
	if now := k.now[peer]; now != nil {
		return max(k.former, now.Generation-1)
	}
	return k.former
}

func (k *fakeKtsnd) UsedGeneration(context.Context) (uint32, error) { return *k.highest, nil }

type (
	networkCluster = network.Cluster
	networkJoined  = network.Joined
)
