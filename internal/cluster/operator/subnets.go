// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// subnet is a node's subnet of a network. ipv6 is invalid if the network has no IPv6.
type subnet struct{ ipv4, ipv6 netip.Prefix }

func (p subnet) cidrs() (ipv4, ipv6 string) {
	if p.ipv6.IsValid() {
		ipv6 = p.ipv6.String()
	}
	return p.ipv4.String(), ipv6
}

// overlaps reports whether two subnets have a range in common.
func (p subnet) overlaps(other subnet) bool {
	return p.ipv4 == other.ipv4 || p.ipv6.IsValid() && p.ipv6 == other.ipv6
}

// has reports whether an address is in one of the ranges.
func (p subnet) has(address netip.Addr) bool {
	return p.ipv4.Contains(address) || p.ipv6.Contains(address)
}

// subnetLedger has the subnets of each network's nodes. The TSNNodes have them too and survive the operator, but a cache of them may
// not have a recent allocation yet, which could then be made twice. It is safe for concurrent use.
type subnetLedger struct {
	mu sync.Mutex
	// subnets are by network and node. The inner maps are immutable.
	subnets map[string]map[string]subnet
	// previousOwners are the nodes whose TSNNodes may still have a node's subnet, by network and node.
	previousOwners map[string]map[string][]string
}

// load reads the subnets once, past the cache, when the operator starts.
func (l *subnetLedger) load(ctx context.Context, live client.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subnets != nil {
		return nil
	}
	var networks v1alpha1.TSNNetworkList
	if err := live.List(ctx, &networks); err != nil {
		return fmt.Errorf("list the networks: %w", err)
	}
	var nodes v1alpha1.TSNNodeList
	if err := live.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list the TSNNodes: %w", err)
	}
	l.subnets, l.previousOwners = subnetsOf(networks.Items, nodes.Items), map[string]map[string][]string{}
	return nil
}

// partsOf reads the subnets of the given networks from the TSNNodes.
func subnetsOf(networks []v1alpha1.TSNNetwork, nodes []v1alpha1.TSNNode) map[string]map[string]subnet {
	subnets := map[string]map[string]subnet{}
	for i := range networks {
		subnets[networks[i].Name] = map[string]subnet{}
	}
	for i := range nodes {
		for _, network := range nodes[i].Spec.Networks {
			if subnets[network.Name] != nil {
				addSubnet(subnets[network.Name], nodes[i].Name, network.IPv4, network.IPv6)
			}
		}
	}
	return subnets
}

// addSubnet ignores an invalid subnet; the node gets another one.
func addSubnet(subnets map[string]subnet, node, ipv4, ipv6 string) {
	if part, ok := parseSubnet(ipv4, ipv6); ok {
		subnets[node] = part
	}
}

func parseSubnet(ipv4, ipv6 string) (parsed subnet, ok bool) {
	prefix4, err := netip.ParsePrefix(ipv4)
	if err != nil {
		return subnet{}, false
	}
	prefix6, _ := netip.ParsePrefix(ipv6) // invalid if there is none
	return subnet{prefix4, prefix6}, true
}

// forNetwork returns the subnets of a network by node. The map is read only.
func (l *subnetLedger) forNetwork(network string) map[string]subnet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subnets[network]
}

// forNode returns the subnets of a node by network.
func (l *subnetLedger) forNode(node string) map[string]subnet {
	l.mu.Lock()
	defer l.mu.Unlock()
	subnets := map[string]subnet{}
	for network, nodes := range l.subnets {
		if part, assigned := nodes[node]; assigned {
			subnets[network] = part
		}
	}
	return subnets
}

// set replaces the subnets of a network.
func (l *subnetLedger) set(network string, subnets map[string]subnet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, previousOwners := l.subnets[network], map[string][]string{}
	for node, assigned := range subnets {
		if assigned == before[node] {
			previousOwners[node] = l.previousOwners[network][node]
			continue
		}
		for other, previous := range before {
			if other != node && previous.overlaps(assigned) { // its TSNNode may not have it yet, but that of its previous owners may
				previousOwners[node] = append(append(previousOwners[node], other), l.previousOwners[network][other]...)
			}
		}
	}
	maps.DeleteFunc(previousOwners, func(_ string, owner []string) bool { return len(owner) == 0 })
	l.subnets[network], l.previousOwners[network] = subnets, previousOwners
}

// previousOwnersOf returns the nodes whose TSNNodes may still have the node's subnet of a network.
func (l *subnetLedger) previousOwnersOf(network, node string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.previousOwners[network][node]
}

// clearPreviousOwners records that no other TSNNode has the node's subnet any more.
func (l *subnetLedger) clearPreviousOwners(network, node string, assigned subnet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subnets[network][node] == assigned {
		delete(l.previousOwners[network], node)
	}
}

// drop forgets a deleted network.
func (l *subnetLedger) drop(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.subnets, network)
	delete(l.previousOwners, network)
}

// allocateSubnets allocates subnets of a network's ranges, or of this cluster's parts of them, to the nodes with pods on it. A node has a
// subnet of each range or of none. It keeps its subnet while excluded pods run there, because they still have its addresses. without lists
// the nodes for which no subnet is left.
func allocateSubnets(network *v1alpha1.TSNNetwork, allocated map[string]subnet, nodes *nodeSet, used *usage) (subnets map[string]subnet, without []string, err error) {
	existing := slices.Collect(maps.Keys(nodes.all))
	var wanted []string
	for node := range used.onNode {
		if nodes.all[node] != nil {
			wanted = append(wanted, node)
		}
	}
	for node := range used.retained {
		if _, retained := allocated[node]; retained && used.onNode[node] == 0 && nodes.all[node] != nil {
			wanted = append(wanted, node)
		}
	}
	allocated4, allocated6 := map[string]netip.Prefix{}, map[string]netip.Prefix{}
	for node, part := range allocated {
		// A missing range stays invalid and is not allocated.
		allocated4[node], allocated6[node] = part.ipv4, part.ipv6
	}
	range4, err := tsnnetwork.NewRange(cmp.Or(network.Spec.IPv4.Part, network.Spec.IPv4.CIDR), network.Spec.IPv4.NodePrefixLength)
	if err != nil {
		return nil, nil, err
	}
	static4, _ := netip.ParsePrefix(network.Spec.IPv4.Static) // invalid if there is none
	subnets4, without := range4.Without(static4).Allocate(allocated4, existing, wanted)
	subnets6 := map[string]netip.Prefix{}
	if network.Spec.IPv6 != nil {
		range6, err := tsnnetwork.NewRange(cmp.Or(network.Spec.IPv6.Part, network.Spec.IPv6.CIDR), network.Spec.IPv6.NodePrefixLength)
		if err != nil {
			return nil, nil, err
		}
		wanted = slices.DeleteFunc(wanted, func(node string) bool { return slices.Contains(without, node) })
		var without6 []string
		static6, _ := netip.ParsePrefix(network.Spec.IPv6.Static)
		subnets6, without6 = range6.Without(static6).Allocate(allocated6, existing, wanted)
		without = append(without, without6...)
	}
	subnets = make(map[string]subnet, len(subnets4))
	for node, part4 := range subnets4 {
		part6 := subnets6[node]
		if network.Spec.IPv6 == nil || part6.IsValid() {
			subnets[node] = subnet{part4, part6}
		}
	}
	return subnets, without, nil
}
