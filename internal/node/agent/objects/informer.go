// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Informer caches the objects of a node.
type Informer struct {
	// Client reads without a cache.
	Client client.WithWatch
	// Node is the name of the node.
	Node string
	// Wait delays the first request and returns an error when ctx has ended; may be nil.
	Wait func(ctx context.Context) error
	// Minimum is the cluster's minimum encryption; it raises that of networks.
	Minimum *tsnnetwork.EncryptionMinimum
	// Changed is called after relevant changes. It must not block.
	Changed func()
	Log     *slog.Logger

	mu sync.Mutex
	// node is the last known TSNNode.
	node *v1alpha1.TSNNode
	// listed means that the TSNNode was listed, gone that it does not exist.
	listed, gone bool
	networks     map[string]*networkWatch
	// signal triggers a call of Changed.
	signal chan struct{}
	// startWatch starts a watch, which ends with Run or stop.
	startWatch func(w *objectWatch) (stop context.CancelFunc)
}

// networkWatch is a network whose objects are watched.
type networkWatch struct {
	// stop ends the watch of its TSNNetwork, stopPeers that of its TSNPeers; nil if these are not watched.
	stop, stopPeers context.CancelFunc

	object *v1alpha1.TSNNetwork
	// shards are the members by the name of their TSNPeers; nil until these are listed.
	shards map[string][]network.Member
}

// notifyInterval is the least time between two calls of Changed: consumers of a thousand nodes handle many changes in
// one call.
const notifyInterval = 250 * time.Millisecond

// Run watches until ctx ends, and returns when all watches have ended.
func (i *Informer) Run(ctx context.Context) error {
	if i.Wait != nil {
		if err := i.Wait(ctx); err != nil {
			return nil // ctx has ended
		}
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(i.Log.Handler()))
	var watches sync.WaitGroup
	defer watches.Wait()
	i.mu.Lock()
	i.networks, i.signal = map[string]*networkWatch{}, make(chan struct{}, 1)
	i.startWatch = func(w *objectWatch) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		watches.Go(func() { w.run(ctx, i.Client) })
		return stop
	}
	stop := i.startWatch(i.ownNode())
	i.mu.Unlock()
	defer stop()
	i.notify(ctx)
	return nil
}

// notify calls Changed after changes, until ctx ends.
func (i *Informer) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.signal:
		}
		i.Changed()
		_ = retry.Pause(ctx, notifyInterval)
	}
}

// notifyChange triggers a call of Changed.
func (i *Informer) notifyChange() {
	select {
	case i.signal <- struct{}{}:
	default: // already triggered
	}
}

// updateWatches starts and ends watches as the TSNNode requires. The lock is held.
func (i *Informer) updateWatches() {
	wanted := map[string]bool{} // value: with peers
	if i.node.Spec.Gates != "" {
		wanted[i.node.Spec.Gates] = false
	}
	for _, part := range i.node.Spec.Networks {
		wanted[part.Name] = true
	}
	for name, nw := range i.networks {
		peers, keep := wanted[name]
		if !peers {
			nw.endPeers()
		}
		if !keep {
			nw.stop()
			delete(i.networks, name)
		}
	}
	for name, peers := range wanted {
		nw := i.networks[name]
		if nw == nil {
			nw = &networkWatch{}
			nw.stop = i.startWatch(i.networkOf(name, nw))
			i.networks[name] = nw
		}
		if peers && nw.stopPeers == nil {
			nw.stopPeers = i.startWatch(i.peersOf(name, nw))
		}
	}
}

// endPeers ends the watch of the TSNPeers, if there is one.
func (f *networkWatch) endPeers() {
	if f.stopPeers != nil {
		f.stopPeers()
		f.stopPeers, f.shards = nil, nil
	}
}

var (
	errNotListed = errors.New("the node's TSNNode is not known yet; nothing is changed until then")
	errNoObject  = "there is no TSNNode %s yet, which ktsn-operator creates; nothing is changed until then"
)

// State returns the known objects.
func (i *Informer) State() network.Cluster {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !i.listed:
		return network.Cluster{Unknown: errNotListed}
	case i.gone:
		return network.Cluster{Unknown: fmt.Errorf(errNoObject, i.Node)}
	}
	state := network.Cluster{Node: i.node}
	for _, part := range i.node.Spec.Networks {
		joined := network.Joined{Part: part}
		if nw := i.networks[part.Name]; nw != nil {
			joined.Object, joined.Shards = nw.object, nw.sorted()
		}
		state.Networks = append(state.Networks, joined)
	}
	if nw := i.networks[i.node.Spec.Gates]; nw != nil {
		state.Gates = nw.object
	}
	return state
}

// sorted returns the shards in the order of their names.
func (f *networkWatch) sorted() [][]network.Member {
	if f.shards == nil {
		return nil
	}
	all := make([][]network.Member, 0, len(f.shards))
	for _, name := range slices.Sorted(maps.Keys(f.shards)) {
		all = append(all, f.shards[name])
	}
	return all
}
