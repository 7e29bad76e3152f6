// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// quickTimes rotates keys during a test. Lead must be much longer than the others need to learn and use a key.
var quickTimes = security.Times{Period: 4 * time.Second, Lead: 6 * time.Second}

const (
	keysSettle   = 500 * time.Millisecond
	agentsLook   = 50 * time.Millisecond
	operatorLate = 200 * time.Millisecond
)

// keyedNodes are the encryption parts of two nodes' agents, with the test as operator and API server. Node a has the
// real ktsnd. The kernels are maps, since this machine's need not support ESP.
type keyedNodes struct {
	key    *clusterkey.Private
	agents [2]*keyedNode
	times  security.Times

	mu sync.Mutex
	// carry changes the announcements on their way to the agents, if it is not nil.
	carry func([]v1alpha1.PeerNode)
	// peers is what agents learn of each other. keys are those of node a in it, the oldest first.
	peers []v1alpha1.PeerNode
	keys  map[string]bool

	clock roundsClock
}

// roundsClock is the time of agents and operator. It advances when each of them has run since the last advance, by
// mostRound at most: on a busy machine keys live longer, as with intervals of an hour, and not shorter than the others
// need to learn them.
type roundsClock struct {
	mu       sync.Mutex
	time     time.Time
	advanced time.Time
	looked   map[string]bool
}

// mostRound is longer than a round of all takes on an idle machine.
const mostRound = 2 * operatorLate

func (c *roundsClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

// afterRound records that one of the three has run.
func (c *roundsClock) afterRound(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked[name] = true; len(c.looked) == 3 {
		c.time = c.time.Add(min(time.Since(c.advanced), mostRound))
		c.advanced, c.looked = time.Now(), map[string]bool{}
	}
}

type keyedNode struct {
	*encryption.Reconciler
	nodes   *keyedNodes
	name    string
	address netip.Addr
	kernel  *mapKernel
}

// mapKernel records the states and policies that a kernel was given.
type mapKernel struct {
	mu     sync.Mutex
	states map[xfrm.Name]*xfrm.State
	peers  map[netip.Addr]bool
	// removed are deleted states, gone the times of their deletion.
	removed map[xfrm.Name]*xfrm.State
	gone    map[xfrm.Name]time.Time
}

func (k *mapKernel) Protect() error { return nil }
func (k *mapKernel) Close()         {}
func (k *mapKernel) Clear() error   { return nil }

func (k *mapKernel) States() (all []xfrm.Found, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.states {
		all = append(all, xfrm.Found{Name: name})
	}
	return all, nil
}

func (k *mapKernel) AddState(state *xfrm.State) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states[state.Name] = state
	return nil
}

func (k *mapKernel) RemoveState(name xfrm.Name) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed[name], k.gone[name] = k.states[name], time.Now()
	delete(k.states, name)
	return nil
}

func (k *mapKernel) Peers() (all []netip.Addr, err error) {
	for peer := range k.peers {
		all = append(all, peer)
	}
	return all, nil
}
func (k *mapKernel) AddPeer(_, peer netip.Addr) error { k.peers[peer] = true; return nil }
func (k *mapKernel) RemovePeer(peer netip.Addr) error { delete(k.peers, peer); return nil }

// keyFrom returns the key that decrypted packets with an SPI from a node at a time.
func (k *mapKernel) keyFrom(from, to netip.Addr, spi uint32, arrived time.Time) (key control.AssociationKey, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := xfrm.Name{From: from, To: to, SPI: spi}
	state := k.states[name]
	if state == nil && arrived.Before(k.gone[name]) {
		state = k.removed[name]
	}
	if state == nil || !state.Incoming {
		return key, false
	}
	return control.AssociationKey(state.Key), true
}

// withoutKtsnd is a node whose ktsnd does not send.
type withoutKtsnd struct{}

func (withoutKtsnd) NetworkEncryptions(context.Context) ([]control.NetworkEncryption, error) {
	return nil, nil
}
func (withoutKtsnd) SetNetworkEncryption(context.Context, uint32, control.Encryption) error {
	return nil
}
func (withoutKtsnd) SetSecurityAssociations(context.Context, netip.Addr, []control.SecurityAssociation) error {
	return nil
}
func (withoutKtsnd) UsedGeneration(context.Context) (uint32, error) { return 0, nil }

// startAgents runs both agents until the end of the test.
func (l *lab) startAgents(t *testing.T) *keyedNodes { return l.startAgentsWith(t, quickTimes) }

func (l *lab) startAgentsWith(t *testing.T, times security.Times) *keyedNodes {
	t.Helper()
	key, err := clusterkey.New()
	must(t, err)
	n := &keyedNodes{key: key, times: times, keys: map[string]bool{}, clock: roundsClock{time: time.Now(), advanced: time.Now(), looked: map[string]bool{}}}
	askKtsnd := func(ctx context.Context, ask func(context.Context, encryption.Ktsnd) error) error {
		client, err := control.Dial(ctx, l.control)
		if err != nil {
			return err
		}
		defer client.Close()
		return ask(ctx, client)
	}
	askNobody := func(ctx context.Context, ask func(context.Context, encryption.Ktsnd) error) error {
		return ask(ctx, withoutKtsnd{})
	}
	n.agents[0] = n.agent(t, "a", topology.NodeAddressA, askKtsnd)
	n.agents[1] = n.agent(t, "b", topology.NodeAddressB, askNobody)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for _, agent := range n.agents {
		ended.Go(func() { agent.run(ctx) })
	}
	ended.Go(func() { n.operate(ctx) })
	t.Cleanup(func() { cancel(); ended.Wait() })
	return n
}

func (n *keyedNodes) agent(t *testing.T, name string, address netip.Addr,
	do func(context.Context, func(context.Context, encryption.Ktsnd) error) error) *keyedNode {
	t.Helper()
	dir, witness := t.TempDir(), t.TempDir()
	kernel := &mapKernel{states: map[xfrm.Name]*xfrm.State{}, peers: map[netip.Addr]bool{}, removed: map[xfrm.Name]*xfrm.State{}, gone: map[xfrm.Name]time.Time{}}
	node := &keyedNode{nodes: n, name: name, address: address, kernel: kernel}
	node.Reconciler = encryption.New(encryption.Config{
		Judge: &encryption.Judge{Node: name}, State: n.state, Now: n.clock.now, Linger: 10 * time.Second, Settle: keysSettle, Changed: func() {},
		Own: func(context.Context) (netip.Addr, error) { return address, nil }, Try: func() error { return nil },
		OpenKernel: func() (encryption.Kernel, error) { return kernel, nil },
		OpenKeys: func() (*security.Keyring, string, error) {
			return security.Open(dir, witness, n.times, n.clock.now)
		},
		RemoveKeys: func() error { return security.Remove(dir, witness) }, Do: do,
		Retune: func(context.Context, []encryption.Tunnel) error { return nil },
		MTU:    func(*network.Joined) int { return 0 }, Log: slog.New(slog.DiscardHandler),
	})
	return node
}

func (k *keyedNode) run(ctx context.Context) {
	for tick := time.Tick(agentsLook); ctx.Err() == nil; {
		_, _ = k.Reconcile(ctx, reconcile.Request{}) // the next round repeats it, or the test fails
		k.nodes.clock.afterRound(k.name)
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
}

// operate signs the agents' announcements and distributes them some time later.
func (n *keyedNodes) operate(ctx context.Context) {
	for ctx.Err() == nil {
		var all []v1alpha1.PeerNode
		for _, agent := range n.agents {
			announced := agent.Judge.Announced()
			entry := v1alpha1.PeerNode{Name: agent.name, Address: agent.address.String(), IPv4: fmt.Sprintf("10.42.%d.0/24", agent.address.As4()[3]),
				Keys: announced.Keys, Sender: announced.Sender, Sequence: time.Now().UnixMicro()}
			n.key.Sign("tsn", &entry)
			all = append(all, entry)
		}
		select {
		case <-ctx.Done():
		case <-time.After(operatorLate):
		}
		n.mu.Lock()
		n.peers = all
		if keys := all[0].Keys; len(keys) > 0 {
			n.keys[keys[0].ID] = true
		}
		n.mu.Unlock()
		n.clock.afterRound("operator")
	}
}

// state returns the API server's state for the agents.
func (n *keyedNodes) state() network.Cluster {
	n.mu.Lock()
	defer n.mu.Unlock()
	public, nodes := n.key.Public().String(), slices.Clone(n.peers)
	if n.carry != nil && len(nodes) > 0 {
		n.carry(nodes)
	}
	peers := &v1alpha1.TSNPeers{Spec: v1alpha1.TSNPeersSpec{Network: "tsn", ClusterKey: public, Nodes: nodes}}
	members, _ := network.MembersOf(peers)
	return network.Cluster{Node: &v1alpha1.TSNNode{}, Networks: []network.Joined{{
		Part: v1alpha1.NodeNetwork{Name: "tsn"}, Shards: [][]network.Member{members},
		Object: &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}, Spec: v1alpha1.TSNNetworkSpec{
			VNI: topology.VNI, Encryption: v1alpha1.EncryptionRequired, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24},
		}, Status: v1alpha1.TSNNetworkStatus{ClusterKeys: []v1alpha1.ClusterKey{{PublicKey: public}}}},
	}}}
}

// hear replaces what agents learn about node b from now on and returns the previous value.
func (n *keyedNodes) hear(change func(b *v1alpha1.PeerNode)) (before v1alpha1.PeerNode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.carry = func(peers []v1alpha1.PeerNode) { change(&peers[1]) }
	return *n.peers[1].DeepCopy()
}

// keyCount returns the number of keys that node a has used.
func (n *keyedNodes) keyCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.keys)
}

// awaitAssociations waits until ktsnd has keys for node b.
func awaitAssociations(t *testing.T, client *control.Client) {
	t.Helper()
	testlab.Eventually(t, patience, agentsLook, func() error {
		state, err := client.SecurityAssociations(t.Context())
		if err == nil && len(state) == 1 {
			return nil
		}
		return fmt.Errorf("ktsnd seals by %v, %v", state, err)
	})
}

// TestAgentKeysDecryptOnOtherNode kills and replaces ktsnd and rotates keys while messages are sent. Each frame is
// decrypted by a key that the other node's kernel has at that moment. The lost messages are those that ktsnd dropped
// for want of a key after it was killed.
func TestAgentKeysDecryptOnOtherNode(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startEncrypting(t, nil)
	nodes := lab.startAgents(t)
	b := nodes.agents[1]
	decrypter := lab.startDecrypterBy(t, func(spi uint32, arrived time.Time) (control.AssociationKey, bool) {
		return b.kernel.keyFrom(topology.NodeAddressA, b.address, spi, arrived)
	})
	awaitAssociations(t, client)
	running := lab.startFlow(t, "--cycle", "1ms", "--lead", "20ms")
	var total sum
	const lives = 6
	keyless := uint64(0)
	for life := range lives {
		awaitTaken(t, client, 500)
		counted := counters(t, client)
		total.add(counted)
		if life%2 != 0 { // it was started after a kill and waited for keys: afterwards nothing is dropped
			keyless += counted.DropNoAssociation
			total.dropped -= counted.DropNoAssociation
		}
		if life%2 == 0 {
			kill(t, daemon)
			daemon, client = lab.startEncrypting(t, nil)
			nodes.agents[0].KtsndRestarted()
			awaitAssociations(t, client)
		} else {
			daemon, client = lab.takeOver(t, daemon)
			nodes.agents[0].KtsndRestarted()
		}
	}
	// An hour passes in seconds.
	testlab.Eventually(t, 3*patience, agentsLook, func() error {
		if nodes.keyCount() < 2 {
			return fmt.Errorf("node a has had %d keys", nodes.keyCount())
		}
		return nil
	})
	client = replacedRightNow(t, lab, nodes, daemon, client, &total)
	awaitTaken(t, client, 500)
	total.add(running.end(t, client))
	lost := uint64(len(running.lost(t)))
	if lost > total.uncertain+keyless || total.dropped != 0 || total.astray != 0 {
		t.Errorf("%d messages are lost: %d are uncertain, %d fell into times without keys after a kill; %d were dropped otherwise and %d went the kernel's way",
			lost, total.uncertain, keyless, total.dropped, total.astray)
	}
	opened, spis := decrypter.check(t)
	t.Logf("%d messages were decrypted, by %d associations and %d keys of node a; %d fell into times without keys", opened, spis, nodes.keyCount(), keyless)
	if opened < 500*lives || spis < lives+1 {
		t.Errorf("%d messages were decrypted, by %d associations", opened, spis)
	}
}

// replacedRightNow replaces ktsnd just after the others learned another key of the node.
func replacedRightNow(t *testing.T, lab *lab, nodes *keyedNodes, daemon *process.Process, client *control.Client, total *sum) *control.Client {
	t.Helper()
	for before, deadline := nodes.keyCount(), time.Now().Add(patience); nodes.keyCount() == before && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	total.add(counters(t, client))
	_, client = lab.takeOver(t, daemon)
	nodes.agents[0].KtsndRestarted()
	return client
}

// peersOfA returns the part of node a's agent that configures peers in kernel and ktsnd from the test's input.
func (l *lab) peersOfA(t *testing.T, nodes *keyedNodes, client *control.Client) *peers.Reconciler {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: topology.NodeAddressA.String()}}}}
	dir := t.TempDir()
	return &peers.Reconciler{
		Plan: &peers.FromCluster{Nodes: fake.NewClientBuilder().WithObjects(node).Build(), Node: "a", State: nodes.state, Encryption: nodes.agents[0].Judge.Look,
			EncryptedPort: overlay.EncryptedPort},
		Now: time.Now, Open: func() (peers.Overlay, error) { return overlay.Open(dir, patience) },
		Do:        func(ctx context.Context, ask func(context.Context, peers.Ktsnd) error) error { return ask(ctx, client) },
		Configure: func([]network.Network, map[string][]netip.Prefix, bool) error { return nil },
		Report: func(err error) {
			if err != nil {
				t.Error(err)
			}
		},
		LeftOut: func(int) {}, Warn: func(*corev1.Node, string, string) {}, Log: slog.New(slog.DiscardHandler),
	}
}

// TestHubCannotMoveNode changes a node's range at the hub, whose cluster signed another one, and then replays an older
// announcement.
func TestHubCannotMoveNode(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startEncrypting(t, nil)
	nodes := lab.startAgentsWith(t, security.Times{Period: time.Second, Lead: 2 * time.Second})
	awaitAssociations(t, client)
	reconciler := lab.peersOfA(t, nodes, client)
	subnets := func() string {
		t.Helper()
		err := lab.NodeA.Do(func() error {
			_, err := reconciler.Reconcile(t.Context(), reconcile.Request{})
			return err
		})
		must(t, err)
		all, err := client.Peers(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("ktsnd has %v: %v", all, err)
		}
		return fmt.Sprint(all[0].Subnets)
	}
	signed := fmt.Sprintf("[10.42.%d.0/24]", topology.NodeAddressB.As4()[3])
	if got := subnets(); got != signed {
		t.Fatalf("ktsnd has %s behind node b, which is signed for %s", got, signed)
	}
	old := nodes.hear(func(b *v1alpha1.PeerNode) { b.IPv4 = "10.42.200.0/24" })
	if got := subnets(); got != signed {
		t.Errorf("ktsnd has %s behind node b, which is signed for %s", got, signed)
	}

	nodes.hear(func(*v1alpha1.PeerNode) {})
	announces := func(id string) bool {
		nodes.mu.Lock()
		defer nodes.mu.Unlock()
		return slices.ContainsFunc(nodes.peers[1].Keys, func(key v1alpha1.NodeKey) bool { return key.ID == id })
	}
	testlab.Eventually(t, patience, agentsLook, func() error {
		if announces(old.Keys[0].ID) {
			return errors.New("node b has its first key still")
		}
		return nil
	})
	awaitAssociations(t, client)
	nodes.hear(func(b *v1alpha1.PeerNode) { *b = *old.DeepCopy() })
	b := nodes.agents[1]
	for range 20 { // agents run in each round
		time.Sleep(agentsLook)
		all, err := client.SecurityAssociations(t.Context())
		must(t, err)
		for _, state := range all {
			if _, known := b.kernel.keyFrom(topology.NodeAddressA, b.address, state.SPI, time.Now()); !known {
				t.Fatalf("ktsnd seals by SPI %#x, for a key that node b has no longer", state.SPI)
			}
		}
	}
}
