// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

// claim is a pod in a cluster's report: an offered endpoint, or a client that the cluster cannot link.
type claim struct {
	tsn.ServicePod

	cluster string
	offer   bool
}

// describe names the pod in messages.
func (c *claim) describe() string { return fmt.Sprintf("pod %q", c.Namespace+"/"+c.Pod) }

// claims are the accepted claims, and the owners of pods and nodes.
type claims struct {
	service *tsn.TSNService
	all     []claim
	// pods and addresses map the UIDs of pods, and the tunnel addresses of nodes, to their clusters; names maps UIDs to
	// the pods' names.
	pods, addresses map[string]string
	// entered has the UIDs of added pods, so that none is added twice; nodes has the addresses of nodes by cluster and
	// name.
	entered map[string]bool
	nodes   map[[2]string]string
}

// acceptClaims accepts the plausible claims of each selected cluster: pods that no other cluster has, on nodes whose
// address no node of another cluster has. If two clusters claim the same pod or address, the one that was accepted
// first keeps it: in networks, then in links, then the older cluster. So a cluster cannot take anything from another by
// a false report.
func acceptClaims(service *tsn.TSNService, p *plan, v *view, links []tsn.TSNLink) (*claims, []spread.Finding) {
	c := &claims{service: service, pods: map[string]string{}, addresses: map[string]string{}, entered: map[string]bool{}, nodes: map[[2]string]string{}}
	for address, cluster := range v.nodes {
		c.addresses[address] = cluster
	}
	order := slices.DeleteFunc(spread.Oldest(v.clusters), func(cluster string) bool { return !slices.Contains(p.selected, cluster) })
	reported := map[string][]claim{}
	for _, cluster := range order {
		reported[cluster] = claimedBy(cluster, v, links, service.Spec.Chain)
	}
	for i := range v.links {
		for _, end := range []*tsn.LinkEnd{&v.links[i].Spec.Client, &v.links[i].Spec.Endpoint} {
			if slices.ContainsFunc(reported[end.Cluster], func(entry claim) bool { return entry.UID == end.UID && entry.NodeAddress == end.NodeAddress }) {
				c.take(end.Cluster, end.UID, end.NodeAddress)
			}
		}
	}
	var findings []spread.Finding
	for _, cluster := range order {
		var refused []string
		for i := range reported[cluster] {
			if why := c.add(&reported[cluster][i]); why != "" {
				refused = append(refused, reported[cluster][i].describe()+" "+why)
			}
		}
		if len(refused) > 0 {
			findings = append(findings, spread.Finding{Reason: spread.ReasonUntrusted,
				Text: fmt.Sprintf("pods of cluster %s are not linked: %s", cluster, spread.Some(refused))})
		}
	}
	return c, findings
}

func (c *claims) take(cluster, uid, address string) {
	if c.pods[uid] == "" {
		c.pods[uid] = cluster
	}
	if c.addresses[address] == "" {
		c.addresses[address] = cluster
	}
}

// add adds a claim, or returns why it is rejected.
func (c *claims) add(entry *claim) string {
	if why := rejectReason(entry, c.service); why != "" {
		return why
	}
	node := [2]string{entry.cluster, entry.Node}
	switch other := c.pods[entry.UID]; {
	case other != "" && other != entry.cluster:
		return "has the UID of a pod of cluster " + other
	case c.entered[entry.UID]:
		return "is reported twice, or as an endpoint and as a client of the same service"
	}
	if other := c.addresses[entry.NodeAddress]; other != "" && other != entry.cluster {
		return fmt.Sprintf("is on node %q with the address %s of a node of cluster %s", entry.Node, entry.NodeAddress, other)
	}
	if other := c.nodes[node]; other != "" && other != entry.NodeAddress {
		return fmt.Sprintf("is on node %q at %s, and another pod is reported with this node at %s", entry.Node, entry.NodeAddress, other)
	}
	c.take(entry.cluster, entry.UID, entry.NodeAddress)
	c.entered[entry.UID], c.nodes[node] = true, entry.NodeAddress
	c.all = append(c.all, *entry)
	return ""
}

// claimedBy returns the claims of a cluster. Pods that its report leaves out are taken from existing links: Karmada has
// no status of a cluster whose last change failed, and a status names only the first pods of too many. For clients that
// are linked and not named the cluster reports when they have left.
func claimedBy(cluster string, v *view, links []tsn.TSNLink, chain []tsn.ChainElement) []claim {
	report := v.reports[cluster]
	offers, wants := report.Status.Offers, report.Status.Wants
	offers, wants = offers[:min(len(offers), tsn.MaxServicePods)], wants[:min(len(wants), tsn.MaxServicePods)]
	var all []claim
	add := func(offer bool, pods ...tsn.ServicePod) {
		for _, pod := range pods {
			all = append(all, claim{ServicePod: pod, cluster: cluster, offer: offer})
		}
	}
	add(true, offers...)
	add(false, wants...)
	for i := range links {
		client, endpoint := &links[i].Spec.Client, &links[i].Spec.Endpoint
		if endpoint.Cluster == cluster && isUnreported(offers, report.HasStatus, endpoint) && !known(all, endpoint.UID, true) {
			add(true, rememberedOffer(endpoint, links, chain))
		}
		stays := !report.HasStatus || len(wants) == tsn.MaxServicePods && !slices.Contains(report.Status.Left, client.UID)
		if links[i].Spec.Hop == 0 && client.Cluster == cluster && stays && !known(all, client.UID, false) {
			add(false, remembered(client))
		}
	}
	return all
}

func known(all []claim, uid string, offer bool) bool {
	return slices.ContainsFunc(all, func(entry claim) bool { return entry.UID == uid && entry.offer == offer })
}

// isUnreported reports whether a cluster's report leaves out an endpoint because there is no report, or because the
// report names only the first pods.
func isUnreported(pods []tsn.ServicePod, sent bool, end *tsn.LinkEnd) bool {
	if !sent {
		return true
	}
	if len(pods) < tsn.MaxServicePods {
		return false
	}
	return compare(&pods[len(pods)-1], &tsn.ServicePod{Namespace: end.Namespace, Pod: end.Pod}) < 0
}

// remembered returns what a link records about the pod at an end.
func remembered(end *tsn.LinkEnd) tsn.ServicePod {
	return tsn.ServicePod{Namespace: end.Namespace, Pod: end.Pod, UID: end.UID, Node: end.Node, NodeAddress: end.NodeAddress, Interface: end.Interface}
}

// rememberedOffer returns what links record about an endpoint.
func rememberedOffer(end *tsn.LinkEnd, links []tsn.TSNLink, chain []tsn.ChainElement) tsn.ServicePod {
	pod := remembered(end)
	pod.Interface = strings.TrimRight(end.Interface, "0123456789")
	for i := range links {
		spec := &links[i].Spec
		if hop := int(spec.Hop); spec.Client.UID == end.UID && hop > 0 && hop <= len(chain) { // a middle element of the chain
			pod.Onward, pod.Element = spec.Client.Interface, chain[hop-1].Name
		}
	}
	return pod
}

func compare(a, b *tsn.ServicePod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
}

// rejectReason returns why a pod in a report is invalid, "" if it is valid.
func rejectReason(entry *claim, service *tsn.TSNService) string {
	if problems := validation.IsDNS1123Label(entry.Namespace); len(problems) > 0 {
		return fmt.Sprintf("has the invalid namespace %q", entry.Namespace)
	}
	for what, name := range map[string]string{"name": entry.Pod, "node": entry.Node} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return fmt.Sprintf("has the invalid %s %q", what, name)
		}
	}
	if entry.UID == "" || len(entry.UID) > 64 {
		return fmt.Sprintf("has the invalid UID %q", entry.UID)
	}
	for _, name := range []string{entry.Interface, entry.Onward} {
		if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
			return fmt.Sprintf("has the invalid interface %q", name)
		}
	}
	if entry.Element != "" && !slices.ContainsFunc(service.Spec.Chain, func(element tsn.ChainElement) bool { return element.Name == entry.Element }) {
		return fmt.Sprintf("is element %q, which spec.chain does not have", entry.Element)
	}
	if entry.offer && entry.Namespace != service.Namespace {
		return "is reported as an endpoint outside the service's namespace " + service.Namespace
	}
	if entry.MTU != 0 && !isMTU(entry.MTU) {
		return fmt.Sprintf("is on a node with an MTU of %d", entry.MTU)
	}
	address, err := netip.ParseAddr(entry.NodeAddress)
	if err != nil || !address.Is4() || !address.IsGlobalUnicast() {
		return fmt.Sprintf("is on a node with the address %q, which tunnels cannot use", entry.NodeAddress)
	}
	for _, prefix := range links.Ranges(service) {
		if prefix.Contains(address) {
			return fmt.Sprintf("is on a node with the address %s, which is in the range of the links", address)
		}
	}
	return ""
}

// isMTU reports whether a link can have an MTU.
func isMTU(mtu int32) bool { return mtu >= 1280 && mtu <= 65535 }
