// SPDX-License-Identifier: Apache-2.0

package links

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// maxRoutes and maxHosts limit the routes and hosts of an end of a link.
	maxRoutes = 4096
	maxHosts  = 2048
	// maxHostNameBytes is the longest host name.
	maxHostNameBytes = 253
)

// routing computes the routes and names of a service's links.
type routing struct {
	*pairing
	// byClient and byEndpoint are the maker's links by their ends and hops.
	byClient   map[slot]*v1alpha1.TSNLink
	byEndpoint map[slot][]*v1alpha1.TSNLink
}

// planRoutes completes the routes and names of all used links, and plans to create new links and to update changed ones.
func (r *pairing) planRoutes() {
	n := &routing{pairing: r, byClient: map[slot]*v1alpha1.TSNLink{}, byEndpoint: map[slot][]*v1alpha1.TSNLink{}}
	var all []*v1alpha1.TSNLink
	for _, link := range slices.SortedFunc(maps.Values(r.used), compareLinks) {
		if !r.isOwned(link) {
			continue
		}
		hop := int(link.Spec.Hop)
		n.byClient[slot{link.Spec.Client.UID, hop}] = link
		at := slot{link.Spec.Endpoint.UID, hop}
		n.byEndpoint[at] = append(n.byEndpoint[at], link)
		all = append(all, link)
	}
	for _, link := range all {
		desired := n.completeLink(link)
		switch {
		case r.owned[slot{link.Spec.Client.UID, int(link.Spec.Hop)}] != link:
			r.out.Make = append(r.out.Make, *desired)
		case !equality.Semantic.DeepEqual(link.Spec, desired.Spec):
			r.out.Change = append(r.out.Change, *desired)
		}
	}
}

// keysFor returns the keys of the node at an end, nil for a link that needs none. Keys of an unknown node do not change.
func (n *routing) keysFor(spec *v1alpha1.TSNLinkSpec, end *v1alpha1.LinkEnd) *v1alpha1.LinkNodeKeys {
	client, endpoint, pod := n.pods[spec.Client.UID], n.pods[spec.Endpoint.UID], n.pods[end.UID]
	if !spec.Encrypted() || client != nil && endpoint != nil && client.Node == endpoint.Node {
		return nil
	}
	if pod != nil {
		if node, known := n.in.Nodes[pod.Node]; known {
			return node.Keys
		}
	}
	return end.NodeKeys
}

// completeLink returns a link with the fields that depend on other links and on the service.
func (n *routing) completeLink(link *v1alpha1.TSNLink) *v1alpha1.TSNLink {
	completed := link.DeepCopy()
	spec, hop := &completed.Spec, int(completed.Spec.Hop)
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
	downstream, upstream := n.downstream(link), n.upstream(link)
	var down, up []netip.Prefix
	for _, link := range downstream {
		down = append(down, hostPrefixes(&link.Spec.Endpoint)...)
	}
	for _, link := range upstream {
		up = append(up, hostPrefixes(&link.Spec.Client)...)
	}
	down = append(down, n.behindRoutes(link, v1alpha1.BehindEndpoint)...)
	if n.byEndpoint[slot{spec.Endpoint.UID, hop}][0] == link { // several clients have the same routes behind them: use one
		up = append(up, n.behindRoutes(link, v1alpha1.BehindClient)...)
	}
	spec.Client.Routes, spec.Endpoint.Routes = sortedRoutes(down), sortedRoutes(up)
	if hop > 0 {
		spec.Client.Forward = slices.Clone(n.forwards[hop-1])
	}
	if hop < len(n.forwards) {
		spec.Endpoint.Forward = slices.Clone(n.forwards[hop])
	}
	n.setNames(spec, downstream, upstream)
	return completed
}

// downstream returns the links after a link on the way to the endpoint, in order.
func (n *routing) downstream(link *v1alpha1.TSNLink) []*v1alpha1.TSNLink {
	var all []*v1alpha1.TSNLink
	for hop := int(link.Spec.Hop) + 1; ; hop++ {
		next := n.byClient[slot{link.Spec.Endpoint.UID, hop}]
		if next == nil {
			return all
		}
		all = append(all, next)
		link = next
	}
}

// upstream returns the links by which clients reach a link.
func (n *routing) upstream(link *v1alpha1.TSNLink) []*v1alpha1.TSNLink {
	var all []*v1alpha1.TSNLink
	for _, before := range n.byEndpoint[slot{link.Spec.Client.UID, int(link.Spec.Hop) - 1}] {
		all = append(all, before)
		all = append(all, n.upstream(before)...)
	}
	return all
}

// behindRoutes returns the service's routes behind one end of a link, for the IP versions of the link's addresses.
func (n *routing) behindRoutes(link *v1alpha1.TSNLink, behind string) []netip.Prefix {
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

// localhost cannot be used as a name of a service.
const localhost = "localhost"

// domainOf returns the domain of a service's pods.
func domainOf(service *v1alpha1.TSNService) string {
	return service.Name + "." + service.Namespace + "." + v1alpha1.LinkDomain
}

// setNames gives each end the names of the pods that it reaches: the endpoint by the service's name, and pods of a chain by the element's.
func (n *routing) setNames(spec *v1alpha1.TSNLinkSpec, downstream, upstream []*v1alpha1.TSNLink) {
	domain := domainOf(n.service)
	names := func(hop int) []string {
		switch {
		case hop < len(n.service.Spec.Chain):
			return []string{n.service.Spec.Chain[hop].Name + "." + domain}
		case n.service.Name == localhost:
			return []string{domain}
		}
		return []string{n.service.Name, domain}
	}
	spec.Client.Names = names(int(spec.Hop))
	spec.Endpoint.Names = n.clientNames(&spec.Client, &spec.Endpoint, domain)
	for _, link := range downstream {
		for _, name := range names(int(link.Spec.Hop)) {
			spec.Client.Hosts = append(spec.Client.Hosts, v1alpha1.LinkHost{Name: name, Addresses: toStrings(addressesOf(&link.Spec.Endpoint))})
		}
	}
	for _, link := range upstream {
		for _, name := range n.clientNames(&link.Spec.Client, &spec.Endpoint, domain) {
			spec.Endpoint.Hosts = append(spec.Endpoint.Hosts, v1alpha1.LinkHost{Name: name, Addresses: toStrings(addressesOf(&link.Spec.Client))})
		}
	}
	slices.SortFunc(spec.Endpoint.Hosts, func(a, b v1alpha1.LinkHost) int {
		return strings.Compare(a.Name+strings.Join(a.Addresses, " "), b.Name+strings.Join(b.Addresses, " "))
	})
	spec.Endpoint.Hosts = spec.Endpoint.Hosts[:min(len(spec.Endpoint.Hosts), maxHosts)]
}

// clientNames returns the names of a client at a pod that it reaches. They contain the client's namespace, and its cluster if it differs, so
// that they are unique. A client with dots in its name gets none, because the name could be another client's.
func (n *routing) clientNames(client, at *v1alpha1.LinkEnd, domain string) []string {
	if strings.Contains(client.Pod, ".") {
		return nil
	}
	name := client.Pod + "." + client.Namespace + "."
	if cluster := n.clusterOf(client); cluster != n.clusterOf(at) {
		name += cluster + "."
	}
	name += domain
	if len(name) > maxHostNameBytes {
		return nil
	}
	return []string{name}
}

func (n *routing) clusterOf(end *v1alpha1.LinkEnd) string {
	if pod := n.pods[end.UID]; pod != nil {
		return pod.Cluster
	}
	return end.Cluster
}
