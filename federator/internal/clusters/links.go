// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// linksPatience is for how long the federator that leads may take to end links. It may have just been killed: another leads 12 s later at most.
const linksPatience = 20 * time.Second

// undoPatience is for how long it is tried to take back that a cluster shall leave, also where whoever asked is gone.
const undoPatience = 10 * time.Second

// endLinks waits until the federator's links have ended that have an end in a cluster that shall leave, while the cluster is still a member: as such it
// removes what the hub removes. It tells which of them the cluster has kept, as where its agent is away.
func (s *Service) endLinks(ctx context.Context, cluster string) (kept []string, err error) {
	for end := s.Now().Add(linksPatience); ; {
		if kept, err = s.linksOf(ctx, cluster); err != nil || len(kept) == 0 || !s.Now().Before(end) {
			return kept, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(leavePoll):
		}
	}
}

// mark has the controllers see that a cluster shall leave. Who may not do all that removes it changes nothing.
func (s *Service) mark(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if err := s.Client.Delete(ctx, cluster.DeepCopy(), client.DryRunAll, client.Preconditions{UID: ptr.To(cluster.UID)}); err != nil {
		return fmt.Errorf("remove cluster %s: %w", cluster.Name, err)
	}
	if err := s.tryKeep(ctx, cluster.Name); err != nil {
		return fmt.Errorf("have cluster %s keep what is on it: %w", cluster.Name, err)
	}
	marked := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, federation.LeavingAnnotation, "true")
	if err := s.Client.Patch(ctx, marked, client.MergeFrom(cluster)); err != nil {
		err = fmt.Errorf("have the links of cluster %s end: %w", cluster.Name, err)
		if ctx.Err() != nil {
			return s.unmark(ctx, cluster, err) // nobody has heard whether it was written
		}
		return err
	}
	return nil
}

// unmark takes back that a cluster shall leave, for it has not begun to, and returns why it does not leave.
func (s *Service) unmark(ctx context.Context, cluster *v1alpha1.Cluster, why error) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer end()
	// Of this Cluster, not of a later one of the same name.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, cluster.UID, federation.LeavingAnnotation)
	err := s.Client.Patch(ctx, cluster.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return errors.Join(why, fmt.Errorf("remove annotation %s of Cluster %s, so that it is used again: %w", federation.LeavingAnnotation, cluster.Name, err))
	}
	return why
}

// linksOf are the federator's links with an end in a cluster: those that the hub has, and those that the cluster has not removed yet.
func (s *Service) linksOf(ctx context.Context, cluster string) (names []string, err error) {
	var list tsn.TSNLinkList
	if err := s.Own.List(ctx, &list, client.MatchingLabels{tsn.LinkMakerLabel: tsn.MakerFederator, federation.ManagedBy: federation.Manager}); err != nil {
		return nil, fmt.Errorf("list the links of cluster %s: %w", cluster, err)
	}
	for i := range list.Items {
		if spec := &list.Items[i].Spec; spec.Client.Cluster == cluster || spec.Endpoint.Cluster == cluster {
			names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
	}
	works, err := s.worksOf(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("look for links that cluster %s has not removed: %w", cluster, err)
	}
	for i := range works {
		names = append(names, linksIn(&works[i])...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil // of one that the hub has there is a Work as well
}

// linksIn are the links that a Work gives a cluster.
func linksIn(work *workv1alpha1.Work) (names []string) {
	for i := range work.Spec.Workload.Manifests {
		var object metav1.PartialObjectMetadata
		err := json.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &object)
		if err == nil && object.Kind == "TSNLink" && object.APIVersion == tsn.GroupVersion.String() {
			names = append(names, object.Namespace+"/"+object.Name)
		}
	}
	return names
}
