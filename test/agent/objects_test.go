// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// informer is a running informer.
type informer struct {
	*objects.Informer
	requests *requests
	// end stops the informer and waits for its end.
	end func()
}

func startInformer(ctx context.Context, t *testing.T, base *rest.Config, node string) *informer {
	t.Helper()
	watching, counter, err := newCountingClient(base)
	testlab.Must(t, err)
	created := &informer{requests: counter}
	created.Informer = &objects.Informer{
		Client: watching, Node: node, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = created.Run(ctx) // nil
	}()
	created.end = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(created.end)
	return created
}

func newNetwork(name string, vni int32) *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: vni, IPv4: v1alpha1.Range4{CIDR: "10.0.0.0/8", NodePrefixLength: 24}},
	}
}

// newShard returns a TSNPeers with count nodes, numbered from first.
func newShard(network string, first, count int) *v1alpha1.TSNPeers {
	created := &v1alpha1.TSNPeers{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", network, first/v1alpha1.MaxPeers), Labels: map[string]string{v1alpha1.NetworkLabel: network},
		},
		Spec: v1alpha1.TSNPeersSpec{Network: network},
	}
	for i := first; i < first+count; i++ {
		created.Spec.Nodes = append(created.Spec.Nodes, v1alpha1.PeerNode{
			Name: fmt.Sprintf("node-%04d.example.org", i), Address: fmt.Sprintf("192.168.%d.%d", i>>8, i&255),
			IPv4: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), IPv6: fmt.Sprintf("fd42:0:0:%x::/64", i),
		})
	}
	return created
}

func newTSNNode(name, gates string, networks ...string) *v1alpha1.TSNNode {
	created := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TSNNodeSpec{Gates: gates}}
	for _, item := range networks {
		created.Spec.Networks = append(created.Spec.Networks, v1alpha1.NodeNetwork{Name: item, IPv4: "10.0.0.0/24"})
	}
	return created
}

// text describes the state: each network with its numbers of shards and nodes, and the gates.
func text(state network.Cluster) string {
	if state.Unknown != nil {
		return state.Unknown.Error()
	}
	var parts []string
	for _, item := range state.Networks {
		count := 0
		for _, shard := range item.Shards {
			count += len(shard)
		}
		known := "unknown"
		if item.Object != nil {
			known = strconv.Itoa(int(item.Object.Spec.VNI))
		}
		parts = append(parts, fmt.Sprintf("%s %s %d/%d", item.Part.Name, known, len(item.Shards), count))
	}
	if state.Gates != nil {
		parts = append(parts, "gates of "+state.Gates.Name)
	}
	return strings.Join(parts, ", ")
}

// awaitState waits until the agent has the state and the number of watches.
func (i *informer) awaitState(t *testing.T, want string, watches int) {
	t.Helper()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		if got, open := text(i.State()), i.requests.watches(); got != want || open != watches {
			return fmt.Errorf("the agent has %q with %d watches, want %q by %d", got, open, want, watches)
		}
		return nil
	})
}

func TestAgentWatchesOwnNetworks(t *testing.T) {
	ctx := needServer(t)
	create(ctx, t, newNetwork("one", 1), newNetwork("two", 2), newNetwork("other", 3), newShard("one", 0, 3), newShard("two", 0, 5), newShard("other", 0, 7),
		newTSNNode("foreign", "other", "other"))
	before := runtime.NumGoroutine()
	on := startInformer(ctx, t, config, "watching")
	on.awaitState(t, "there is no TSNNode watching yet, which ktsn-operator creates; nothing is changed until then", 1)
	node := newTSNNode("watching", "two", "one")
	create(ctx, t, node)
	on.awaitState(t, "one 1 1/3, gates of two", 4)
	shard := newShard("one", 100, 10)
	create(ctx, t, shard)
	on.awaitState(t, "one 1 2/13, gates of two", 4)
	shard.Spec.Nodes = shard.Spec.Nodes[:4]
	update(ctx, t, shard)
	on.awaitState(t, "one 1 2/7, gates of two", 4)
	testlab.Must(t, admin.Delete(ctx, shard))
	on.awaitState(t, "one 1 1/3, gates of two", 4)
	for _, step := range []struct {
		gates    string
		networks []string
		want     string
		watches  int
	}{
		{"two", []string{"one", "two"}, "one 1 1/3, two 2 1/5, gates of two", 5},
		{"", []string{"two"}, "two 2 1/5", 3},
		{"two", nil, "gates of two", 2},
		{"two", []string{"nobodys"}, "nobodys unknown 0/0, gates of two", 4},
		{"", nil, "", 1},
	} {
		changed := newTSNNode("watching", step.gates, step.networks...)
		node.Spec = changed.Spec
		update(ctx, t, node)
		on.awaitState(t, step.want, step.watches)
	}
	if all := on.requests.unselected(); len(all) > 0 {
		t.Errorf("requests without a selector: %q", all)
	}
	on.end()
	if open := on.requests.watches(); open > 0 {
		t.Errorf("%d watches are left", open)
	}
	on.requests.next.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		if now := runtime.NumGoroutine(); now > before {
			return fmt.Errorf("%d goroutines, before there were %d", now, before)
		}
		return nil
	})
}

// TestIdleAgentRequestRate: fewer than one request a minute. The agent's watches of Node and pods last as long: see
// internal/node/agent/objects.
func TestIdleAgentRequestRate(t *testing.T) {
	ctx := needServer(t)
	node := newTSNNode("resting", "rest-0")
	create(ctx, t, node)
	var names, want []string
	for i := range 10 { // as many networks as a pod can have
		name := fmt.Sprintf("rest-%d", i)
		create(ctx, t, newNetwork(name, int32(20+i)), newShard(name, 0, 1))
		names, want = append(names, name), append(want, fmt.Sprintf("%s %d 1/1", name, 20+i))
	}
	node.Spec = newTSNNode("resting", "rest-0", names...).Spec
	update(ctx, t, node)
	on := startInformer(ctx, t, config, "resting")
	on.awaitState(t, strings.Join(append(want, "gates of rest-0"), ", "), 21)
	if rate := on.requests.perMinute(); rate > 1 {
		t.Errorf("21 watches are restarted %.2f times a minute", rate)
	}
	if count := on.requests.count(); count != 2*21 {
		t.Errorf("%d requests for 21 lists and 21 watches", count)
	}
}

func TestStateIsKept(t *testing.T) {
	ctx := needServer(t)
	node := newTSNNode("keeping", "", "kept")
	create(ctx, t, newNetwork("kept", 31), newShard("kept", 0, 3), node)
	way := newProxy(ctx, t)
	on := startInformer(ctx, t, way.config, "keeping")
	on.awaitState(t, "kept 31 1/3", 3)

	way.close()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		if on.requests.watches() > 0 {
			return errors.New("it does not notice that the API server is away")
		}
		return nil
	})
	if got := text(on.State()); got != "kept 31 1/3" {
		t.Errorf("without an API server the agent knows %s", got)
	}
	more := newShard("kept", 100, 2)
	create(ctx, t, more)
	way.open()
	on.awaitState(t, "kept 31 2/5", 3)

	testlab.Must(t, admin.Delete(ctx, node))
	on.awaitState(t, "there is no TSNNode keeping yet, which ktsn-operator creates; nothing is changed until then", 3)
	create(ctx, t, newTSNNode("keeping", "", "kept"))
	on.awaitState(t, "kept 31 2/5", 3)
}

func TestPeerMemory(t *testing.T) {
	ctx := needServer(t)
	const peers = 1000
	create(ctx, t, newNetwork("large", 41), newTSNNode("small", "", "large"))
	on := startInformer(ctx, t, config, "small")
	on.awaitState(t, "large 41 0/0", 3)
	before := heap()
	for first := 0; first < peers; first += v1alpha1.MaxPeers {
		create(ctx, t, newShard("large", first, v1alpha1.MaxPeers))
	}
	on.awaitState(t, fmt.Sprintf("large 41 %d/%d", peers/v1alpha1.MaxPeers, peers), 3)
	if each := (heap() - before) / peers; each > 2000 {
		t.Errorf("a peer costs %d bytes", each)
	} else {
		t.Logf("a peer costs %d bytes", each)
	}
}

// heap returns the heap in use, in bytes.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // frees finalized objects
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// proxy is a proxy of the API server that can be closed.
type proxy struct {
	config *rest.Config
	t      *testing.T
	ctx    context.Context
	// address is the listen address, target that of the API server.
	address, target string
	listener        net.Listener
	mu              sync.Mutex
	connections     map[net.Conn]bool
}

func newProxy(ctx context.Context, t *testing.T) *proxy {
	t.Helper()
	at, err := url.Parse(config.Host)
	testlab.Must(t, err)
	if at.Host == "" { // without a scheme
		at = &url.URL{Scheme: "https", Host: config.Host}
	}
	p := &proxy{t: t, ctx: ctx, address: "127.0.0.1:0", target: at.Host, connections: map[net.Conn]bool{}}
	p.open()
	t.Cleanup(p.close)
	p.config = rest.CopyConfig(config)
	at.Host = p.address
	p.config.Host = at.String()
	p.config.ServerName = "127.0.0.1"
	return p
}

func (p *proxy) open() {
	p.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(p.ctx, "tcp", p.address)
	testlab.Must(p.t, err)
	p.address, p.listener = listener.Addr().String(), listener
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(from)
		}
	}()
}

func (p *proxy) serve(from net.Conn) {
	to, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		from.Close()
		return
	}
	p.mu.Lock()
	p.connections[from], p.connections[to] = true, true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, from) // until one of them ends
		to.Close()
	}()
	_, _ = io.Copy(from, to)
	from.Close()
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.connections {
		connection.Close()
	}
	clear(p.connections)
}
