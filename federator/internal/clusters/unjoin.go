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

// Get reads a member.
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
	// leavePatience is for how long a cluster is watched as it leaves.
	leavePatience = 30 * time.Second
	leavePoll     = 500 * time.Millisecond
	// agentPatience is for how long its agent, or Karmada in push mode, may take to let go of what it was given.
	agentPatience = 10 * time.Second
	// workFinalizer is Karmada's, on Works, until it has let go of them.
	workFinalizer = "karmada.io/execution-controller"
)

// Removal is what has become of the removal of a member.
type Removal struct {
	// Since is when somebody has had Karmada remove it before, nil if nobody has.
	Since *metav1.Time
	// Left : it is no member any more. Otherwise the hub still has Given of what it was given.
	Left  bool
	Given int
	// Kept are links over clusters that the cluster may have kept.
	Kept []string
}

// Remove has Karmada remove a member, and waits a while for it. What is on it stays there, and belongs to it alone from then on, but for its ends of links
// over clusters: these end first, and it tells which of them the cluster has nevertheless kept. Asked again, it completes what was begun; asked by two at
// once, both are told the same.
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
	if err := s.awaitLeft(ctx, cluster, removal); err != nil {
		return nil, fmt.Errorf("see cluster %s leave: %w", cluster.Name, err)
	}
	return removal, nil
}

// beginLeaving has a cluster be deleted, or changes nothing that stays: one that shall leave and does not gets no workloads and no links.
func (s *Service) beginLeaving(ctx context.Context, cluster *v1alpha1.Cluster) (kept []string, err error) {
	if cluster.DeletionTimestamp != nil {
		kept, err = s.linksOf(ctx, cluster.Name) // it is too late to wait for them, and not to name them
		return kept, errors.Join(err, s.keepAll(ctx, cluster.Name))
	}
	if err := s.mark(ctx, cluster); err != nil {
		return nil, err
	}
	if kept, err = s.endLinks(ctx, cluster.Name); err != nil {
		return nil, s.unmark(ctx, cluster, err)
	}
	if err := s.keepAll(ctx, cluster.Name); err != nil {
		return nil, s.unmark(ctx, cluster, err)
	}
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, cluster, client.Preconditions{UID: ptr.To(cluster.UID)})); err != nil {
		return nil, s.unmark(ctx, cluster, fmt.Errorf("remove cluster %s: %w", cluster.Name, err))
	}
	return kept, nil
}

// worksOf are what a cluster was given.
func (s *Service) worksOf(ctx context.Context, cluster string) ([]workv1alpha1.Work, error) {
	var list workv1alpha1.WorkList
	err := s.Client.List(ctx, &list, client.InNamespace(hub.ExecutionNamespace(cluster)))
	return list.Items, err
}

// keepAll has a cluster keep what the hub forgets. Of workloads that is so already. Of namespaces, which Karmada itself gives to all clusters, it is not:
// with them would go what is in them.
func (s *Service) keepAll(ctx context.Context, cluster string) error {
	works, err := s.worksOf(ctx, cluster)
	if err != nil {
		return fmt.Errorf("have cluster %s keep what is on it: %w", cluster, err)
	}
	for i := range works {
		if work := &works[i]; work.DeletionTimestamp == nil && !ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false) {
			kept := work.DeepCopy()
			kept.Spec.PreserveResourcesOnDeletion = ptr.To(true)
			if err := client.IgnoreNotFound(s.Client.Patch(ctx, kept, client.MergeFrom(work))); err != nil {
				return fmt.Errorf("have cluster %s keep what is on it: %w", cluster, err)
			}
		}
	}
	return nil
}

// tryKeep finds out whether the caller may do what keepAll does. One Work tells for all: they are in one namespace.
func (s *Service) tryKeep(ctx context.Context, cluster string) error {
	works, err := s.worksOf(ctx, cluster)
	if err != nil || len(works) == 0 {
		return err
	}
	kept := works[0].DeepCopy()
	kept.Spec.PreserveResourcesOnDeletion = ptr.To(true)
	return client.IgnoreNotFound(s.Client.Patch(ctx, kept, client.MergeFrom(&works[0]), client.DryRunAll))
}

// awaitLeft lets go of what a cluster was given where nobody else does, so that the cluster does not leave for ever. Karmada removes the namespace of the
// Works, in which the agent's rights are as well: they may be gone before the agent has used them. And a cluster in push mode may not be reached.
func (s *Service) awaitLeft(ctx context.Context, cluster *v1alpha1.Cluster, removal *Removal) error {
	for end := s.Now().Add(leavePatience); ; {
		currentCluster := &v1alpha1.Cluster{}
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), currentCluster)
		if removal.Left = apierrors.IsNotFound(err) || err == nil && currentCluster.UID != cluster.UID; removal.Left {
			return nil
		}
		if err != nil {
			return err
		}
		if removal.Given, err = s.letGo(ctx, cluster.Name); err != nil || !s.Now().Before(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(leavePoll):
		}
	}
}

// letGo returns how much a cluster has of what it was given.
func (s *Service) letGo(ctx context.Context, cluster string) (given int, err error) {
	works, err := s.worksOf(ctx, cluster)
	if err != nil {
		return 0, err
	}
	for i := range works {
		work := &works[i]
		if work.DeletionTimestamp == nil || s.Now().Before(work.DeletionTimestamp.Add(agentPatience)) {
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
