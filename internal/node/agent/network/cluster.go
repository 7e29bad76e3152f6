// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Cluster has the objects of this node and its networks. It is shared and must not be modified.
type Cluster struct {
	// Node is the node's TSNNode, nil until it is known.
	Node *v1alpha1.TSNNode
	// Unknown is why Node is nil.
	Unknown error
	// Networks are the networks of Node.Spec.Networks in the same order.
	Networks []Joined
	// Gates is the TSNNetwork of Node.Spec.Gates, nil until it is known.
	Gates *v1alpha1.TSNNetwork
}

// Joined is a network that the node is on.
type Joined struct {
	// Part has the node's subnets.
	Part v1alpha1.NodeNetwork
	// Object is the TSNNetwork, reduced to what agents read; nil until it is known.
	Object *v1alpha1.TSNNetwork
	// Shards are the network's nodes, one slice per TSNPeers in the order of their names; nil until all are known.
	Shards [][]Member
}

// Member is a node of a network.
type Member struct {
	// Node is the name of the node, Cluster that of its cluster; "" is this cluster.
	Node, Cluster string
	// Address is its tunnel address.
	Address netip.Addr
	// Subnets are its subnets of the network, and the static addresses of its pods.
	Subnets []netip.Prefix
	// Statement is the signed statement of its cluster; nil in clusters without an operator.
	Statement *v1alpha1.PeerNode
	// ClusterKey is the announced signing key of its cluster.
	ClusterKey string
	// Succession is the succession of ClusterKey, "" if there is none or the cluster is this one.
	Succession string
}

// MembersOf parses a TSNPeers. Invalid entries are skipped and returned as faults.
func MembersOf(object *v1alpha1.TSNPeers) (members []Member, faults []error) {
	members = make([]Member, 0, len(object.Spec.Nodes))
	for i := range object.Spec.Nodes {
		entry := &object.Spec.Nodes[i]
		member, err := memberOf(entry, object.Spec.Cluster)
		if err != nil {
			faults = append(faults, fmt.Errorf("TSNPeers %s: node %s: %w", object.Name, entry.Name, err))
			continue
		}
		member.Node, member.Cluster = entry.Name, object.Spec.Cluster
		member.Statement, member.ClusterKey = entry, object.Spec.ClusterKey
		member.Succession = object.Spec.ClusterKeySuccession
		members = append(members, member)
	}
	return members, faults
}

// memberOf parses a node. Static addresses are this cluster's only.
func memberOf(entry *v1alpha1.PeerNode, cluster string) (member Member, err error) {
	if member.Address, err = netip.ParseAddr(entry.Address); err != nil {
		return member, err
	}
	if member.Subnets, err = parsePart(entry.IPv4, entry.IPv6); err != nil || cluster != "" {
		return member, err
	}
	for _, held := range entry.Addresses {
		address, err := netip.ParseAddr(held.Address)
		if err != nil {
			return member, err
		}
		member.Subnets = append(member.Subnets, netip.PrefixFrom(address, address.BitLen()))
	}
	return member, nil
}

// parsePart reads a node's part of each range; ipv6 may be "".
func parsePart(ipv4, ipv6 string) ([]netip.Prefix, error) {
	first, err := netip.ParsePrefix(ipv4)
	if err != nil || ipv6 == "" {
		return []netip.Prefix{first}, err
	}
	second, err := netip.ParsePrefix(ipv6)
	return []netip.Prefix{first, second}, err
}

// Network is the network as its object describes it.
func (j *Joined) Network() (Network, error) {
	spec := &j.Object.Spec
	network := Network{Name: j.Object.Name, VNI: uint32(spec.VNI), MTU: int(spec.MTU), Port: spec.TunnelPort(), Capture: spec.Capture, Cards: spec.Cards,
		CardNamespaces: spec.CardNamespaces, Clock: spec.Clock != nil, Routes: spec.Routes}
	network.setReceive(spec.Receive)
	if network.Static = tsnnetwork.Static(j.Object); len(network.Static) > 0 {
		network.AddressOwners = j.owners()
	}
	whole, err := netip.ParsePrefix(spec.IPv4.CIDR)
	if err != nil {
		return network, fmt.Errorf("network %s: spec.ipv4.cidr: %w", network.Name, err)
	}
	network.Ranges = []Range{{whole, int(spec.IPv4.NodePrefixLength)}}
	if spec.IPv6 != nil {
		if whole, err = netip.ParsePrefix(spec.IPv6.CIDR); err != nil {
			return network, fmt.Errorf("network %s: spec.ipv6.cidr: %w", network.Name, err)
		}
		network.Ranges = append(network.Ranges, Range{whole, int(spec.IPv6.NodePrefixLength)})
	}
	return network, nil
}

// owners returns the pods with static addresses, nil until all nodes are known.
func (j *Joined) owners() (all []attachment.AddressOwner) {
	if j.Shards == nil {
		return nil
	}
	all = []attachment.AddressOwner{}
	for _, shard := range j.Shards {
		for i := range shard {
			if shard[i].Cluster != "" || shard[i].Statement == nil {
				continue
			}
			for _, held := range shard[i].Statement.Addresses {
				address, _ := netip.ParseAddr(held.Address) // MembersOf has parsed it
				all = append(all, attachment.AddressOwner{Address: address, Node: shard[i].Node, Pod: held.Pod, UID: held.UID})
			}
		}
	}
	return all
}

// ValidateSubnets returns why the subnets of another node are invalid, nil if they are valid. Subnets of a node of this
// cluster must be in this cluster's part of the network, which is the whole network if there is no part. Subnets
// of a node of another cluster must be in the network outside that part, so that a hub cannot take addresses from pods here.
func (j *Joined) ValidateSubnets(member *Member) error {
	spec := &j.Object.Spec
	ranges := []struct{ whole, part string }{{spec.IPv4.CIDR, spec.IPv4.Part}}
	if spec.IPv6 != nil {
		ranges = append(ranges, struct{ whole, part string }{spec.IPv6.CIDR, spec.IPv6.Part})
	}
	if member.Cluster == "" {
		for i := range ranges {
			ranges[i].whole, ranges[i].part = cmp.Or(ranges[i].part, ranges[i].whole), ""
		}
	}
	for _, subnet := range member.Subnets {
		inside := false
		for _, r := range ranges {
			whole, err := netip.ParsePrefix(r.whole)
			inside = inside || err == nil && whole.Bits() <= subnet.Bits() && whole.Contains(subnet.Addr())
			if part, err := netip.ParsePrefix(r.part); err == nil && part.Overlaps(subnet) {
				return fmt.Errorf("its %s is in this cluster's part of network %s, %s", subnet, j.Part.Name, part)
			}
		}
		if !inside {
			return fmt.Errorf("its %s is not in network %s", subnet, j.Part.Name)
		}
	}
	if member.Cluster != "" && spec.IPv4.Part == "" {
		return fmt.Errorf("network %s has no spec.ipv4.part and belongs to this cluster only", j.Part.Name)
	}
	return nil
}

// Subnets returns the node's own subnets, nil unless it has one of each range.
func (j *Joined) Subnets() ([]netip.Prefix, error) {
	if j.Part.IPv4 == "" || j.Object.Spec.IPv6 != nil && j.Part.IPv6 == "" {
		return nil, nil
	}
	ipv6 := j.Part.IPv6
	if j.Object.Spec.IPv6 == nil {
		ipv6 = ""
	}
	parts, err := parsePart(j.Part.IPv4, ipv6)
	if err != nil {
		return nil, fmt.Errorf("the node's subnets of network %s: %w", j.Part.Name, err)
	}
	return parts, nil
}
