// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// Get returns a member.
func (s *Service) Get(ctx context.Context, name string) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	err := s.Client.Get(ctx, types.NamespacedName{Name: name}, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return nil, hub.Faultf(http.StatusNotFound, "there is no cluster %s; `ktsn fed clusters` lists them", name)
	case err != nil:
		return nil, fmt.Errorf("look at cluster %s: %w", name, err)
	}
	return cluster, nil
}

const (
	// leaveTimeout limits the wait for a cluster to leave.
	leaveTimeout = 30 * time.Second
	leavePoll    = 500 * time.Millisecond
	// agentTimeout is how long the agent, or Karmada in push mode, may take to release the cluster's Works.
	agentTimeout = 10 * time.Second
	// workFinalizer is Karmada's finalizer of Works.
	workFinalizer = "karmada.io/execution-controller"
)

// Removal is the progress of the removal of a member.
type Removal struct {
	// Since is when the removal began, nil if it began with this request.
	Since *metav1.Time
	// Left: the cluster is no longer a member. Otherwise the hub still has Given Works of it.
	Left  bool
	Given int
	// Kept are links between clusters that the cluster may have kept.
	Kept []string
}

// Remove makes Karmada remove a member, and waits a while. The cluster keeps its objects, which are its own from then
// on, except its ends of links between clusters: these are removed first, and Removal names those that the cluster has
// kept. Remove can be repeated after a failure; concurrent callers get the same result.
func (s *Service) Remove(ctx context.Context, cluster *v1alpha1.Cluster) (*Removal, error) {
	removal := &Removal{Since: cluster.DeletionTimestamp}
	var err error
	if removal.Kept, err = s.beginLeaving(ctx, cluster); apierrors.IsNotFound(err) {
		removal.Left = true // somebody else has completed it
		return removal, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.waitForRemoval(ctx, cluster, removal); err != nil {
		return nil, fmt.Errorf("wait until cluster %s has left: %w", cluster.Name, err)
	}
	return removal, nil
}

// beginLeaving deletes the Cluster. If it fails, it undoes its changes, because a cluster that is marked as leaving
// gets no workloads and no links.
func (s *Service) beginLeaving(ctx context.Context, cluster *v1alpha1.Cluster) (kept []string, err error) {
	if cluster.DeletionTimestamp != nil {
		kept, err = s.linksOf(ctx, cluster.Name) // it is too late to wait for them, but they are named
		return kept, errors.Join(err, s.preserveAll(ctx, cluster.Name))
	}
	if err := s.markLeaving(ctx, cluster); err != nil {
		return nil, err
	}
	if kept, err = s.waitForLinks(ctx, cluster.Name); err != nil {
		return nil, s.unmarkLeaving(ctx, cluster, err)
	}
	if err := s.preserveAll(ctx, cluster.Name); err != nil {
		return nil, s.unmarkLeaving(ctx, cluster, err)
	}
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, cluster, client.Preconditions{UID: ptr.To(cluster.UID)})); err != nil {
		return nil, s.unmarkLeaving(ctx, cluster, fmt.Errorf("remove cluster %s: %w", cluster.Name, err))
	}
	return kept, nil
}

// worksOf returns the Works of a cluster.
func (s *Service) worksOf(ctx context.Context, cluster string) ([]workv1alpha1.Work, error) {
	var list workv1alpha1.WorkList
	err := s.Client.List(ctx, &list, client.InNamespace(hub.ExecutionNamespace(cluster)))
	return list.Items, err
}

// preserveAll makes a cluster keep its objects when the hub removes its Works. Workloads are kept already. Namespaces,
// which Karmada itself propagates to all clusters, are not; their contents would be deleted with them.
func (s *Service) preserveAll(ctx context.Context, cluster string) error {
	works, err := s.worksOf(ctx, cluster)
	if err != nil {
		return fmt.Errorf("make cluster %s keep its objects: %w", cluster, err)
	}
	for i := range works {
		if work := &works[i]; work.DeletionTimestamp == nil && !ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
			kept := work.DeepCopy()
			kept.Spec.PreserveResourcesOnDeletion = ptr.To(true)
			if err := client.IgnoreNotFound(s.Client.Patch(ctx, kept, client.MergeFrom(work))); err != nil {
				return fmt.Errorf("make cluster %s keep its objects: %w", cluster, err)
			}
		}
	}
	return nil
}

// checkPreserve checks whether the caller may do what preserveAll does. One Work is enough: all are in one namespace.
func (s *Service) checkPreserve(ctx context.Context, cluster string) error {
	works, err := s.worksOf(ctx, cluster)
	if err != nil || len(works) == 0 {
		return err
	}
	kept := works[0].DeepCopy()
	kept.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	return client.IgnoreNotFound(s.Client.Patch(ctx, kept, client.MergeFrom(&works[0]), client.DryRunAll))
}

// waitForRemoval waits until a cluster has left, and releases its Works if nobody else does, so that it does not leave
// forever. Karmada removes the namespace of the Works together with the agent's rights in it, possibly before the agent
// has used them. And a cluster in push mode may be unreachable.
func (s *Service) waitForRemoval(ctx context.Context, cluster *v1alpha1.Cluster, removal *Removal) error {
	for end := s.Now().Add(leaveTimeout); ; {
		currentCluster := &v1alpha1.Cluster{}
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), currentCluster)
		if removal.Left = apierrors.IsNotFound(err) || err == nil && currentCluster.UID != cluster.UID; removal.Left {
			return nil
		}
		if err != nil {
			return err
		}
		if removal.Given, err = s.releaseWorks(ctx, cluster.Name); err != nil || !s.Now().Before(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(leavePoll):
		}
	}
}

// releaseWorks removes the finalizers of a cluster's Works and returns how many Works are left.
func (s *Service) releaseWorks(ctx context.Context, cluster string) (given int, err error) {
	works, err := s.worksOf(ctx, cluster)
	if err != nil {
		return 0, err
	}
	for i := range works {
		work := &works[i]
		if work.DeletionTimestamp == nil || s.Now().Before(work.DeletionTimestamp.Add(agentTimeout)) {
			continue
		}
		free := work.DeepCopy()
		if controllerutil.RemoveFinalizer(free, workFinalizer) {
			if err := client.IgnoreNotFound(s.Client.Patch(ctx, free, client.MergeFrom(work))); err != nil {
				return 0, err
			}
		}
	}
	return len(works), nil
}
