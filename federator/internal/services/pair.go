// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
)

const (
	// elementLabel of a pod says, in what is told to the pairing, which element of the chain it is: the hub does not have its labels.
	elementLabel = "federation.kubernetsn.io/element"
	// firstInterface is the first number of interfaces in endpoints to which the federator's links lead. Operators begin with 0, so that neither
	// need know of the other's.
	firstInterface = 5000
	// unheard is for how long a cluster may be silent before its endpoints are replaced by others.
	unheard = time.Minute
)

// pairing is what becomes of the links of a service.
type pairing struct {
	make, change []tsn.TSNLink
	remove       []links.Removal
	found        []spread.Finding
	// failed are pairs of pods between which a link did not come up.
	failed links.Failures
	// again is when time alone changes it, 0 for never.
	again time.Duration
}

// pair decides who is linked to whom. Clients and endpoints are what clusters say, and the rules are those by which each operator links the pods
// of its own cluster.
func pair(service *tsn.TSNService, p *plan, v *view, failed links.Failures, now time.Time) *pairing {
	own, others := split(v.links, service)
	believed, found := believe(service, p, v, own)
	found = append(found, believed.share(p, own, v.replaced)...)
	in := &links.Input{
		Services: []tsn.TSNService{*atHub(service, p)}, Pods: believed.asPods(own), Nodes: map[string]links.Node{}, Links: own,
		Networks: v.networks, Released: slices.Concat(others, v.released), Failed: failed, Now: now, Maker: tsn.MakerFederator, FirstInterface: firstInterface,
	}
	made := &pairing{found: found}
	for i := range believed.all {
		one := &believed.all[i]
		made.node(in.Nodes, one, v, own, now)
	}
	out := links.Plan(in)
	out.Delete = append(out.Delete, v.leaving(own, out.Delete)...)
	made.failed, made.remove = out.Failed, out.Delete
	made.wait(out.Again)
	for i := range out.Make {
		made.make = append(made.make, *finish(&out.Make[i], service, in.Nodes))
	}
	for i := range own {
		if link := finish(changed(out.Change, &own[i]), service, in.Nodes); !leaves(out.Delete, &own[i]) && !equality.Semantic.DeepEqual(link.Spec, own[i].Spec) {
			made.change = append(made.change, *link)
		}
	}
	if said := out.Services[links.Key{Namespace: service.Namespace, Name: service.Name}]; said != nil {
		for _, one := range said.Found {
			made.found = append(made.found, spread.Finding{Reason: one.Reason, Text: one.Text})
		}
	}
	return made
}

// split are the federator's links of a service, and those of all others, whose numbers are taken.
func split(all []tsn.TSNLink, service *tsn.TSNService) (own, others []tsn.TSNLink) {
	for i := range all {
		if all[i].Namespace == service.Namespace && all[i].Spec.Service == service.Name {
			own = append(own, all[i])
		} else {
			others = append(others, all[i])
		}
	}
	return own, others
}

// atHub is a service as its links are planned at the hub: of the hub's own part, and with selectors that are known to choose what clusters say.
func atHub(service *tsn.TSNService, p *plan) *tsn.TSNService {
	made := service.DeepCopy()
	made.Spec.VNIs = &p.hub.vnis
	if made.Spec.IPv4 != nil {
		made.Spec.IPv4.Part = p.hub.ipv4
	}
	if made.Spec.IPv6 != nil {
		made.Spec.IPv6.Part = p.hub.ipv6
	}
	made.Spec.Endpoint, made.Spec.ClientNamespaces = nil, &metav1.LabelSelector{}
	for i := range made.Spec.Chain {
		element := &made.Spec.Chain[i]
		element.Selector = metav1.LabelSelector{MatchLabels: map[string]string{elementLabel: element.Name}}
	}
	return made
}

// asPods are the pods of all clusters as the pairing knows pods. An element of a chain to which an operator has made links has its one link onward
// in its own cluster.
func (c *claims) asPods(own []tsn.TSNLink) []links.Pod {
	var pods []links.Pod
	for i := range c.all {
		one := &c.all[i]
		if one.Element != "" && one.Links > 0 && !isLinked(one.UID, own) {
			continue
		}
		pods = append(pods, links.Pod{
			Namespace: one.Namespace, Name: one.Pod, UID: one.UID, Cluster: one.cluster, Node: nodeKey(one), Ready: true, Links: max(one.Links, 0),
			Labels: one.labels(c.service),
		})
	}
	return pods
}

func isLinked(uid string, own []tsn.TSNLink) bool {
	return slices.ContainsFunc(own, func(link tsn.TSNLink) bool { return link.Spec.Endpoint.UID == uid })
}

// labels are those by which the pairing knows what the pod is.
func (c *claim) labels(service *tsn.TSNService) map[string]string {
	name := service.Name
	if c.Namespace != service.Namespace {
		name += "." + service.Namespace
	}
	switch {
	case !c.offer:
		return map[string]string{tsn.ClientLabelPrefix + name: c.Interface}
	case c.Element != "":
		return map[string]string{tsn.EndpointLabelPrefix + name: c.Interface, tsn.ClientLabelPrefix + name: c.Onward, elementLabel: c.Element}
	}
	return map[string]string{tsn.EndpointLabelPrefix + name: c.Interface}
}

// nodeKey tells nodes of all clusters apart. No name of either has a slash.
func nodeKey(one *claim) string { return one.cluster + "/" + one.Node }

// node says how the node of a pod is. One of a cluster of which the hub hears nothing serves for a while, and as long as a link there is up: the
// way between clusters does not lead over the hub.
func (p *pairing) node(nodes map[string]links.Node, one *claim, v *view, own []tsn.TSNLink, now time.Time) {
	address, err := netip.ParseAddr(one.NodeAddress)
	if _, has := nodes[nodeKey(one)]; err != nil || has {
		return
	}
	silent := v.silence(one.cluster, now)
	ready := silent < unheard || slices.ContainsFunc(own, func(link tsn.TSNLink) bool {
		return link.Spec.Endpoint.Cluster == one.cluster && link.Spec.Endpoint.Node == one.Node && meta.IsStatusConditionTrue(link.Status.Conditions, tsn.ConditionUp)
	})
	if silent > 0 && silent < unheard {
		p.wait(unheard - silent)
	}
	keys, why := v.keysOf(one, own)
	if why != "" {
		p.found = append(p.found, spread.Finding{Reason: spread.ReasonUntrusted,
			Text: fmt.Sprintf("the keys of node %q of cluster %s are not used: %s", one.Node, one.cluster, why)})
	}
	nodes[nodeKey(one)] = links.Node{Address: address, Ready: ready, MTU: one.MTU, Keys: keys}
}

// wait has the service be looked at again after a while.
func (p *pairing) wait(after time.Duration) {
	if after > 0 && (p.again == 0 || after < p.again) {
		p.again = after
	}
}

// changed is a link as a plan changes it, or as it is.
func changed(all []tsn.TSNLink, link *tsn.TSNLink) *tsn.TSNLink {
	for i := range all {
		if all[i].Name == link.Name {
			return &all[i]
		}
	}
	return link
}

func leaves(all []links.Removal, link *tsn.TSNLink) bool {
	return slices.ContainsFunc(all, func(removal links.Removal) bool { return removal.Link.Name == link.Name })
}

// leaving are the links with an end in a cluster that leaves or has left, but for some. Such an end would stay there for ever: as a member only the
// cluster removes what the hub removes. So they go where no other endpoint takes over, too.
func (v *view) leaving(own []tsn.TSNLink, but []links.Removal) (gone []links.Removal) {
	members := map[string]bool{}
	for i := range v.clusters {
		members[v.clusters[i].Name] = !hub.Leaving(&v.clusters[i])
	}
	for i := range own {
		for _, cluster := range clustersOf(&own[i]) {
			if !members[cluster] && !leaves(but, &own[i]) {
				gone = append(gone, links.Removal{Link: &own[i], Why: "cluster " + cluster + " leaves, or is no member"})
				break
			}
		}
	}
	return gone
}

// finish gives a link what the pairing knows nothing of: the clusters of its ends, and the MTU, which is that of the narrower node.
func finish(link *tsn.TSNLink, service *tsn.TSNService, nodes map[string]links.Node) *tsn.TSNLink {
	made := link.DeepCopy()
	made.Spec.MTU = service.Spec.MTU
	for _, end := range []*tsn.LinkEnd{&made.Spec.Client, &made.Spec.Endpoint} {
		if cluster, node, is := strings.Cut(end.Node, "/"); is {
			end.Cluster, end.Node = cluster, node
		}
		if most := nodes[end.Cluster+"/"+end.Node].MTU; most != 0 {
			made.Spec.MTU = min(cmp.Or(made.Spec.MTU, most), most)
		}
	}
	return made
}
