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
func believe(service *tsn.TSNService, p *plan, v *view, own []tsn.TSNLink) (*claims, []spread.Finding) {
	c := &claims{service: service, pods: map[string]string{}, addresses: map[string]string{}, entered: map[string]bool{}, nodes: map[[2]string]string{}}
	for address, cluster := range v.nodes {
		c.addresses[address] = cluster
	}
	order := slices.DeleteFunc(spread.Oldest(v.clusters), func(cluster string) bool { return !slices.Contains(p.selected, cluster) })
	said := map[string][]claim{}
	for _, cluster := range order {
		said[cluster] = claimedBy(cluster, v, own, service.Spec.Chain)
	}
	for i := range v.links {
		for _, end := range []*tsn.LinkEnd{&v.links[i].Spec.Client, &v.links[i].Spec.Endpoint} {
			if slices.ContainsFunc(said[end.Cluster], func(one claim) bool { return one.UID == end.UID && one.NodeAddress == end.NodeAddress }) {
				c.take(end.Cluster, end.UID, end.NodeAddress)
			}
		}
	}
	var found []spread.Finding
	for _, cluster := range order {
		var refused []string
		for i := range said[cluster] {
			if why := c.enter(&said[cluster][i]); why != "" {
				refused = append(refused, said[cluster][i].called()+" "+why)
			}
		}
		if len(refused) > 0 {
			found = append(found, spread.Finding{Reason: spread.ReasonUntrusted,
				Text: fmt.Sprintf("of cluster %s are not linked: %s", cluster, spread.Some(refused))})
		}
	}
	return c, found
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
func (c *claims) enter(one *claim) string {
	if why := impossible(one, c.service); why != "" {
		return why
	}
	node := [2]string{one.cluster, one.Node}
	switch other := c.pods[one.UID]; {
	case other != "" && other != one.cluster:
		return "has the UID of a pod of cluster " + other
	case c.entered[one.UID]:
		return "is there twice, or is offered and a client of the same service"
	}
	if other := c.addresses[one.NodeAddress]; other != "" && other != one.cluster {
		return fmt.Sprintf("is on node %q with the address %s of a node of cluster %s", one.Node, one.NodeAddress, other)
	}
	if other := c.nodes[node]; other != "" && other != one.NodeAddress {
		return fmt.Sprintf("is on node %q at %s, and another pod says that this node is at %s", one.Node, one.NodeAddress, other)
	}
	c.take(one.cluster, one.UID, one.NodeAddress)
	c.entered[one.UID], c.nodes[node] = true, one.NodeAddress
	c.all = append(c.all, *one)
	return ""
}

// claimedBy is what a cluster says it has. What it does not say at all is what it said before, as far as links have it: of a cluster whose last
// change failed Karmada has no status, and of more pods than a status can have it names the first; of clients that are linked and not named it
// says when they have left.
func claimedBy(cluster string, v *view, own []tsn.TSNLink, chain []tsn.ChainElement) []claim {
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
	for i := range own {
		client, endpoint := &own[i].Spec.Client, &own[i].Spec.Endpoint
		if endpoint.Cluster == cluster && unsaid(offers, report.Told, endpoint) && !known(all, endpoint.UID, true) {
			add(true, rememberedOffer(endpoint, own, chain))
		}
		stays := !report.Told || len(wants) == tsn.MaxServicePods && !slices.Contains(report.Status.Left, client.UID)
		if own[i].Spec.Hop == 0 && client.Cluster == cluster && stays && !known(all, client.UID, false) {
			add(false, remembered(client))
		}
	}
	return all
}

func known(all []claim, uid string, offer bool) bool {
	return slices.ContainsFunc(all, func(one claim) bool { return one.UID == uid && one.offer == offer })
}

// unsaid tells whether a cluster says nothing of an endpoint because it says nothing at all, or because the pod is behind those that it names.
func unsaid(said []tsn.ServicePod, told bool, end *tsn.LinkEnd) bool {
	if !told {
		return true
	}
	if len(said) < tsn.MaxServicePods {
		return false
	}
	return compare(&said[len(said)-1], &tsn.ServicePod{Namespace: end.Namespace, Pod: end.Pod}) < 0
}

// remembered is what a link knows of the pod at an end.
func remembered(end *tsn.LinkEnd) tsn.ServicePod {
	return tsn.ServicePod{Namespace: end.Namespace, Pod: end.Pod, UID: end.UID, Node: end.Node, NodeAddress: end.NodeAddress, Interface: end.Interface}
}

// rememberedOffer is what links know of a pod to which one leads.
func rememberedOffer(end *tsn.LinkEnd, own []tsn.TSNLink, chain []tsn.ChainElement) tsn.ServicePod {
	pod := remembered(end)
	pod.Interface = strings.TrimRight(end.Interface, "0123456789")
	for i := range own {
		spec := &own[i].Spec
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
func impossible(one *claim, service *tsn.TSNService) string {
	if problems := validation.IsDNS1123Label(one.Namespace); len(problems) > 0 {
		return fmt.Sprintf("has %q as its namespace, which is none", one.Namespace)
	}
	for what, name := range map[string]string{"name": one.Pod, "node": one.Node} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return fmt.Sprintf("has %q as its %s, which is none", name, what)
		}
	}
	if one.UID == "" || len(one.UID) > 64 {
		return fmt.Sprintf("has %q as its UID, which is none", one.UID)
	}
	for _, name := range []string{one.Interface, one.Onward} {
		if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
			return fmt.Sprintf("has %q as an interface, which is none", name)
		}
	}
	if one.Element != "" && !slices.ContainsFunc(service.Spec.Chain, func(is tsn.ChainElement) bool { return is.Name == one.Element }) {
		return fmt.Sprintf("is element %q, which spec.chain does not have", one.Element)
	}
	if one.offer && one.Namespace != service.Namespace {
		return "is offered, and is not in the service's namespace " + service.Namespace
	}
	if one.MTU != 0 && !isMTU(one.MTU) {
		return fmt.Sprintf("is on a node with an MTU of %d", one.MTU)
	}
	address, err := netip.ParseAddr(one.NodeAddress)
	if err != nil || !address.Is4() || !address.IsGlobalUnicast() {
		return fmt.Sprintf("is on a node with %q as its address, which is none for tunnels", one.NodeAddress)
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
