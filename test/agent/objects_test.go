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

// informer is one that runs.
type informer struct {
	*objects.Informer
	asked *requests
	// end ends it, and returns when it has ended.
	end func()
}

func startInformer(ctx context.Context, t *testing.T, of *rest.Config, node string) *informer {
	t.Helper()
	watching, asked, err := counted(of)
	if err != nil {
		t.Fatal(err)
	}
	made := &informer{asked: asked}
	made.Informer = &objects.Informer{
		Client: watching, Node: node, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = made.Run(ctx) // nil
	}()
	made.end = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(made.end)
	return made
}

func newNetwork(name string, vni int32) *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.TSNNetworkSpec{VNI: vni, IPv4: v1alpha1.Range4{CIDR: "10.0.0.0/8", NodePrefixLength: 24}},
	}
}

// newShard has nodes of a network from a number on.
func newShard(network string, first, count int) *v1alpha1.TSNPeers {
	made := &v1alpha1.TSNPeers{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", network, first/v1alpha1.MaxPeers), Labels: map[string]string{v1alpha1.NetworkLabel: network},
		},
		Spec: v1alpha1.TSNPeersSpec{Network: network},
	}
	for i := first; i < first+count; i++ {
		made.Spec.Nodes = append(made.Spec.Nodes, v1alpha1.PeerNode{
			Name: fmt.Sprintf("node-%04d.example.org", i), Address: fmt.Sprintf("192.168.%d.%d", i>>8, i&255),
			IPv4: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), IPv6: fmt.Sprintf("fd42:0:0:%x::/64", i),
		})
	}
	return made
}

func newTSNNode(name, gates string, networks ...string) *v1alpha1.TSNNode {
	made := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TSNNodeSpec{Gates: gates}}
	for _, one := range networks {
		made.Spec.Networks = append(made.Spec.Networks, v1alpha1.NodeNetwork{Name: one, IPv4: "10.0.0.0/24"})
	}
	return made
}

// text is what an agent knows: each network with its numbers of shards and nodes, and the gates.
func text(state network.Cluster) string {
	if state.Unknown != nil {
		return state.Unknown.Error()
	}
	var parts []string
	for _, one := range state.Networks {
		count := 0
		for _, shard := range one.Shards {
			count += len(shard)
		}
		known := "unknown"
		if one.Object != nil {
			known = strconv.Itoa(int(one.Object.Spec.VNI))
		}
		parts = append(parts, fmt.Sprintf("%s %s %d/%d", one.Part.Name, known, len(one.Shards), count))
	}
	if state.Gates != nil {
		parts = append(parts, "gates of "+state.Gates.Name)
	}
	return strings.Join(parts, ", ")
}

// knows waits until the agent knows this, by so many watches.
func (i *informer) knows(ctx context.Context, t *testing.T, want string, watches int) {
	t.Helper()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		if got, open := text(i.State()), i.asked.watches(); got != want || open != watches {
			return fmt.Errorf("the agent knows %q by %d watches, want %q by %d", got, open, want, watches)
		}
		return nil
	})
}

func TestAnAgentWatchesItsNetworksAndNoOthers(t *testing.T) {
	ctx := needServer(t)
	create(ctx, t, newNetwork("one", 1), newNetwork("two", 2), newNetwork("other", 3), newShard("one", 0, 3), newShard("two", 0, 5), newShard("other", 0, 7),
		newTSNNode("foreign", "other", "other"))
	before := runtime.NumGoroutine()
	on := startInformer(ctx, t, config, "watching")
	on.knows(ctx, t, "there is no TSNNode watching yet, which ktsn-operator creates; nothing is changed until then", 1)
	own := newTSNNode("watching", "two", "one")
	create(ctx, t, own)
	on.knows(ctx, t, "one 1 1/3, gates of two", 4)
	shard := newShard("one", 100, 10)
	create(ctx, t, shard)
	on.knows(ctx, t, "one 1 2/13, gates of two", 4)
	shard.Spec.Nodes = shard.Spec.Nodes[:4]
	update(ctx, t, shard)
	on.knows(ctx, t, "one 1 2/7, gates of two", 4)
	if err := admin.Delete(ctx, shard); err != nil {
		t.Fatal(err)
	}
	on.knows(ctx, t, "one 1 1/3, gates of two", 4)
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
		own.Spec = changed.Spec
		update(ctx, t, own)
		on.knows(ctx, t, step.want, step.watches)
	}
	if all := on.asked.unselected(); len(all) > 0 {
		t.Errorf("it asked for all of a kind: %q", all)
	}
	on.end()
	if open := on.asked.watches(); open > 0 {
		t.Errorf("%d watches are left", open)
	}
	on.asked.next.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		if now := runtime.NumGoroutine(); now > before {
			return fmt.Errorf("%d goroutines, before there were %d", now, before)
		}
		return nil
	})
}

// The watches of Node and pods, which the agent's other cache has, last as long: see internal/node/agent/objects.
func TestARestingAgentAsksLessThanOnceAMinute(t *testing.T) {
	ctx := needServer(t)
	own := newTSNNode("resting", "rest-0")
	create(ctx, t, own)
	var names, want []string
	for i := range 10 { // as many networks as a pod can have
		name := fmt.Sprintf("rest-%d", i)
		create(ctx, t, newNetwork(name, int32(20+i)), newShard(name, 0, 1))
		names, want = append(names, name), append(want, fmt.Sprintf("%s %d 1/1", name, 20+i))
	}
	own.Spec = newTSNNode("resting", "rest-0", names...).Spec
	update(ctx, t, own)
	on := startInformer(ctx, t, config, "resting")
	on.knows(ctx, t, strings.Join(append(want, "gates of rest-0"), ", "), 21)
	if rate := on.asked.perMinute(); rate > 1 {
		t.Errorf("21 watches are begun anew %.2f times a minute", rate)
	}
	if asked := on.asked.count(); asked != 2*21 {
		t.Errorf("%d requests for 21 lists and 21 watches", asked)
	}
}

func TestWithoutATSNNodeOrAnAPIServerWhatIsKnownStays(t *testing.T) {
	ctx := needServer(t)
	own := newTSNNode("keeping", "", "kept")
	create(ctx, t, newNetwork("kept", 31), newShard("kept", 0, 3), own)
	way := newProxy(ctx, t)
	on := startInformer(ctx, t, way.config, "keeping")
	on.knows(ctx, t, "kept 31 1/3", 3)

	way.close()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		if on.asked.watches() > 0 {
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
	on.knows(ctx, t, "kept 31 2/5", 3)

	if err := admin.Delete(ctx, own); err != nil {
		t.Fatal(err)
	}
	on.knows(ctx, t, "there is no TSNNode keeping yet, which ktsn-operator creates; nothing is changed until then", 3)
	create(ctx, t, newTSNNode("keeping", "", "kept"))
	on.knows(ctx, t, "kept 31 2/5", 3)
}

func TestAPeerCostsAnAgentLessThanTwoKilobytes(t *testing.T) {
	ctx := needServer(t)
	const peers = 1000
	create(ctx, t, newNetwork("large", 41), newTSNNode("small", "", "large"))
	on := startInformer(ctx, t, config, "small")
	on.knows(ctx, t, "large 41 0/0", 3)
	before := heap()
	for first := 0; first < peers; first += v1alpha1.MaxPeers {
		create(ctx, t, newShard("large", first, v1alpha1.MaxPeers))
	}
	on.knows(ctx, t, fmt.Sprintf("large 41 %d/%d", peers/v1alpha1.MaxPeers, peers), 3)
	if each := (heap() - before) / peers; each > 2000 {
		t.Errorf("a peer costs %d bytes", each)
	} else {
		t.Logf("a peer costs %d bytes", each)
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one has found to be finalized
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// proxy stands before the API server, and can be away.
type proxy struct {
	config *rest.Config
	t      *testing.T
	ctx    context.Context
	// address is where it listens, target the API server.
	address, target string
	listener        net.Listener
	mu              sync.Mutex
	connections     map[net.Conn]bool
}

func newProxy(ctx context.Context, t *testing.T) *proxy {
	t.Helper()
	at, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		p.t.Fatal(err)
	}
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
