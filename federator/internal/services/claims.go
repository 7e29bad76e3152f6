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

// claim is a pod that a cluster says it has: one that it offers to others, or a client that it cannot link.
type claim struct {
	tsn.ServicePod

	cluster string
	offer   bool
}

// called names it for people.
func (c *claim) called() string { return fmt.Sprintf("pod %q", c.Namespace+"/"+c.Pod) }

// claims of clusters that are believed, and who has which pods and nodes.
type claims struct {
	service *tsn.TSNService
	all     []claim
	// pods and addresses are the clusters that have them, by UID and by the address of the node's tunnels; names are the pods' by UID.
	pods, addresses map[string]string
	// entered are the UIDs of pods, so that none is there twice, and nodes the addresses of nodes by cluster and name.
	entered map[string]bool
	nodes   map[[2]string]string
}

// believe takes each selected cluster's word for what can be: for pods that no other cluster has, on nodes where no node of another
// cluster is. Of two that want one pod or address it is the cluster's that was believed first: of networks, then of links, then the older
// cluster's. So a cluster that lies takes nothing from another.
func believe(service *tsn.TSNService, p *plan, v *view, links []tsn.TSNLink) (*claims, []spread.Finding) {
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
			if why := c.enter(&reported[cluster][i]); why != "" {
				refused = append(refused, reported[cluster][i].called()+" "+why)
			}
		}
		if len(refused) > 0 {
			findings = append(findings, spread.Finding{Reason: spread.ReasonUntrusted,
				Text: fmt.Sprintf("of cluster %s are not linked: %s", cluster, spread.Some(refused))})
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

// enter takes one claim, or says why it is none.
func (c *claims) enter(entry *claim) string {
	if why := impossible(entry, c.service); why != "" {
		return why
	}
	node := [2]string{entry.cluster, entry.Node}
	switch other := c.pods[entry.UID]; {
	case other != "" && other != entry.cluster:
		return "has the UID of a pod of cluster " + other
	case c.entered[entry.UID]:
		return "is there twice, or is offered and a client of the same service"
	}
	if other := c.addresses[entry.NodeAddress]; other != "" && other != entry.cluster {
		return fmt.Sprintf("is on node %q with the address %s of a node of cluster %s", entry.Node, entry.NodeAddress, other)
	}
	if other := c.nodes[node]; other != "" && other != entry.NodeAddress {
		return fmt.Sprintf("is on node %q at %s, and another pod says that this node is at %s", entry.Node, entry.NodeAddress, other)
	}
	c.take(entry.cluster, entry.UID, entry.NodeAddress)
	c.entered[entry.UID], c.nodes[node] = true, entry.NodeAddress
	c.all = append(c.all, *entry)
	return ""
}

// claimedBy is what a cluster says it has. What it does not say at all is what it said before, as far as links have it: of a cluster whose last
// change failed Karmada has no status, and of more pods than a status can have it names the first; of clients that are linked and not named it
// says when they have left.
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
		if endpoint.Cluster == cluster && unsaid(offers, report.Told, endpoint) && !known(all, endpoint.UID, true) {
			add(true, rememberedOffer(endpoint, links, chain))
		}
		stays := !report.Told || len(wants) == tsn.MaxServicePods && !slices.Contains(report.Status.Left, client.UID)
		if links[i].Spec.Hop == 0 && client.Cluster == cluster && stays && !known(all, client.UID, false) {
			add(false, remembered(client))
		}
	}
	return all
}

func known(all []claim, uid string, offer bool) bool {
	return slices.ContainsFunc(all, func(entry claim) bool { return entry.UID == uid && entry.offer == offer })
}

// unsaid tells whether a cluster says nothing of an endpoint because it says nothing at all, or because the pod is behind those that it names.
func unsaid(pods []tsn.ServicePod, sent bool, end *tsn.LinkEnd) bool {
	if !sent {
		return true
	}
	if len(pods) < tsn.MaxServicePods {
		return false
	}
	return compare(&pods[len(pods)-1], &tsn.ServicePod{Namespace: end.Namespace, Pod: end.Pod}) < 0
}

// remembered is what a link knows of the pod at an end.
func remembered(end *tsn.LinkEnd) tsn.ServicePod {
	return tsn.ServicePod{Namespace: end.Namespace, Pod: end.Pod, UID: end.UID, Node: end.Node, NodeAddress: end.NodeAddress, Interface: end.Interface}
}

// rememberedOffer is what links know of a pod to which one leads.
func rememberedOffer(end *tsn.LinkEnd, links []tsn.TSNLink, chain []tsn.ChainElement) tsn.ServicePod {
	pod := remembered(end)
	pod.Interface = strings.TrimRight(end.Interface, "0123456789")
	for i := range links {
		spec := &links[i].Spec
		if hop := int(spec.Hop); spec.Client.UID == end.UID && hop > 0 && hop <= len(chain) { // it is in the middle of the chain
			pod.Onward, pod.Element = spec.Client.Interface, chain[hop-1].Name
		}
	}
	return pod
}

func compare(a, b *tsn.ServicePod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
}

// impossible says why a pod cannot be as its cluster says, "" if it can.
func impossible(entry *claim, service *tsn.TSNService) string {
	if problems := validation.IsDNS1123Label(entry.Namespace); len(problems) > 0 {
		return fmt.Sprintf("has %q as its namespace, which is none", entry.Namespace)
	}
	for what, name := range map[string]string{"name": entry.Pod, "node": entry.Node} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return fmt.Sprintf("has %q as its %s, which is none", name, what)
		}
	}
	if entry.UID == "" || len(entry.UID) > 64 {
		return fmt.Sprintf("has %q as its UID, which is none", entry.UID)
	}
	for _, name := range []string{entry.Interface, entry.Onward} {
		if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
			return fmt.Sprintf("has %q as an interface, which is none", name)
		}
	}
	if entry.Element != "" && !slices.ContainsFunc(service.Spec.Chain, func(element tsn.ChainElement) bool { return element.Name == entry.Element }) {
		return fmt.Sprintf("is element %q, which spec.chain does not have", entry.Element)
	}
	if entry.offer && entry.Namespace != service.Namespace {
		return "is offered, and is not in the service's namespace " + service.Namespace
	}
	if entry.MTU != 0 && !isMTU(entry.MTU) {
		return fmt.Sprintf("is on a node with an MTU of %d", entry.MTU)
	}
	address, err := netip.ParseAddr(entry.NodeAddress)
	if err != nil || !address.Is4() || !address.IsGlobalUnicast() {
		return fmt.Sprintf("is on a node with %q as its address, which is none for tunnels", entry.NodeAddress)
	}
	for _, prefix := range links.Ranges(service) {
		if prefix.Contains(address) {
			return fmt.Sprintf("is on a node with the address %s, which is one of links", address)
		}
	}
	return ""
}

// isMTU tells whether a link can have an MTU.
func isMTU(mtu int32) bool { return mtu >= 1280 && mtu <= 65535 }
