// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// trusted are the nodes of which other clusters are told: by cluster and name. A cluster's word is taken for nodes whose
// addresses lie in the cluster's own part, and that are where no node of another cluster is. Of a cluster that reports nothing others go
// on to be told what they are told already.
func trusted(network *tsn.TSNNetwork, p *plan, v *view) (map[string]map[string]tsn.PeerNode, []spread.Finding) {
	order := slices.DeleteFunc(spread.Oldest(v.clusters), func(cluster string) bool { return !slices.Contains(p.selected, cluster) })
	peers, refused := map[string]map[string]tsn.PeerNode{}, map[string][]string{}
	for _, cluster := range order {
		peers[cluster], refused[cluster] = believed(network, p.shares[cluster], v.claimed(cluster))
	}
	owner := owners(order, peers, v.told)
	var findings []spread.Finding
	for _, cluster := range order {
		for _, name := range slices.Sorted(maps.Keys(peers[cluster])) {
			if other := owner[peers[cluster][name].Address]; other != cluster {
				refused[cluster] = append(refused[cluster], fmt.Sprintf("node %q has the address of a node of cluster %s", name, other))
				delete(peers[cluster], name)
			}
		}
		if len(refused[cluster]) > 0 {
			findings = append(findings, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("of cluster %s other clusters are not told: %s", cluster, spread.Some(refused[cluster]))})
		}
	}
	return peers, findings
}

// claimed are the nodes that a cluster says it has, or had when it last said something.
func (v *view) claimed(cluster string) []tsn.PeerNode {
	nodes := v.reports[cluster].Status.Peers
	if !v.reports[cluster].Told {
		nodes = v.told.nodes(cluster)
	}
	return nodes[:min(len(nodes), tsn.MaxSpanPeers)]
}

// believed are the nodes of a cluster that can be, by name, and why others cannot.
func believed(network *tsn.TSNNetwork, source share, claimed []tsn.PeerNode) (nodes map[string]tsn.PeerNode, refused []string) {
	nodes = map[string]tsn.PeerNode{}
	for _, node := range claimed {
		if why := refuses(network, source, &node, nodes); why != "" {
			refused = append(refused, fmt.Sprintf("node %q %s", node.Name, why))
			continue
		}
		nodes[node.Name] = node
	}
	return nodes, refused
}

// owners are the clusters whose nodes have addresses. Of several that want one it is the cluster of which others were told first: no cluster takes
// the tunnels of another's node, however old it is.
func owners(order []string, peers map[string]map[string]tsn.PeerNode, currentShardsOf shardsOf) map[string]string {
	owner := map[string]string{}
	claim := func(cluster, address string) {
		if owner[address] == "" {
			owner[address] = cluster
		}
	}
	for _, cluster := range order {
		for _, node := range currentShardsOf.nodes(cluster) {
			if peers[cluster][node.Name].Address == node.Address {
				claim(cluster, node.Address)
			}
		}
	}
	for _, cluster := range order {
		for _, node := range peers[cluster] {
			claim(cluster, node.Address)
		}
	}
	return owner
}

// refuses says why a node is not believed, "" if it is.
func refuses(network *tsn.TSNNetwork, source share, node *tsn.PeerNode, others map[string]tsn.PeerNode) string {
	if node.Name == "" || len(node.Name) > 253 {
		return "has no name that a node can have"
	}
	if _, twice := others[node.Name]; twice {
		return "is there twice"
	}
	address, err := netip.ParseAddr(node.Address)
	if err != nil || !address.Is4() || !address.IsGlobalUnicast() {
		return fmt.Sprintf("has %q as its address, which is none for tunnels", node.Address)
	}
	if whole, err := netip.ParsePrefix(network.Spec.IPv4.CIDR); err == nil && whole.Contains(address) {
		return fmt.Sprintf("has the address %s, which is in the network itself", address)
	}
	if why := outside(node.IPv4, source.ipv4); why != "" {
		return why
	}
	if (node.IPv6 == "") != (source.ipv6 == "") {
		return fmt.Sprintf("has %q of IPv6, and its cluster %q", node.IPv6, source.ipv6)
	}
	if source.ipv6 != "" {
		if why := outside(node.IPv6, source.ipv6); why != "" {
			return why
		}
	}
	for _, other := range others {
		if other.Address == node.Address || overlap(other.IPv4, node.IPv4) || overlap(other.IPv6, node.IPv6) {
			return "has addresses of node " + other.Name
		}
	}
	if len(node.Keys) > 2 || len(node.Signature) > 88 {
		return fmt.Sprintf("has %d keys with a signature of %d characters", len(node.Keys), len(node.Signature))
	}
	if node.MTU < 0 || node.MTU > 65535 {
		return fmt.Sprintf("has an MTU of %d", node.MTU)
	}
	return ""
}

// outside says why a range is no part of another.
func outside(text, whole string) string {
	part, err := netip.ParsePrefix(text)
	in, errIn := netip.ParsePrefix(whole)
	switch {
	case err != nil || part != part.Masked():
		return fmt.Sprintf("has %q, which is no range", text)
	case errIn != nil || !in.Contains(part.Addr()) || part.Bits() < in.Bits():
		return fmt.Sprintf("has %s, which is not in its cluster's part %s", part, whole)
	}
	return ""
}

func overlap(a, b string) bool {
	prefix, errOne := netip.ParsePrefix(a)
	other, errOther := netip.ParsePrefix(b)
	return errOne == nil && errOther == nil && prefix.Overlaps(other)
}
