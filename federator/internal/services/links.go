// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	// releaseRetry is how often to check whether a link may be deleted.
	releaseRetry = 100 * time.Millisecond
	// foreignRetry is how often to check whether a foreign link with a needed name is gone.
	foreignRetry = 10 * time.Second
)

// ReleasedName is the name of the ConfigMap with the numbers of links that were deleted recently.
const ReleasedName = "kubernetsn-released-hub-links"

// linkPolicyName returns the name of the policy that places a link on the clusters of its ends.
func linkPolicyName(link string) string { return "kubernetsn-link-" + link }

// allLinks returns the federator's links, including ones just written, and links that were deleted recently. They
// belong to the cache.
func (s *Reconciler) allLinks(ctx context.Context) (current, released []tsn.TSNLink, err error) {
	var list tsn.TSNLinkList
	labels := client.MatchingLabels{tsn.LinkMakerLabel: tsn.MakerFederator, federation.ManagedBy: federation.Manager}
	if err := s.Client.List(ctx, &list, labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list the links: %w", err)
	}
	if current, released, err = s.ledger.List(ctx, list.Items); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(current, func(a, b tsn.TSNLink) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return current, released, nil
}

// applyLinks creates, changes and deletes the links of a service. Deletions come first: new links may need their names.
func (s *Reconciler) applyLinks(ctx context.Context, service *tsn.TSNService, v *view, decided *pairing) error {
	if err := s.removeLinks(ctx, service, decided); err != nil {
		return err
	}
	goes := map[string]bool{}
	for _, removal := range decided.remove {
		goes[removal.Link.Name] = true
	}
	for i := range v.links {
		if link := &v.links[i]; link.Namespace == service.Namespace && link.Spec.Service == service.Name && !goes[link.Name] {
			if err := s.place(ctx, link); err != nil {
				return err
			}
		}
	}
	for i := range decided.change {
		link := &decided.change[i]
		err := s.Client.Update(ctx, link, spread.FieldOwner)
		if apierrors.IsInvalid(err) {
			decided.findings = append(decided.findings, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("link %s of %s to %s is not changed: the API server "+
				"rejects what clusters report: %s", link.Name, endOf(&link.Spec.Client), endOf(&link.Spec.Endpoint), spread.Quoted(err.Error()))})
			continue
		}
		if err != nil {
			return fmt.Errorf("change link %s: %w", link.Name, err)
		}
		s.ledger.RecordWrite(link)
	}
	for i := range decided.create {
		if err := s.createLink(ctx, service, &decided.create[i], decided); err != nil {
			return err
		}
	}
	return nil
}

// removeLinks deletes those links of a service that may be deleted, and retries for the others.
func (s *Reconciler) removeLinks(ctx context.Context, service *tsn.TSNService, decided *pairing) error {
	var leave []*tsn.TSNLink
	for _, removal := range decided.remove {
		leave = append(leave, removal.Link)
	}
	gone, err := s.deleteLinks(ctx, leave)
	if err != nil {
		return err
	}
	for _, removal := range decided.remove {
		if !slices.Contains(gone, removal.Link) {
			decided.retryIn(releaseRetry)
			continue
		}
		s.recordEvent(service, tsn.ReasonUnlinked, "link %s of %s to %s was removed: %s", removal.Link.Name, endOf(&removal.Link.Spec.Client), endOf(&removal.Link.Spec.Endpoint), removal.Why)
	}
	return nil
}

// deleteLeaving deletes a service's links with an end in a leaving cluster while the service is blocked and nothing
// else changes: once the cluster has left, nobody can remove its end.
func (s *Reconciler) deleteLeaving(ctx context.Context, service *tsn.TSNService, v *view) (again time.Duration, err error) {
	links, _ := split(v.links, service)
	decided := &pairing{remove: v.leaving(links, nil)}
	err = s.removeLinks(ctx, service, decided)
	return decided.retryAfter, err
}

// createLink creates a link, after Karmada has forgotten an older one with that name: while the old binding exists,
// Karmada ignores the new object.
func (s *Reconciler) createLink(ctx context.Context, service *tsn.TSNService, link *tsn.TSNLink, decided *pairing) error {
	if taken, err := s.isTaken(ctx, link, decided); err != nil || taken {
		return err
	}
	var old workv1alpha2.ResourceBinding
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: spread.BindingName("TSNLink", link.Name)}, &old)
	if err == nil {
		decided.retryIn(releaseRetry)
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for an older link %s: %w", link.Name, err)
	}
	link.Labels[tsn.ServiceLabel], link.Labels[federation.ManagedBy] = service.Name, federation.Manager
	err = s.Client.Create(ctx, link, spread.FieldOwner)
	if apierrors.IsInvalid(err) {
		decided.findings = append(decided.findings, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("%s is not linked to %s: the API server rejects what clusters report: %s",
			endOf(&link.Spec.Client), endOf(&link.Spec.Endpoint), spread.Quoted(err.Error()))})
		decided.fail(link, s.Now())
		return nil
	}
	if err != nil {
		return fmt.Errorf("create link %s: %w", link.Name, err)
	}
	s.ledger.RecordWrite(link)
	s.recordEvent(service, tsn.ReasonLinked, "%s is linked to %s", endOf(&link.Spec.Client), endOf(&link.Spec.Endpoint))
	return s.place(ctx, link)
}

// fail records that a link cannot be created, so that another endpoint is preferred for a while.
func (p *pairing) fail(link *tsn.TSNLink, now time.Time) {
	between := links.Pair{Client: link.Spec.Client.UID, Endpoint: link.Spec.Endpoint.UID}
	if _, again := p.failed[between]; !again {
		p.retryIn(releaseRetry)
	}
	p.failed[between] = now.Add(links.RetryFailedAfter)
}

// isTaken reports whether a link with the needed name exists: one of the federator's whose deletion the cache has not
// seen, or a foreign one, which becomes a finding.
func (s *Reconciler) isTaken(ctx context.Context, link *tsn.TSNLink, decided *pairing) (bool, error) {
	have := &tsn.TSNLink{}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(link), have)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether there is a link %s: %w", link.Name, err)
	}
	why := "was created by somebody else and is not changed"
	switch {
	case have.DeletionTimestamp != nil:
		why = "is being deleted, and somebody's finalizer keeps it"
	case spread.IsOurs(have, tsn.ServiceLabel, link.Spec.Service) && have.Labels[tsn.LinkMakerLabel] == tsn.MakerFederator:
		decided.retryIn(releaseRetry)
		return true, nil
	}
	decided.retryIn(foreignRetry)
	decided.findings = append(decided.findings, spread.Finding{Reason: spread.ReasonForeign,
		Text: fmt.Sprintf("%s is not linked: TSNLink %s/%s %s; remove it", endOf(&link.Spec.Client), link.Namespace, link.Name, why)})
	return true, nil
}

func endOf(end *tsn.LinkEnd) string {
	return fmt.Sprintf("pod %s/%s of cluster %s", end.Namespace, end.Pod, end.Cluster)
}

// clustersOf returns the clusters of a link's ends.
func clustersOf(link *tsn.TSNLink) []string {
	clusters := []string{link.Spec.Client.Cluster, link.Spec.Endpoint.Cluster}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// place places a link on the clusters of its ends only. Objects with its name there are the hub's as well.
func (s *Reconciler) place(ctx context.Context, link *tsn.TSNLink) error {
	owner := &spread.Owner{Client: s.Client, Live: s.Client, Object: link, Kind: "TSNLink", Label: tsn.ServiceLabel, Value: link.Spec.Service, Word: "service"}
	policy := &policyv1alpha1.PropagationPolicy{}
	selectors := []policyv1alpha1.ResourceSelector{spread.Selector("TSNLink", link.Namespace, link.Name)}
	return owner.Place(ctx, policy, &policy.Spec, linkPolicyName(link.Name), selectors, nil, clustersOf(link), policyv1alpha1.ConflictOverwrite)
}

// deleteLinks deletes links that may be deleted, and returns them. All of Karmada's objects must first say that
// clusters delete the link as well.
func (s *Reconciler) deleteLinks(ctx context.Context, leave []*tsn.TSNLink) (gone []*tsn.TSNLink, err error) {
	for _, link := range leave {
		may, err := s.withdraw(ctx, link)
		if err != nil {
			return nil, err
		}
		if may {
			gone = append(gone, link)
		}
	}
	if err := s.ledger.Release(ctx, gone...); err != nil {
		return nil, err
	}
	for _, link := range gone {
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, link, client.Preconditions{UID: &link.UID})); err != nil {
			return nil, fmt.Errorf("remove link %s: %w", link.Name, err)
		}
		s.ledger.RecordDelete(link.UID)
	}
	return gone, nil
}

// withdraw makes clusters delete a link when the hub does; otherwise they keep it. It reports whether all of Karmada's
// objects say so.
func (s *Reconciler) withdraw(ctx context.Context, link *tsn.TSNLink) (known bool, err error) {
	policy := &policyv1alpha1.PropagationPolicy{}
	err = s.Live.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: linkPolicyName(link.Name)}, policy)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("look at the policy of link %s: %w", link.Name, err)
	case err == nil && ptr.Deref(policy.Spec.PreserveResourcesOnDeletion, false):
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(false)
		if err := s.Client.Update(ctx, policy, spread.FieldOwner); err != nil {
			return false, fmt.Errorf("make clusters delete link %s: %w", link.Name, err)
		}
	}
	binding := &workv1alpha2.ResourceBinding{}
	err = s.Client.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: spread.BindingName("TSNLink", link.Name)}, binding)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the binding of link %s: %w", link.Name, err)
	}
	return spread.Released(ctx, s.Client, binding, clustersOf(link))
}

// deleteAllLinks deletes the links of a service that no longer exists.
func (s *Reconciler) deleteAllLinks(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	all, _, err := s.allLinks(ctx)
	if err != nil {
		return 0, err
	}
	var leave []*tsn.TSNLink
	for i := range all {
		if all[i].Namespace == key.Namespace && all[i].Spec.Service == key.Name {
			leave = append(leave, &all[i])
		}
	}
	gone, err := s.deleteLinks(ctx, leave)
	if err != nil {
		return 0, err
	}
	if len(gone) < len(leave) {
		again = releaseRetry
	}
	return again, nil
}

// recordEvent records an event of the service.
func (s *Reconciler) recordEvent(service *tsn.TSNService, reason, format string, arguments ...any) {
	s.Events.Eventf(service, nil, corev1.EventTypeNormal, reason, "Link", "%s", spread.Quoted(fmt.Sprintf(format, arguments...)))
}
