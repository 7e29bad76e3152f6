// SPDX-License-Identifier: Apache-2.0

package links

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// maxRoutes and maxHosts are how many an end of a link may have.
	maxRoutes = 4096
	maxHosts  = 2048
	// maxHostName is how long a name may be.
	maxHostName = 253
)

// net is what the links of a service join.
type net struct {
	*pairing
	// from and into are the maker's links by the pods at their ends and their hops.
	from map[slot]*v1alpha1.TSNLink
	into map[slot][]*v1alpha1.TSNLink
}

// route gives all links that are used their routes and names, which follow from each other, and has those made or changed that are not so
// yet.
func (r *pairing) route() {
	n := &net{pairing: r, from: map[slot]*v1alpha1.TSNLink{}, into: map[slot][]*v1alpha1.TSNLink{}}
	var all []*v1alpha1.TSNLink
	for _, link := range slices.SortedFunc(maps.Values(r.used), compareLinks) {
		if !r.isOwn(link) {
			continue
		}
		hop := int(link.Spec.Hop)
		n.from[slot{link.Spec.Client.UID, hop}] = link
		at := slot{link.Spec.Endpoint.UID, hop}
		n.into[at] = append(n.into[at], link)
		all = append(all, link)
	}
	for _, link := range all {
		want := n.complete(link)
		if have := r.own[slot{link.Spec.Client.UID, int(link.Spec.Hop)}]; have == link {
			r.change(have, want)
		} else {
			r.out.Make = append(r.out.Make, *want)
		}
	}
}

// keysFor are the keys of the node at an end, nil on a link that needs none. Of a node that is not known now they stay what they are.
func (n *net) keysFor(spec *v1alpha1.TSNLinkSpec, end *v1alpha1.LinkEnd) *v1alpha1.LinkNodeKeys {
	client, endpoint, pod := n.pods[spec.Client.UID], n.pods[spec.Endpoint.UID], n.pods[end.UID]
	if !spec.Encrypted() || client != nil && endpoint != nil && client.Node == endpoint.Node {
		return nil
	}
	if pod == nil {
		return end.NodeKeys
	}
	node, known := n.in.Nodes[pod.Node]
	if !known {
		return end.NodeKeys
	}
	return node.Keys
}

// complete is a link with all that follows from others and from the service.
func (n *net) complete(link *v1alpha1.TSNLink) *v1alpha1.TSNLink {
	want := link.DeepCopy()
	spec, hop := &want.Spec, int(want.Spec.Hop)
	spec.MTU, spec.Encryption = n.service.Spec.MTU, n.service.Spec.Encryption
	for _, end := range []*v1alpha1.LinkEnd{&spec.Client, &spec.Endpoint} {
		if pod := n.pods[end.UID]; pod != nil {
			if address := n.in.Nodes[pod.Node].Address; address.IsValid() {
				end.NodeAddress = address.String()
			}
		}
		end.NodeKeys = n.keysFor(spec, end)
		end.Routes, end.Forward, end.Names, end.Hosts = nil, nil, nil, nil
	}
	later, earlier := n.later(link), n.earlier(link)
	var down, up []netip.Prefix
	for _, link := range later {
		down = append(down, hostRoutes(addressesOf(&link.Spec.Endpoint))...)
	}
	for _, link := range earlier {
		up = append(up, hostRoutes(addressesOf(&link.Spec.Client))...)
	}
	down = append(down, n.behindRoutes(link, v1alpha1.BehindEndpoint)...)
	if n.into[slot{spec.Endpoint.UID, hop}][0] == link { // of several clients with the same behind them, one has it
		up = append(up, n.behindRoutes(link, v1alpha1.BehindClient)...)
	}
	spec.Client.Routes, spec.Endpoint.Routes = sortedRoutes(down), sortedRoutes(up)
	if hop > 0 {
		spec.Client.Forward = slices.Clone(n.forwards[hop-1])
	}
	if hop < len(n.forwards) {
		spec.Endpoint.Forward = slices.Clone(n.forwards[hop])
	}
	n.name(spec, later, earlier)
	return want
}

// later are the links behind one, in their order.
func (n *net) later(link *v1alpha1.TSNLink) []*v1alpha1.TSNLink {
	var all []*v1alpha1.TSNLink
	for hop := int(link.Spec.Hop) + 1; ; hop++ {
		next := n.from[slot{link.Spec.Endpoint.UID, hop}]
		if next == nil {
			return all
		}
		all = append(all, next)
		link = next
	}
}

// earlier are the links by which clients reach one.
func (n *net) earlier(link *v1alpha1.TSNLink) []*v1alpha1.TSNLink {
	var all []*v1alpha1.TSNLink
	for _, before := range n.into[slot{link.Spec.Client.UID, int(link.Spec.Hop) - 1}] {
		all = append(all, before)
		all = append(all, n.earlier(before)...)
	}
	return all
}

// behindRoutes are the service's routes that one end of a link has, of the versions of IP of which the link has addresses.
func (n *net) behindRoutes(link *v1alpha1.TSNLink, behind string) []netip.Prefix {
	var all []netip.Prefix
	for _, route := range n.service.Spec.Routes {
		to, err := netip.ParsePrefix(route.To)
		if err != nil || n.in.reserved(n.service, to) != nil || (route.Behind == v1alpha1.BehindClient) != (behind == v1alpha1.BehindClient) {
			continue
		}
		if slices.ContainsFunc(addressesOf(&link.Spec.Client), func(address netip.Addr) bool { return address.Is4() == to.Addr().Is4() }) {
			all = append(all, to)
		}
	}
	return all
}

// noName is a name that has its address already.
const noName = "localhost"

// domainOf is that of the long names of a service's pods.
func domainOf(service *v1alpha1.TSNService) string {
	return service.Name + "." + service.Namespace + "." + v1alpha1.LinkDomain
}

// name gives each end the names of the pods that it reaches. The client of a chain knows its endpoint by the service's name, and the pod
// between by the element's.
func (n *net) name(spec *v1alpha1.TSNLinkSpec, later, earlier []*v1alpha1.TSNLink) {
	domain := domainOf(n.service)
	names := func(hop int) []string { // of the pod to which links of the hop lead
		switch {
		case hop < len(n.service.Spec.Chain):
			return []string{n.service.Spec.Chain[hop].Name + "." + domain}
		case n.service.Name == noName:
			return []string{domain}
		}
		return []string{n.service.Name, domain}
	}
	spec.Client.Names = names(int(spec.Hop))
	spec.Endpoint.Names = n.clientNames(&spec.Client, &spec.Endpoint, domain)
	for _, link := range later {
		for _, name := range names(int(link.Spec.Hop)) {
			spec.Client.Hosts = append(spec.Client.Hosts, v1alpha1.LinkHost{Name: name, Addresses: texts(addressesOf(&link.Spec.Endpoint))})
		}
	}
	for _, link := range earlier {
		for _, name := range n.clientNames(&link.Spec.Client, &spec.Endpoint, domain) {
			spec.Endpoint.Hosts = append(spec.Endpoint.Hosts, v1alpha1.LinkHost{Name: name, Addresses: texts(addressesOf(&link.Spec.Client))})
		}
	}
	slices.SortFunc(spec.Endpoint.Hosts, func(a, b v1alpha1.LinkHost) int {
		return strings.Compare(a.Name+strings.Join(a.Addresses, " "), b.Name+strings.Join(b.Addresses, " "))
	})
	spec.Endpoint.Hosts = spec.Endpoint.Hosts[:min(len(spec.Endpoint.Hosts), maxHosts)]
}

// clientNames are those of a client at a pod that it reaches. The client's namespace is in them, and its cluster if that is another one, so that no
// two clients have one name. One whose name has dots has none: the name could be that of another.
func (n *net) clientNames(client, at *v1alpha1.LinkEnd, domain string) []string {
	if strings.Contains(client.Pod, ".") {
		return nil
	}
	name := client.Pod + "." + client.Namespace + "."
	if cluster := n.clusterOf(client); cluster != n.clusterOf(at) {
		name += cluster + "."
	}
	name += domain
	if len(name) > maxHostName {
		return nil
	}
	return []string{name}
}

func (n *net) clusterOf(end *v1alpha1.LinkEnd) string {
	if pod := n.pods[end.UID]; pod != nil {
		return pod.Cluster
	}
	return end.Cluster
}
