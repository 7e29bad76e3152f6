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

// Annotations and labels of a hub's objects.
const (
	// elementLabel has the chain element of a pod, because the hub does not know the pod's own labels.
	elementLabel = "federation.kubernetsn.io/element"
)

const (
	// firstInterface is the lowest interface number in endpoints of the federator's links. Operators begin with 0, so
	// that neither has to know the other's.
	firstInterface = 5000
	// silenceTimeout is how long a cluster may be silent before its endpoints are replaced.
	silenceTimeout = time.Minute
)

// pairing is the planned change of a service's links.
type pairing struct {
	create, change []tsn.TSNLink
	remove         []links.Removal
	findings       []spread.Finding
	// failed are pairs of pods between which a link did not come up.
	failed links.Failures
	// retryAfter is when to plan again although nothing changes, 0 for never.
	retryAfter time.Duration
}

// pair decides which pods are linked. Clients and endpoints come from the clusters' reports, and the rules are those by
// which each operator links the pods of its own cluster.
func pair(service *tsn.TSNService, p *plan, v *view, failed links.Failures, now time.Time) *pairing {
	localLinks, others := split(v.links, service)
	believed, findings := acceptClaims(service, p, v, localLinks)
	findings = append(findings, believed.share(p, localLinks, v.replaced)...)
	in := &links.Input{
		Services: []tsn.TSNService{*atHub(service, p)}, Pods: believed.asPods(localLinks), Nodes: map[string]links.Node{}, Links: localLinks,
		Networks: v.networks, Released: slices.Concat(others, v.released), Failed: failed, Now: now, Maker: tsn.MakerFederator, FirstInterface: firstInterface,
	}
	created := &pairing{findings: findings}
	for i := range believed.all {
		claim := &believed.all[i]
		created.node(in.Nodes, claim, v, localLinks, now)
	}
	out := links.Plan(in)
	out.Delete = append(out.Delete, v.leaving(localLinks, out.Delete)...)
	created.failed, created.remove = out.Failed, out.Delete
	created.retryIn(out.RequeueAfter)
	for i := range out.Make {
		created.create = append(created.create, *finish(&out.Make[i], service, in.Nodes))
	}
	for i := range localLinks {
		if link := finish(changed(out.Change, &localLinks[i]), service, in.Nodes); !leaves(out.Delete, &localLinks[i]) && !equality.Semantic.DeepEqual(link.Spec, localLinks[i].Spec) {
			created.change = append(created.change, *link)
		}
	}
	if plan := out.Services[links.Key{Namespace: service.Namespace, Name: service.Name}]; plan != nil {
		for _, finding := range plan.Findings {
			created.findings = append(created.findings, spread.Finding{Reason: finding.Reason, Text: finding.Text})
		}
	}
	return created
}

// split returns the federator's links of a service, and all other links, whose numbers are taken.
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

// atHub returns a service as the planner gets it: with the hub's own part, and with selectors for the labels that the
// federator sets.
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

// asPods returns the pods of all clusters for the planner. A chain element to which an operator has created links has
// its link to the next element in its own cluster.
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

// labels returns the labels by which the planner recognises the pod.
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

// nodeKey identifies a node among those of all clusters. Names of nodes and clusters contain no slash.
func nodeKey(entry *claim) string { return entry.cluster + "/" + entry.Node }

// node adds the state of a pod's node. A node of a silent cluster is used for a while, and as long as one of its links
// is up, because traffic between clusters does not pass through the hub.
func (p *pairing) node(nodes map[string]links.Node, entry *claim, v *view, localLinks []tsn.TSNLink, now time.Time) {
	address, err := netip.ParseAddr(entry.NodeAddress)
	if _, has := nodes[nodeKey(entry)]; err != nil || has {
		return
	}
	silent := v.silence(entry.cluster, now)
	ready := silent < silenceTimeout || slices.ContainsFunc(localLinks, func(link tsn.TSNLink) bool {
		return link.Spec.Endpoint.Cluster == entry.cluster && link.Spec.Endpoint.Node == entry.Node && meta.IsStatusConditionTrue(link.Status.Conditions, tsn.ConditionUp)
	})
	if silent > 0 && silent < silenceTimeout {
		p.retryIn(silenceTimeout - silent)
	}
	keys, why := v.keysOf(entry, localLinks)
	if why != "" {
		p.findings = append(p.findings, spread.Finding{Reason: spread.ReasonUntrusted,
			Text: fmt.Sprintf("the keys of node %q of cluster %s are not used: %s", entry.Node, entry.cluster, why)})
	}
	nodes[nodeKey(entry)] = links.Node{Address: address, Ready: ready, MTU: entry.MTU, Keys: keys}
}

// retryIn plans the next reconciliation.
func (p *pairing) retryIn(after time.Duration) {
	if after > 0 && (p.retryAfter == 0 || after < p.retryAfter) {
		p.retryAfter = after
	}
}

// changed returns a link as the plan changes it, or unchanged.
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

// leaving returns the links, except those in but, with an end in a cluster that is leaving or has left. Only a member
// removes what the hub removes, so such an end would stay forever. These links are deleted even if no other endpoint
// takes over.
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

// finish sets the fields of a link that the planner does not know: the clusters of its ends, and the smaller of the two
// nodes' MTUs.
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
