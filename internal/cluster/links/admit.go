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

// Admission says whether agents may plug a link that somebody else made, as a hub does.
type Admission struct {
	Link *v1alpha1.TSNLink
	// Refusal is why not, nil: they may.
	Refusal error
}

// admit looks at the links of others that have an end in the cluster: who makes links elsewhere gives a pod of this cluster no more than its
// labels and its TSNService ask for.
func (p *planner) admit(groups map[Key]*group) {
	first := p.firstByVNI()
	var having map[netip.Addr]*v1alpha1.TSNLink
	for i := range p.in.Links {
		link := &p.in.Links[i]
		if p.isOwn(link) {
			continue
		}
		if p.pods[link.Spec.Client.UID] == nil && p.pods[link.Spec.Endpoint.UID] == nil {
			if p.isForgotten(link) {
				p.out.Delete = append(p.out.Delete, Removal{link, "the hub has forgotten it, and no pod of the cluster is at its ends"})
			}
			continue
		}
		refusal := p.refusal(link, groups[Key{link.Namespace, link.Spec.Service}])
		if other := first[link.Spec.VNI]; other != link {
			refusal = fmt.Errorf("TSNLink %s/%s has its VXLAN network identifier, %d", other.Namespace, other.Name, link.Spec.VNI)
		}
		if having == nil {
			having = p.firstByAddress()
		}
		if other, address := anothersAddress(link, having); other != nil && refusal == nil {
			refusal = fmt.Errorf("TSNLink %s/%s has its address %s", other.Namespace, other.Name, address)
		}
		p.out.Admitted = append(p.out.Admitted, Admission{link, refusal})
	}
}

// firstByVNI is who has a number.
func (p *planner) firstByVNI() map[int32]*v1alpha1.TSNLink {
	first := map[int32]*v1alpha1.TSNLink{}
	for i := range p.in.Links {
		link := &p.in.Links[i]
		if have := first[link.Spec.VNI]; have == nil || p.goesBefore(link, have) {
			first[link.Spec.VNI] = link
		}
	}
	return first
}

// firstByAddress is who has an address.
func (p *planner) firstByAddress() map[netip.Addr]*v1alpha1.TSNLink {
	first := map[netip.Addr]*v1alpha1.TSNLink{}
	for i := range p.in.Links {
		link := &p.in.Links[i]
		for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
			for _, address := range addressesOf(end) {
				if have := first[address]; have == nil || p.goesBefore(link, have) {
					first[address] = link
				}
			}
		}
	}
	return first
}

// karmadaLabel is on what Karmada has in a cluster (util.ManagedByKarmadaLabel). It takes the label away from what it leaves there, as it may a link
// whose next one, of the same name, comes too soon.
const karmadaLabel = "karmada.io/managed"

// isForgotten tells whether a link was made by a hub that looks after it no longer. It stays as long as pods have it.
func (p *planner) isForgotten(link *v1alpha1.TSNLink) bool {
	return p.maker == v1alpha1.MakerOperator && link.Labels[v1alpha1.LinkMakerLabel] == v1alpha1.MakerFederator && link.Labels[karmadaLabel] == ""
}

// goesBefore tells whether of two links that want the same the first gets it: one of the maker's, or else one that the hub looks after, or else the
// older.
func (p *planner) goesBefore(link, other *v1alpha1.TSNLink) bool {
	if p.isOwn(link) != p.isOwn(other) {
		return p.isOwn(link)
	}
	if p.isForgotten(link) != p.isForgotten(other) {
		return p.isForgotten(other)
	}
	return cmp.Or(link.CreationTimestamp.Compare(other.CreationTimestamp.Time), compareLinks(link, other)) < 0
}

// anothersAddress is an address of a link that another one has.
func anothersAddress(link *v1alpha1.TSNLink, having map[netip.Addr]*v1alpha1.TSNLink) (other *v1alpha1.TSNLink, address netip.Addr) {
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		for _, address := range addressesOf(end) {
			if having[address] != link {
				return having[address], address
			}
		}
	}
	return nil, netip.Addr{}
}

// refusal says what of a link is not asked for.
func (p *planner) refusal(link *v1alpha1.TSNLink, g *group) error {
	if g == nil {
		return fmt.Errorf("there is no TSNService %s/%s in this cluster, by which pods ask for the link", link.Namespace, link.Spec.Service)
	}
	if local := g.service.Spec.Encryption; tsnnetwork.LessEncrypted(link.Spec.Encryption, local) {
		return fmt.Errorf("its encryption is %s, and links of TSNService %s have %s here, by its spec.encryption or the cluster's minimum; set spec.encryption to %s at the hub",
			cmp.Or(link.Spec.Encryption, v1alpha1.EncryptionNone), keyOf(g.service), local, local)
	}
	asked := g.askedFor(int(link.Spec.Hop))
	asked.in = p.in
	// A link that is up stays, as the operator's own do, when a network is made later, or a node says that it has another address.
	condition := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionAdmitted)
	admitted := condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == link.Generation
	for _, row := range []struct {
		what     string
		end      *v1alpha1.LinkEnd
		is       func(*member) bool
		forwards []string
	}{
		{"client", &link.Spec.Client, func(m *member) bool { return m.wants == link.Spec.Client.Interface }, asked.clientForwards},
		{"endpoint", &link.Spec.Endpoint, func(m *member) bool {
			number, begins := strings.CutPrefix(link.Spec.Endpoint.Interface, m.offers)
			return begins && isNumber(number)
		}, asked.endpointForwards},
	} {
		err := asked.addresses(row.end)
		if err == nil && !admitted {
			err = p.in.taken(g.service, row.end)
		}
		if err != nil {
			return fmt.Errorf("the %s, pod %s/%s: %w", row.what, row.end.Namespace, row.end.Pod, err)
		}
		pod := p.pods[row.end.UID]
		if pod == nil {
			continue
		}
		err = asked.of(row.end, row.forwards)
		if members := asked.members[row.what]; !slices.ContainsFunc(members, func(m *member) bool { return m.pod == pod && row.is(m) }) {
			err = fmt.Errorf("its labels do not ask TSNService %s for interface %s", keyOf(g.service), row.end.Interface)
		}
		if err != nil {
			return fmt.Errorf("the %s, pod %s: %w", row.what, pod.Full(), err)
		}
	}
	return nil
}

// asked is what a service asks for of links of a hop.
type asked struct {
	in             *Input
	service        *v1alpha1.TSNService
	ranges, routes []netip.Prefix
	// parts are of the operator's own links.
	parts                            []netip.Prefix
	members                          map[string][]*member
	clientForwards, endpointForwards []string
}

func (g *group) askedFor(hop int) *asked {
	expected := &asked{service: g.service, ranges: Ranges(g.service), parts: parts(g.service), members: map[string][]*member{}}
	for _, route := range g.service.Spec.Routes {
		if to, err := netip.ParsePrefix(route.To); err == nil {
			expected.routes = append(expected.routes, to)
		}
	}
	if hop < 0 || hop >= len(g.stages) {
		return expected // of no such hop
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

// parts are the shares of a service's ranges from which the operator of a cluster takes.
func parts(service *v1alpha1.TSNService) []netip.Prefix {
	var all []netip.Prefix
	for _, given := range []*v1alpha1.LinkRange{service.Spec.IPv4, service.Spec.IPv6} {
		if given == nil {
			continue
		}
		if part, err := netip.ParsePrefix(given.Part); err == nil {
			all = append(all, part)
		}
	}
	return all
}

// addresses says what is wrong with those of an end.
func (a *asked) addresses(end *v1alpha1.LinkEnd) error {
	for _, text := range end.Addresses {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || !contains(a.ranges, prefix) {
			return fmt.Errorf("address %s is of no range of TSNService %s", text, keyOf(a.service))
		}
		if slices.ContainsFunc(a.parts, prefix.Overlaps) {
			return fmt.Errorf("address %s is of the part of TSNService %s that is this cluster's own", text, keyOf(a.service))
		}
	}
	return nil
}

// of says what is wrong with routes, names and settings of an end.
func (a *asked) of(end *v1alpha1.LinkEnd, forwards []string) error {
	for _, text := range end.Routes {
		if to, err := netip.ParsePrefix(text); err != nil || !contains(a.ranges, to) && !slices.Contains(a.routes, to) {
			return fmt.Errorf("route %s leads to no address of links of TSNService %s, and is not in its spec.routes", text, keyOf(a.service))
		} else if taken := a.in.reserved(a.service, to); taken != nil {
			return fmt.Errorf("%s has addresses of route %s, %s", taken.What, to, taken.Range)
		}
	}
	for _, forward := range end.Forward {
		if !slices.Contains(forwards, forward) {
			return fmt.Errorf("forwarding of %s is in no element of spec.chain of TSNService %s that the pod is", forward, keyOf(a.service))
		}
	}
	names := slices.Clone(end.Names)
	for i := range end.Hosts {
		host := &end.Hosts[i]
		names = append(names, host.Name)
		for _, text := range host.Addresses {
			if address, err := netip.ParseAddr(text); err != nil || !contains(a.ranges, netip.PrefixFrom(address, address.BitLen())) {
				return fmt.Errorf("%s, the address of %s, is of no range of TSNService %s", text, host.Name, keyOf(a.service))
			}
		}
	}
	domain := domainOf(a.service)
	for _, name := range names {
		if name != domain && !strings.HasSuffix(name, "."+domain) && (name != a.service.Name || name == noName) {
			return fmt.Errorf("name %s is neither %s nor one under %s", name, a.service.Name, domain)
		}
	}
	return nil
}
