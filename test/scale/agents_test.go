// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

// Agents is the process of the agents, as the test calls it.
type Agents struct {
	root, programs string
	server         *rest.Config
	log            *os.File

	mu    sync.Mutex
	nodes map[string]*node
}

// None is for calls that take or return nothing.
type None struct{}

// gcPercent has the heap of all agents collected as rarely as that of one: a collection marks what a thousand of them keep, for as
// long as two processors take, and what an agent asks meanwhile waits. An agent of its own marks a megabyte.
const gcPercent = 800

// runAgents serves the test until ctx is done.
func runAgents(ctx context.Context, config *partConfig) error {
	debug.SetGCPercent(gcPercent)
	log, err := os.OpenFile(filepath.Join(config.Dir, "agents.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	a := &Agents{root: config.Dir, programs: filepath.Join(config.Dir, "programs"), server: config.server(), log: log, nodes: map[string]*node{}}
	calls := rpc.NewServer()
	if err := calls.Register(a); err != nil {
		return err
	}
	path := filepath.Join(config.Dir, "agents.sock")
	_ = os.Remove(path) // of a process before
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go calls.Accept(listener)
	<-ctx.Done()
	return listener.Close()
}

// Start starts nodes, all at once.
func (a *Agents) Start(seats []Seat, _ *None) error {
	var group errgroup.Group
	for _, seat := range seats {
		group.Go(func() error {
			node, err := startNode(a.root, a.programs, seat, a.server, a.log)
			if err != nil {
				return fmt.Errorf("start node %s: %w", seat.Node, err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.nodes[seat.Node] = node
			return nil
		})
	}
	return group.Wait()
}

// Stop ends a node.
func (a *Agents) Stop(name string, _ *None) error {
	a.mu.Lock()
	node := a.nodes[name]
	delete(a.nodes, name)
	a.mu.Unlock()
	if node == nil {
		return fmt.Errorf("there is no node %s", name)
	}
	node.end()
	return nil
}

func (a *Agents) all() []*node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.nodes))
}

// Replacement has another ktsnd take a node's place.
type Replacement struct {
	Node         string
	LinkSpeedBps int64
}

// Replace does that.
func (a *Agents) Replace(wanted Replacement, _ *None) error {
	a.mu.Lock()
	node := a.nodes[wanted.Node]
	a.mu.Unlock()
	if node == nil {
		return fmt.Errorf("there is no node %s", wanted.Node)
	}
	return node.ktsnd.replace(wanted.LinkSpeedBps)
}

// Overview is what can be seen of all agents.
type Overview struct {
	Nodes int
	// Ready counts the agents that have said so at least once, LastReady is when the last of them was first seen to.
	Ready     int
	LastReady time.Time
	// Unready is what some of the others say, Restarts how often agents were restarted.
	Unready  []string
	Restarts int64
	// Peers is how many the node with the fewest has, and MostPeers the one with the most.
	Peers, MostPeers int
	// InForce counts nodes that execute a schedule of the cycle that was asked for.
	InForce int
}

// See looks at all nodes; those that were ready are not asked again.
func (a *Agents) See(cycleNs int64, seen *Overview) error {
	all := a.all()
	var group errgroup.Group
	group.SetLimit(8)
	var mu sync.Mutex
	seen.Nodes = len(all)
	for i, node := range all {
		count := node.ktsnd.countPeers()
		if i == 0 || count < seen.Peers {
			seen.Peers = count
		}
		seen.MostPeers = max(seen.MostPeers, count)
		if node.ktsnd.inForce(cycleNs) {
			seen.InForce++
		}
		seen.Restarts += node.restarts.Load()
		group.Go(func() error {
			err := node.look()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				seen.Ready++
				if node.ready.After(seen.LastReady) {
					seen.LastReady = node.ready
				}
			case len(seen.Unready) < 3:
				seen.Unready = append(seen.Unready, fmt.Sprintf("%s: %v", node.Node, err))
			}
			return nil
		})
	}
	return group.Wait()
}

// look asks an agent that was not ready yet. It is one caller's at a time.
func (n *node) look() error {
	if !n.ready.IsZero() {
		return nil
	}
	err := n.probe()
	if err == nil {
		n.ready = time.Now()
	} else if why := n.why.Load(); why != nil {
		err = fmt.Errorf("%w; it was started anew because: %w", err, *why)
	}
	return err
}

// Bill is what the agents have asked of the API server since they began.
type Bill struct {
	// ByNode has the share of each node.
	ByNode map[string]Share
	// ByKind counts requests by what they ask for, BySecond by when they began.
	ByKind   map[string]int64
	BySecond map[int64]int64
	Refused  int64
	Reports  []time.Duration
}

// Share is what one agent exchanged with the API server: requests, those of them that are neither watches
// nor reports, and bytes of its connections.
type Share struct{ Requests, Asked, Sent, Received int64 }

// Bill draws it up.
func (a *Agents) Bill(_ None, bill *Bill) error {
	bill.ByNode = map[string]Share{}
	for _, node := range a.all() {
		t := node.traffic
		bill.ByNode[node.Node] = Share{t.requests.Load(), t.asked.Load(), t.sent.Load(), t.received.Load()}
	}
	book.mu.Lock()
	defer book.mu.Unlock()
	bill.ByKind, bill.BySecond = maps.Clone(book.byKind), maps.Clone(book.bySecond)
	bill.Reports, bill.Refused = slices.Clone(book.reports), book.refused
	return nil
}

// Heap is what the process keeps, in bytes, after what nobody uses any more was freed.
func (a *Agents) Heap(_ None, bytes *int64) error {
	runtime.GC()
	runtime.GC() // what the first one has only found
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	*bytes = int64(stats.HeapAlloc + stats.StackInuse)
	return nil
}

// Profile writes the heap, or the processor time of some seconds, into a file.
func (a *Agents) Profile(wanted ProfileRequest, _ *None) error { return writeProfile(wanted) }

// ProfileRequest is of the heap if it takes no time.
type ProfileRequest struct {
	Path string
	For  time.Duration
}

func writeProfile(wanted ProfileRequest) error {
	file, err := os.Create(wanted.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if wanted.For == 0 {
		return pprof.Lookup("heap").WriteTo(file, 0)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	time.Sleep(wanted.For)
	pprof.StopCPUProfile()
	return nil
}

// nowTAI is the time by which nodes agree, in nanoseconds.
func nowTAI() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // which each Linux has
	return now.Nano()
}
