// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Admission is whether agents may plug a link of another maker, for example of a hub.
type Admission struct {
	Link *v1alpha1.TSNLink
	// Refusal is the reason why not, nil if they may.
	Refusal error
}

// admit validates links of other makers with an end in the cluster: a pod of this cluster gets only what its labels and its TSNService
// request.
func (p *planner) admit(groups map[Key]*group) {
	first := firstBy(p, func(link *v1alpha1.TSNLink) []int32 { return []int32{link.Spec.VNI} })
	var owners map[netip.Addr]*v1alpha1.TSNLink
	for i := range p.in.Links {
		link := &p.in.Links[i]
		if p.isOwned(link) {
			continue
		}
		if p.pods[link.Spec.Client.UID] == nil && p.pods[link.Spec.Endpoint.UID] == nil {
			if p.isAbandoned(link) {
				p.out.Delete = append(p.out.Delete, Removal{link, "the hub has abandoned it, and no pod of the cluster is at its ends"})
			}
			continue
		}
		refusal := p.validateLink(link, groups[Key{Namespace: link.Namespace, Name: link.Spec.Service}])
		if other := first[link.Spec.VNI]; other != link {
			refusal = fmt.Errorf("TSNLink %s/%s has its VXLAN network identifier, %d", other.Namespace, other.Name, link.Spec.VNI)
		}
		if owners == nil {
			owners = firstBy(p, linkAddresses)
		}
		if other, address := duplicateAddress(link, owners); other != nil && refusal == nil {
			refusal = fmt.Errorf("TSNLink %s/%s has its address %s", other.Namespace, other.Name, address)
		}
		p.out.Admitted = append(p.out.Admitted, Admission{link, refusal})
	}
}

// firstBy returns the link that may use each VNI or address; used returns those of a link.
func firstBy[Resource comparable](p *planner, used func(link *v1alpha1.TSNLink) []Resource) map[Resource]*v1alpha1.TSNLink {
	first := map[Resource]*v1alpha1.TSNLink{}
	for i := range p.in.Links {
		link := &p.in.Links[i]
		for _, resource := range used(link) {
			if current := first[resource]; current == nil || p.takesPrecedence(link, current) {
				first[resource] = link
			}
		}
	}
	return first
}

// linkAddresses returns the addresses of both ends of a link.
func linkAddresses(link *v1alpha1.TSNLink) []netip.Addr {
	return append(addressesOf(&link.Spec.Client), addressesOf(&link.Spec.Endpoint)...)
}

// karmadaLabel is on the objects that Karmada manages in a cluster (util.ManagedByKarmadaLabel). It removes the label from objects that it
// abandons, for example from a link that is replaced too soon by one of the same name.
const karmadaLabel = "karmada.io/managed"

// isAbandoned reports whether a hub has created a link and does not manage it any more. It stays as long as pods have it.
func (p *planner) isAbandoned(link *v1alpha1.TSNLink) bool {
	return p.maker == v1alpha1.MakerOperator && link.Labels[v1alpha1.LinkMakerLabel] == v1alpha1.MakerFederator && link.Labels[karmadaLabel] == ""
}

// takesPrecedence reports whether link wins a conflict with other: links of the maker first, then links that the hub manages, then older
// links.
func (p *planner) takesPrecedence(link, other *v1alpha1.TSNLink) bool {
	if p.isOwned(link) != p.isOwned(other) {
		return p.isOwned(link)
	}
	if p.isAbandoned(link) != p.isAbandoned(other) {
		return p.isAbandoned(other)
	}
	return cmp.Or(link.CreationTimestamp.Compare(other.CreationTimestamp.Time), compareLinks(link, other)) < 0
}

// duplicateAddress returns another link with an address of the link, nil for none.
func duplicateAddress(link *v1alpha1.TSNLink, owners map[netip.Addr]*v1alpha1.TSNLink) (other *v1alpha1.TSNLink, address netip.Addr) {
	for _, address := range linkAddresses(link) {
		if owners[address] != link {
			return owners[address], address
		}
	}
	return nil, netip.Addr{}
}

// validateLink returns an error for anything in a link that neither labels nor the TSNService request.
func (p *planner) validateLink(link *v1alpha1.TSNLink, g *group) error {
	if g == nil {
		return fmt.Errorf("there is no TSNService %s/%s in this cluster, by which pods ask for the link", link.Namespace, link.Spec.Service)
	}
	if local := g.service.Spec.Encryption; tsnnetwork.LessEncrypted(link.Spec.Encryption, local) {
		return fmt.Errorf("its encryption is %s, and links of TSNService %s have %s here, by its spec.encryption or the cluster's minimum; set spec.encryption to %s at the hub",
			cmp.Or(link.Spec.Encryption, v1alpha1.EncryptionNone), keyOf(g.service), local, local)
	}
	expected := g.expectation(int(link.Spec.Hop))
	expected.in = p.in
	// An admitted link stays, like the operator's own, when a network is created later or a node reports another address.
	condition := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionAdmitted)
	admitted := condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == link.Generation
	for _, row := range []struct {
		what     string
		end      *v1alpha1.LinkEnd
		matches  func(*member) bool
		forwards []string
	}{
		{"client", &link.Spec.Client, func(m *member) bool { return m.clientInterface == link.Spec.Client.Interface }, expected.clientForwards},
		{"endpoint", &link.Spec.Endpoint, func(m *member) bool {
			number, begins := strings.CutPrefix(link.Spec.Endpoint.Interface, m.endpointPrefix)
			return begins && isNumber(number)
		}, expected.endpointForwards},
	} {
		err := expected.checkAddresses(row.end)
		if err == nil && !admitted {
			err = p.in.checkTaken(g.service, row.end)
		}
		if err != nil {
			return fmt.Errorf("the %s, pod %s/%s: %w", row.what, row.end.Namespace, row.end.Pod, err)
		}
		pod := p.pods[row.end.UID]
		if pod == nil {
			continue
		}
		err = expected.checkSettings(row.end, row.forwards)
		if members := expected.members[row.what]; !slices.ContainsFunc(members, func(m *member) bool { return m.pod == pod && row.matches(m) }) {
			err = fmt.Errorf("its labels do not ask TSNService %s for interface %s", keyOf(g.service), row.end.Interface)
		}
		if err != nil {
			return fmt.Errorf("the %s, pod %s: %w", row.what, pod.FullName(), err)
		}
	}
	return nil
}

// expectation is what a service allows in links of a hop.
type expectation struct {
	in             *Input
	service        *v1alpha1.TSNService
	ranges, routes []netip.Prefix
	// clusterParts are the ranges of the operator's own links.
	clusterParts                     []netip.Prefix
	members                          map[string][]*member
	clientForwards, endpointForwards []string
}

func (g *group) expectation(hop int) *expectation {
	expected := &expectation{service: g.service, ranges: Ranges(g.service), members: map[string][]*member{},
		clusterParts: parsePrefixes(rangeOf(g.service.Spec.IPv4).Part, rangeOf(g.service.Spec.IPv6).Part)}
	for _, route := range g.service.Spec.Routes {
		expected.routes = append(expected.routes, parsePrefixes(route.To)...)
	}
	if hop < 0 || hop >= len(g.stages) {
		return expected // there is no such hop
	}
	expected.members["client"], expected.members["endpoint"] = g.clients, g.stages[hop]
	if hop > 0 {
		expected.members["client"], expected.clientForwards = g.stages[hop-1], g.forwards[hop-1]
	}
	if hop < len(g.forwards) {
		expected.endpointForwards = g.forwards[hop]
	}
	return expected
}

// checkAddresses validates the addresses of an end.
func (a *expectation) checkAddresses(end *v1alpha1.LinkEnd) error {
	for _, text := range end.Addresses {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !contains(a.ranges, prefix) {
			return fmt.Errorf("address %s is in no range of TSNService %s", text, keyOf(a.service))
		}
		if slices.ContainsFunc(a.clusterParts, prefix.Overlaps) {
			return fmt.Errorf("address %s is in this cluster's part of TSNService %s", text, keyOf(a.service))
		}
	}
	return nil
}

// checkSettings validates routes, forwarding and names of an end.
func (a *expectation) checkSettings(end *v1alpha1.LinkEnd, forwards []string) error {
	for _, text := range end.Routes {
		if to, err := netip.ParsePrefix(text); err != nil || !contains(a.ranges, to) && !slices.Contains(a.routes, to) {
			return fmt.Errorf("route %s is neither in a range of TSNService %s nor in its spec.routes", text, keyOf(a.service))
		} else if reserved := a.in.reserved(a.service, to); reserved != nil {
			return fmt.Errorf("%s has addresses of route %s, %s", reserved.What, to, reserved.Range)
		}
	}
	for _, forward := range end.Forward {
		if !slices.Contains(forwards, forward) {
			return fmt.Errorf("forwarding of %s is not in the pod's element of spec.chain of TSNService %s", forward, keyOf(a.service))
		}
	}
	names := slices.Clone(end.Names)
	for i := range end.Hosts {
		host := &end.Hosts[i]
		names = append(names, host.Name)
		for _, text := range host.Addresses {
			if address, err := netip.ParseAddr(text); err != nil || !contains(a.ranges, netip.PrefixFrom(address, address.BitLen())) {
				return fmt.Errorf("%s, the address of %s, is in no range of TSNService %s", text, host.Name, keyOf(a.service))
			}
		}
	}
	domain := domainOf(a.service)
	for _, name := range names {
		if name != domain && !strings.HasSuffix(name, "."+domain) && (name != a.service.Name || name == localhost) {
			return fmt.Errorf("name %s is neither %s nor one under %s", name, a.service.Name, domain)
		}
	}
	return nil
}
