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

// linksTimeout is how long the leading federator may take to remove links. If it was just killed, another one leads
// after 12 s at most.
const linksTimeout = 20 * time.Second

// undoTimeout limits the removal of the leaving mark, which continues after the caller has disconnected.
const undoTimeout = 10 * time.Second

// waitForLinks waits until the federator's links with an end in a leaving cluster have been removed. The cluster must
// still be a member: only a member removes what the hub removes. It returns the links that the cluster has kept, for
// example because its agent is away.
func (s *Service) waitForLinks(ctx context.Context, cluster string) (kept []string, err error) {
	for end := s.Now().Add(linksTimeout); ; {
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

// markLeaving marks a cluster as leaving for the controllers. It changes nothing if the caller lacks a right that the
// removal needs.
func (s *Service) markLeaving(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if err := s.Client.Delete(ctx, cluster.DeepCopy(), client.DryRunAll, client.Preconditions{UID: ptr.To(cluster.UID)}); err != nil {
		return fmt.Errorf("remove cluster %s: %w", cluster.Name, err)
	}
	if err := s.checkPreserve(ctx, cluster.Name); err != nil {
		return fmt.Errorf("make cluster %s keep its objects: %w", cluster.Name, err)
	}
	marked := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, federation.LeavingAnnotation, "true")
	if err := s.Client.Patch(ctx, marked, client.MergeFrom(cluster)); err != nil {
		err = fmt.Errorf("mark cluster %s as leaving: %w", cluster.Name, err)
		if ctx.Err() != nil {
			return s.unmarkLeaving(ctx, cluster, err) // it is unknown whether the mark was written
		}
		return err
	}
	return nil
}

// unmarkLeaving removes the mark from a cluster whose removal has not begun, and returns why it does not leave.
func (s *Service) unmarkLeaving(ctx context.Context, cluster *v1alpha1.Cluster, why error) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer end()
	// Only of this Cluster, not of a later one with the same name.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, cluster.UID, federation.LeavingAnnotation)
	err := s.Client.Patch(ctx, cluster.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return errors.Join(why, fmt.Errorf("remove annotation %s of Cluster %s, so that it is used again: %w", federation.LeavingAnnotation, cluster.Name, err))
	}
	return why
}

// linksOf returns the federator's links with an end in a cluster: links that exist at the hub, and links that the
// cluster has not removed yet.
func (s *Service) linksOf(ctx context.Context, cluster string) (names []string, err error) {
	var list tsn.TSNLinkList
	if err := s.FederatorClient.List(ctx, &list, client.MatchingLabels{tsn.LinkMakerLabel: tsn.MakerFederator, federation.ManagedBy: federation.Manager}); err != nil {
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
	return slices.Compact(names), nil // a link at the hub has a Work as well
}

// linksIn returns the links that a Work gives a cluster.
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
