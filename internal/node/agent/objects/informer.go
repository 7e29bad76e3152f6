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

// Informer keeps the objects of one node.
type Informer struct {
	// Client reads past any cache.
	Client client.WithWatch
	// Node is the name of the node.
	Node string
	// Wait returns before the first request, with an error when ctx has ended; nil: at once.
	Wait func(ctx context.Context) error
	// Minimum is the least encryption that the cluster accepts; networks that ask for less have that.
	Minimum *tsnnetwork.EncryptionMinimum
	// Changed is called when something has changed that somebody may have to act upon. It must not block.
	Changed func()
	Log     *slog.Logger

	mu sync.Mutex
	// node is the last one that was heard of.
	node *v1alpha1.TSNNode
	// listed tells whether the API server has said whether there is one, gone that there is none.
	listed, gone bool
	networks     map[string]*followed
	// signal asks to call Changed.
	signal chan struct{}
	// begin begins a watch, which ends with Run or stop.
	begin func(of *watched) (stop context.CancelFunc)
}

// followed is a network whose objects are watched.
type followed struct {
	// stop ends the watch of its TSNNetwork, stopPeers that of its TSNPeers; nil where these are not watched.
	stop, stopPeers context.CancelFunc

	object *v1alpha1.TSNNetwork
	// shards are by the names of the TSNPeers; nil as long as they were not listed.
	shards map[string][]network.Member
}

// changedAtMost is how often Changed is called: whoever looks at all of a thousand nodes does it once for many changes.
const changedAtMost = 250 * time.Millisecond

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
	i.networks, i.signal = map[string]*followed{}, make(chan struct{}, 1)
	i.begin = func(of *watched) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		watches.Go(func() { of.run(ctx, i.Client) })
		return stop
	}
	stop := i.begin(i.ownNode())
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
		_ = retry.Pause(ctx, changedAtMost) // which ctx may end
	}
}

// changed has Changed called.
func (i *Informer) changed() {
	select {
	case i.signal <- struct{}{}:
	default: // it will be
	}
}

// follow begins and ends watches as the node's TSNNode says. The lock is held.
func (i *Informer) follow() {
	wanted := map[string]bool{} // and whether with its peers
	if i.node.Spec.Gates != "" {
		wanted[i.node.Spec.Gates] = false
	}
	for _, part := range i.node.Spec.Networks {
		wanted[part.Name] = true
	}
	for name, one := range i.networks {
		peers, keep := wanted[name]
		if !peers {
			one.endPeers()
		}
		if !keep {
			one.stop()
			delete(i.networks, name)
		}
	}
	for name, peers := range wanted {
		one := i.networks[name]
		if one == nil {
			one = &followed{}
			one.stop = i.begin(i.networkOf(name, one))
			i.networks[name] = one
		}
		if peers && one.stopPeers == nil {
			one.stopPeers = i.begin(i.peersOf(name, one))
		}
	}
}

// endPeers ends the watch of the TSNPeers, where there is one.
func (f *followed) endPeers() {
	if f.stopPeers != nil {
		f.stopPeers()
		f.stopPeers, f.shards = nil, nil
	}
}

var (
	errNotHeard = errors.New("the API server has not said yet what this node shall do; until then nothing is changed here")
	errNoObject = "there is no TSNNode %s yet, which ktsn-operator writes; until then nothing is changed here"
)

// State is what is known now.
func (i *Informer) State() network.Cluster {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !i.listed:
		return network.Cluster{Unknown: errNotHeard}
	case i.gone:
		return network.Cluster{Unknown: fmt.Errorf(errNoObject, i.Node)}
	}
	state := network.Cluster{Node: i.node}
	for _, part := range i.node.Spec.Networks {
		joined := network.Joined{Part: part}
		if one := i.networks[part.Name]; one != nil {
			joined.Object, joined.Shards = one.object, one.sorted()
		}
		state.Networks = append(state.Networks, joined)
	}
	if one := i.networks[i.node.Spec.Gates]; one != nil {
		state.Gates = one.object
	}
	return state
}

// sorted are the shards in the order of their names.
func (f *followed) sorted() [][]network.Member {
	if f.shards == nil {
		return nil
	}
	all := make([][]network.Member, 0, len(f.shards))
	for _, name := range slices.Sorted(maps.Keys(f.shards)) {
		all = append(all, f.shards[name])
	}
	return all
}
