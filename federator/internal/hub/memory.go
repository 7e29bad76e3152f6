// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Memory is the federator's cache of the hub, for its controllers and for lists.
type Memory struct {
	kept atomic.Pointer[kept]
	// away is set while the hub does not answer and the cache has not been filled yet.
	away atomic.Bool
}

// kept is a cache, and whether all objects of each kind that requests list have been read.
type kept struct {
	cache.Cache

	kinds []cache.Informer
}

// SetCache sets the cache and reads all kinds that requests list.
func (m *Memory) SetCache(ctx context.Context, from cache.Cache) error {
	all := &kept{Cache: from}
	for _, object := range []client.Object{
		&clusterv1alpha1.Cluster{}, &policyv1alpha1.PropagationPolicy{}, &policyv1alpha1.ClusterOverridePolicy{}, &workv1alpha2.ResourceBinding{},
		&workv1alpha2.ClusterResourceBinding{}, &tsn.TSNNetwork{}, &tsn.TSNService{}, &tsn.TSNLink{},
	} {
		kind, err := from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		all.kinds = append(all.kinds, kind)
	}
	m.kept.Store(all)
	return nil
}

// SetAway records whether the hub does not answer.
func (m *Memory) SetAway(ok bool) { m.away.Store(ok) }

// Ready returns nil when lists can be answered. It also returns nil while the hub does not answer: the federator's
// responses then say so, which is more useful than a refused connection.
func (m *Memory) Ready() error {
	all := m.kept.Load()
	if all == nil {
		if m.away.Load() {
			return nil
		}
		return errNotRead
	}
	for _, kind := range all.kinds {
		if !kind.HasSynced() {
			return errNotRead
		}
	}
	return nil
}

// List waits until all objects of a kind have been read.
func (m *Memory) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	all := m.kept.Load()
	if all == nil {
		return errNotRead
	}
	err := all.List(ctx, list, options...)
	var notStarted *cache.ErrCacheNotStarted
	if errors.As(err, &notStarted) {
		return errNotRead
	}
	return err
}

var errNotRead = Faultf(http.StatusServiceUnavailable, "the federator has just started and has not read the hub yet; ask again in a moment")
