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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	// releasing is how often to look whether a link that goes may go.
	releasing = 100 * time.Millisecond
	// foreignPatience is how often to look whether somebody else's link of a name that is needed has gone.
	foreignPatience = 10 * time.Second
)

// ReleasedName is that of the ConfigMap with the numbers that the hub's links had a moment ago.
const ReleasedName = "kubernetsn-released-hub-links"

// linkPolicyName is that of the policy by which a link is on the clusters of its ends.
func linkPolicyName(link string) string { return "kubernetsn-link-" + link }

// allLinks are those that the federator has made, with what it has just written, and those that have gone lately. They belong to the cache.
func (s *Spreader) allLinks(ctx context.Context) (are, released []tsn.TSNLink, err error) {
	var list tsn.TSNLinkList
	labels := client.MatchingLabels{tsn.LinkMakerLabel: tsn.MakerFederator, federation.ManagedBy: federation.Manager}
	if err := s.Client.List(ctx, &list, labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list the links: %w", err)
	}
	if are, released, err = s.ledger.Look(ctx, list.Items); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(are, func(a, b tsn.TSNLink) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return are, released, nil
}

// join carries out what was decided of a service's links. Links that go come first: they may have the names of those that come.
func (s *Spreader) join(ctx context.Context, service *tsn.TSNService, v *view, decided *pairing) error {
	if err := s.leave(ctx, service, decided); err != nil {
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
			decided.found = append(decided.found, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("link %s of %s to %s stays as it is: what is said of them "+
				"cannot be: %s", link.Name, endOf(&link.Spec.Client), endOf(&link.Spec.Endpoint), spread.Quoted(err.Error()))})
			continue
		}
		if err != nil {
			return fmt.Errorf("change link %s: %w", link.Name, err)
		}
		s.ledger.Wrote(link)
	}
	for i := range decided.make {
		if err := s.begin(ctx, service, &decided.make[i], decided); err != nil {
			return err
		}
	}
	return nil
}

// leave removes the links of a service that shall go and may, and looks again for the others.
func (s *Spreader) leave(ctx context.Context, service *tsn.TSNService, decided *pairing) error {
	var leave []*tsn.TSNLink
	for _, removal := range decided.remove {
		leave = append(leave, removal.Link)
	}
	gone, err := s.end(ctx, leave)
	if err != nil {
		return err
	}
	for _, removal := range decided.remove {
		if !slices.Contains(gone, removal.Link) {
			decided.wait(releasing)
			continue
		}
		s.say(service, tsn.ReasonUnlinked, "link %s of %s to %s was removed: %s", removal.Link.Name, endOf(&removal.Link.Spec.Client), endOf(&removal.Link.Spec.Endpoint), removal.Why)
	}
	return nil
}

// endLeaving removes the links of a service of which nothing else is changed, as long as something blocks it, that have an end in a cluster that leaves: once
// the cluster has left, nobody can remove its end.
func (s *Spreader) endLeaving(ctx context.Context, service *tsn.TSNService, v *view) (again time.Duration, err error) {
	links, _ := split(v.links, service)
	decided := &pairing{remove: v.leaving(links, nil)}
	err = s.leave(ctx, service, decided)
	return decided.again, err
}

// begin makes a link, once Karmada has forgotten one of its name: it makes nothing of a new object as long as it has the old one's binding.
func (s *Spreader) begin(ctx context.Context, service *tsn.TSNService, link *tsn.TSNLink, decided *pairing) error {
	if taken, err := s.isTaken(ctx, link, decided); err != nil || taken {
		return err
	}
	var old workv1alpha2.ResourceBinding
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: spread.BindingName("TSNLink", link.Name)}, &old)
	if err == nil {
		decided.wait(releasing)
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for an older link %s: %w", link.Name, err)
	}
	link.Labels[tsn.ServiceLabel], link.Labels[federation.ManagedBy] = service.Name, federation.Manager
	err = s.Client.Create(ctx, link, spread.FieldOwner)
	if apierrors.IsInvalid(err) {
		decided.found = append(decided.found, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("%s is not linked to %s: what is said of them cannot be: %s",
			endOf(&link.Spec.Client), endOf(&link.Spec.Endpoint), spread.Quoted(err.Error()))})
		decided.fail(link, s.Now())
		return nil
	}
	if err != nil {
		return fmt.Errorf("make link %s: %w", link.Name, err)
	}
	s.ledger.Wrote(link)
	s.say(service, tsn.ReasonLinked, "%s is linked to %s", endOf(&link.Spec.Client), endOf(&link.Spec.Endpoint))
	return s.place(ctx, link)
}

// fail has another endpoint be preferred for a while to the one to which a link cannot be made, from now on.
func (p *pairing) fail(link *tsn.TSNLink, now time.Time) {
	between := links.Pair{Client: link.Spec.Client.UID, Endpoint: link.Spec.Endpoint.UID}
	if _, again := p.failed[between]; !again {
		p.wait(releasing)
	}
	p.failed[between] = now.Add(links.FailureCounts)
}

// isTaken tells whether there is a link of the name that is needed: one of our own of which the cache does not know yet that it has gone, or
// somebody else's, which is said.
func (s *Spreader) isTaken(ctx context.Context, link *tsn.TSNLink, decided *pairing) (bool, error) {
	have := &tsn.TSNLink{}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(link), have)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether there is a link %s: %w", link.Name, err)
	}
	why := "was made by somebody else, and stays as it is"
	switch {
	case have.DeletionTimestamp != nil:
		why = "is being deleted, and somebody's finalizer keeps it"
	case spread.Ours(have, tsn.ServiceLabel, link.Spec.Service) && have.Labels[tsn.LinkMakerLabel] == tsn.MakerFederator:
		decided.wait(releasing)
		return true, nil
	}
	decided.wait(foreignPatience)
	decided.found = append(decided.found, spread.Finding{Reason: spread.ReasonForeign,
		Text: fmt.Sprintf("%s is not linked: TSNLink %s/%s %s; remove it", endOf(&link.Spec.Client), link.Namespace, link.Name, why)})
	return true, nil
}

func endOf(end *tsn.LinkEnd) string {
	return fmt.Sprintf("pod %s/%s of cluster %s", end.Namespace, end.Pod, end.Cluster)
}

// clustersOf are those of a link's ends.
func clustersOf(link *tsn.TSNLink) []string {
	clusters := []string{link.Spec.Client.Cluster, link.Spec.Endpoint.Cluster}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// place has a link be on the clusters of its ends, and on no others. What is there under its name is the hub's, too.
func (s *Spreader) place(ctx context.Context, link *tsn.TSNLink) error {
	policy := &policyv1alpha1.PropagationPolicy{}
	name := types.NamespacedName{Namespace: link.Namespace, Name: linkPolicyName(link.Name)}
	if err := client.IgnoreNotFound(s.Client.Get(ctx, name, policy)); err != nil {
		return fmt.Errorf("look at policy %s: %w", name, err)
	}
	if !spread.Ours(policy, tsn.ServiceLabel, link.Spec.Service) {
		return spread.ForeignError{Object: "PropagationPolicy " + name.String(), For: "service"}
	}
	before := policy.DeepCopy()
	if policy.ResourceVersion == "" {
		policy.ObjectMeta = metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: labelsOf(link.Spec.Service)}
	}
	policy.OwnerReferences = []metav1.OwnerReference{{APIVersion: tsn.GroupVersion.String(), Kind: "TSNLink", Name: link.Name, UID: link.UID}}
	selectors := []policyv1alpha1.ResourceSelector{selector("TSNLink", client.ObjectKeyFromObject(link))}
	spread.Propagate(&policy.Spec, selectors, clustersOf(link), policyv1alpha1.ConflictOverwrite)
	return spread.Save(ctx, s.Client, before, policy)
}

// end removes links that may go, and returns those: of each it has to be known everywhere first that clusters shall remove it, too.
func (s *Spreader) end(ctx context.Context, leave []*tsn.TSNLink) (gone []*tsn.TSNLink, err error) {
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
		s.ledger.Removed(link.UID)
	}
	return gone, nil
}

// withdraw has clusters remove a link when the hub does: without, what the hub forgets stays where it is. It tells whether that is known
// everywhere.
func (s *Spreader) withdraw(ctx context.Context, link *tsn.TSNLink) (known bool, err error) {
	policy := &policyv1alpha1.PropagationPolicy{}
	err = s.Live.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: linkPolicyName(link.Name)}, policy)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("look at the policy of link %s: %w", link.Name, err)
	case err == nil && ptr.Deref(policy.Spec.PreserveResourcesOnDeletion, false):
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(false)
		if err := s.Client.Update(ctx, policy, spread.FieldOwner); err != nil {
			return false, fmt.Errorf("have clusters not keep link %s: %w", link.Name, err)
		}
	}
	binding := &workv1alpha2.ResourceBinding{}
	err = s.Client.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: spread.BindingName("TSNLink", link.Name)}, binding)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at what became of link %s: %w", link.Name, err)
	}
	return spread.Released(ctx, s.Client, binding, clustersOf(link))
}

// endAll removes the links of a service that is gone.
func (s *Spreader) endAll(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
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
	gone, err := s.end(ctx, leave)
	if err != nil {
		return 0, err
	}
	if len(gone) < len(leave) {
		again = releasing
	}
	return again, nil
}

// say leaves an event.
func (s *Spreader) say(service *tsn.TSNService, reason, format string, arguments ...any) {
	s.Events.Eventf(service, nil, corev1.EventTypeNormal, reason, "Link", "%s", spread.Quoted(fmt.Sprintf(format, arguments...)))
}
