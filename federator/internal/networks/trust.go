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

// trustedNodes returns the nodes to publish, by cluster and name. A cluster's report is accepted for nodes whose
// addresses lie in the cluster's own subnet and are not used by another cluster. The nodes of a cluster that reports
// nothing stay published.
func trustedNodes(network *tsn.TSNNetwork, p *plan, v *view) (map[string]map[string]tsn.PeerNode, []spread.Finding) {
	order := slices.DeleteFunc(spread.Oldest(v.clusters), func(cluster string) bool { return !slices.Contains(p.selected, cluster) })
	peers, refused := map[string]map[string]tsn.PeerNode{}, map[string][]string{}
	for _, cluster := range order {
		peers[cluster], refused[cluster] = acceptNodes(network, p.shares[cluster], v.reportedNodes(cluster))
	}
	owner := owners(order, peers, v.published)
	var findings []spread.Finding
	for _, cluster := range order {
		for _, name := range slices.Sorted(maps.Keys(peers[cluster])) {
			if other := owner[peers[cluster][name].Address]; other != cluster {
				refused[cluster] = append(refused[cluster], fmt.Sprintf("node %q has the address of a node of cluster %s", name, other))
				delete(peers[cluster], name)
			}
		}
		if len(refused[cluster]) > 0 {
			findings = append(findings, spread.Finding{Reason: spread.ReasonUntrusted, Text: fmt.Sprintf("nodes of cluster %s are not passed on: %s", cluster, spread.Some(refused[cluster]))})
		}
	}
	return peers, findings
}

// reportedNodes returns the nodes in a cluster's current or last report.
func (v *view) reportedNodes(cluster string) []tsn.PeerNode {
	nodes := v.reports[cluster].Status.Peers
	if !v.reports[cluster].HasStatus {
		nodes = v.published.nodes(cluster)
	}
	return nodes[:min(len(nodes), tsn.MaxSpanPeers)]
}

// acceptNodes returns the valid nodes of a cluster by name, and why others are rejected.
func acceptNodes(network *tsn.TSNNetwork, source share, claimed []tsn.PeerNode) (nodes map[string]tsn.PeerNode, refused []string) {
	nodes = map[string]tsn.PeerNode{}
	for _, node := range claimed {
		if why := rejectReason(network, source, &node, nodes); why != "" {
			refused = append(refused, fmt.Sprintf("node %q %s", node.Name, why))
			continue
		}
		nodes[node.Name] = node
	}
	return nodes, refused
}

// owners returns the cluster that owns each node address. If several clusters claim an address, the cluster whose node
// was published first keeps it, so that no cluster, however old, takes over the tunnels of another one's node.
func owners(order []string, peers map[string]map[string]tsn.PeerNode, published shardsOf) map[string]string {
	owner := map[string]string{}
	claim := func(cluster, address string) {
		if owner[address] == "" {
			owner[address] = cluster
		}
	}
	for _, cluster := range order {
		for _, node := range published.nodes(cluster) {
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

// rejectReason returns why a node is rejected, "" if it is accepted.
func rejectReason(network *tsn.TSNNetwork, source share, node *tsn.PeerNode, others map[string]tsn.PeerNode) string {
	if node.Name == "" || len(node.Name) > 253 {
		return "has an invalid name"
	}
	if _, twice := others[node.Name]; twice {
		return "is reported twice"
	}
	address, err := netip.ParseAddr(node.Address)
	if err != nil || !address.Is4() || !address.IsGlobalUnicast() {
		return fmt.Sprintf("has the address %q, which tunnels cannot use", node.Address)
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

// outside returns why a range is not part of another, "" if it is.
func outside(text, whole string) string {
	part, err := netip.ParsePrefix(text)
	in, errIn := netip.ParsePrefix(whole)
	switch {
	case err != nil || part != part.Masked():
		return fmt.Sprintf("has the invalid range %q", text)
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
