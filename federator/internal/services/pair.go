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
	localLinks, others := split(v.links, service)
	believed, findings := believe(service, p, v, localLinks)
	findings = append(findings, believed.share(p, localLinks, v.replaced)...)
	in := &links.Input{
		Services: []tsn.TSNService{*atHub(service, p)}, Pods: believed.asPods(localLinks), Nodes: map[string]links.Node{}, Links: localLinks,
		Networks: v.networks, Released: slices.Concat(others, v.released), Failed: failed, Now: now, Maker: tsn.MakerFederator, FirstInterface: firstInterface,
	}
	created := &pairing{found: findings}
	for i := range believed.all {
		claim := &believed.all[i]
		created.node(in.Nodes, claim, v, localLinks, now)
	}
	out := links.Plan(in)
	out.Delete = append(out.Delete, v.leaving(localLinks, out.Delete)...)
	created.failed, created.remove = out.Failed, out.Delete
	created.wait(out.Again)
	for i := range out.Make {
		created.make = append(created.make, *finish(&out.Make[i], service, in.Nodes))
	}
	for i := range localLinks {
		if link := finish(changed(out.Change, &localLinks[i]), service, in.Nodes); !leaves(out.Delete, &localLinks[i]) && !equality.Semantic.DeepEqual(link.Spec, localLinks[i].Spec) {
			created.change = append(created.change, *link)
		}
	}
	if plan := out.Services[links.Key{Namespace: service.Namespace, Name: service.Name}]; plan != nil {
		for _, finding := range plan.Found {
			created.found = append(created.found, spread.Finding{Reason: finding.Reason, Text: finding.Text})
		}
	}
	return created
}

// split are the federator's links of a service, and those of all others, whose numbers are taken.
func split(all []tsn.TSNLink, service *tsn.TSNService) (links, others []tsn.TSNLink) {
	for i := range all {
		if all[i].Namespace == service.Namespace && all[i].Spec.Service == service.Name {
			links = append(links, all[i])
		} else {
			others = append(others, all[i])
		}
	}
	return links, others
}

// atHub is a service as its links are planned at the hub: of the hub's own part, and with selectors that are known to choose what clusters say.
func atHub(service *tsn.TSNService, p *plan) *tsn.TSNService {
	createdService := service.DeepCopy()
	createdService.Spec.VNIs = &p.hub.vnis
	if createdService.Spec.IPv4 != nil {
		createdService.Spec.IPv4.Part = p.hub.ipv4
	}
	if createdService.Spec.IPv6 != nil {
		createdService.Spec.IPv6.Part = p.hub.ipv6
	}
	createdService.Spec.Endpoint, createdService.Spec.ClientNamespaces = nil, &metav1.LabelSelector{}
	for i := range createdService.Spec.Chain {
		element := &createdService.Spec.Chain[i]
		element.Selector = metav1.LabelSelector{MatchLabels: map[string]string{elementLabel: element.Name}}
	}
	return createdService
}

// asPods are the pods of all clusters as the pairing knows pods. An element of a chain to which an operator has made links has its one link onward
// in its own cluster.
func (c *claims) asPods(localLinks []tsn.TSNLink) []links.Pod {
	var pods []links.Pod
	for i := range c.all {
		claim := &c.all[i]
		if claim.Element != "" && claim.Links > 0 && !isLinked(claim.UID, localLinks) {
			continue
		}
		pods = append(pods, links.Pod{
			Namespace: claim.Namespace, Name: claim.Pod, UID: claim.UID, Cluster: claim.cluster, Node: nodeKey(claim), Ready: true, Links: max(claim.Links, 0),
			Labels: claim.labels(c.service),
		})
	}
	return pods
}

func isLinked(uid string, links []tsn.TSNLink) bool {
	return slices.ContainsFunc(links, func(link tsn.TSNLink) bool { return link.Spec.Endpoint.UID == uid })
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
func nodeKey(entry *claim) string { return entry.cluster + "/" + entry.Node }

// node says how the node of a pod is. One of a cluster of which the hub hears nothing serves for a while, and as long as a link there is up: the
// way between clusters does not lead over the hub.
func (p *pairing) node(nodes map[string]links.Node, entry *claim, v *view, localLinks []tsn.TSNLink, now time.Time) {
	address, err := netip.ParseAddr(entry.NodeAddress)
	if _, has := nodes[nodeKey(entry)]; err != nil || has {
		return
	}
	silent := v.silence(entry.cluster, now)
	ready := silent < unheard || slices.ContainsFunc(localLinks, func(link tsn.TSNLink) bool {
		return link.Spec.Endpoint.Cluster == entry.cluster && link.Spec.Endpoint.Node == entry.Node && meta.IsStatusConditionTrue(link.Status.Conditions, tsn.ConditionUp)
	})
	if silent > 0 && silent < unheard {
		p.wait(unheard - silent)
	}
	keys, why := v.keysOf(entry, localLinks)
	if why != "" {
		p.found = append(p.found, spread.Finding{Reason: spread.ReasonUntrusted,
			Text: fmt.Sprintf("the keys of node %q of cluster %s are not used: %s", entry.Node, entry.cluster, why)})
	}
	nodes[nodeKey(entry)] = links.Node{Address: address, Ready: ready, MTU: entry.MTU, Keys: keys}
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
func (v *view) leaving(localLinks []tsn.TSNLink, but []links.Removal) (gone []links.Removal) {
	members := map[string]bool{}
	for i := range v.clusters {
		members[v.clusters[i].Name] = !hub.Leaving(&v.clusters[i])
	}
	for i := range localLinks {
		for _, cluster := range clustersOf(&localLinks[i]) {
			if !members[cluster] && !leaves(but, &localLinks[i]) {
				gone = append(gone, links.Removal{Link: &localLinks[i], Why: "cluster " + cluster + " leaves, or is no member"})
				break
			}
		}
	}
	return gone
}

// finish gives a link what the pairing knows nothing of: the clusters of its ends, and the MTU, which is that of the narrower node.
func finish(link *tsn.TSNLink, service *tsn.TSNService, nodes map[string]links.Node) *tsn.TSNLink {
	createdLink := link.DeepCopy()
	createdLink.Spec.MTU = service.Spec.MTU
	for _, end := range []*tsn.LinkEnd{&createdLink.Spec.Client, &createdLink.Spec.Endpoint} {
		if cluster, node, ok := strings.Cut(end.Node, "/"); ok {
			end.Cluster, end.Node = cluster, node
		}
		if most := nodes[end.Cluster+"/"+end.Node].MTU; most != 0 {
			createdLink.Spec.MTU = min(cmp.Or(createdLink.Spec.MTU, most), most)
		}
	}
	return createdLink
}
