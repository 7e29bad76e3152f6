// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Cluster is what the API server has said of this node and its networks. Many read it, and nobody changes what is in it.
type Cluster struct {
	// Node is the node's own TSNNode, nil as long as none is known.
	Node *v1alpha1.TSNNode
	// Unknown says why Node is nil.
	Unknown error
	// Networks are those of Node.Spec.Networks, in its order.
	Networks []Joined
	// Gates is the TSNNetwork that Node.Spec.Gates names, nil as long as it is not known.
	Gates *v1alpha1.TSNNetwork
}

// Joined is a network that the node is on.
type Joined struct {
	// Part is the node's part.
	Part v1alpha1.NodeNetwork
	// Object is the network's, without what agents do not read; nil as long as it is not known.
	Object *v1alpha1.TSNNetwork
	// Shards are the network's nodes, one slice for each TSNPeers, in the order of their names; nil as long as not all of them are known.
	Shards [][]Member
}

// Member is a node of a network.
type Member struct {
	// Node is its name, in its cluster: "" is this one.
	Node, Cluster string
	// Address is where its tunnels end.
	Address netip.Addr
	// Subnets are its parts of the network's ranges.
	Subnets []netip.Prefix
	// Said is what its cluster says of it, as it was signed; nil in clusters without an operator.
	Said *v1alpha1.PeerNode
	// ClusterKey is the key by which its cluster says it signs.
	ClusterKey string
	// Succession is that of ClusterKey, "" where there is none or it is this cluster's.
	Succession string
}

// MembersOf reads a TSNPeers. An entry that is none is left out, and in faults.
func MembersOf(object *v1alpha1.TSNPeers) (members []Member, faults []error) {
	members = make([]Member, 0, len(object.Spec.Nodes))
	for i := range object.Spec.Nodes {
		entry := &object.Spec.Nodes[i]
		member, err := memberOf(entry)
		if err != nil {
			faults = append(faults, fmt.Errorf("TSNPeers %s: node %s: %w", object.Name, entry.Name, err))
			continue
		}
		member.Node, member.Cluster = entry.Name, object.Spec.Cluster
		member.Said, member.ClusterKey = entry, object.Spec.ClusterKey
		member.Succession = object.Spec.ClusterKeySuccession
		members = append(members, member)
	}
	return members, faults
}

func memberOf(entry *v1alpha1.PeerNode) (member Member, err error) {
	if member.Address, err = netip.ParseAddr(entry.Address); err != nil {
		return member, err
	}
	member.Subnets, err = parsePart(entry.IPv4, entry.IPv6)
	return member, err
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
	network := Network{Name: j.Object.Name, VNI: uint32(spec.VNI), MTU: int(spec.MTU), Port: DefaultPort, Capture: spec.Capture, Cards: spec.Cards,
		CardNamespaces: spec.CardNamespaces, Clock: spec.Clock != nil}
	network.receive(spec.Receive)
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

// Trespasses returns what is wrong with the subnets of another node, nil if nothing is. Subnets of a node of this cluster lie in this cluster's part of
// the network, which is all of it where there is no part. Those of a node of another cluster lie in the network outside that part, so that a hub does
// not take away the addresses of pods here.
func (j *Joined) Trespasses(member *Member) error {
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
		lies := false
		for _, of := range ranges {
			whole, err := netip.ParsePrefix(of.whole)
			lies = lies || err == nil && whole.Bits() <= subnet.Bits() && whole.Contains(subnet.Addr())
			if part, err := netip.ParsePrefix(of.part); err == nil && part.Overlaps(subnet) {
				return fmt.Errorf("its %s lies in this cluster's part of network %s, %s", subnet, j.Part.Name, part)
			}
		}
		if !lies {
			return fmt.Errorf("its %s is no part of network %s", subnet, j.Part.Name)
		}
	}
	if member.Cluster != "" && spec.IPv4.Part == "" {
		return fmt.Errorf("network %s has no spec.ipv4.part, and so is this cluster's only", j.Part.Name)
	}
	return nil
}

// Parts are the node's own, nil as long as it has no part of each range.
func (j *Joined) Parts() ([]netip.Prefix, error) {
	if j.Part.IPv4 == "" || j.Object.Spec.IPv6 != nil && j.Part.IPv6 == "" {
		return nil, nil
	}
	ipv6 := j.Part.IPv6
	if j.Object.Spec.IPv6 == nil {
		ipv6 = ""
	}
	parts, err := parsePart(j.Part.IPv4, ipv6)
	if err != nil {
		return nil, fmt.Errorf("the node's part of network %s: %w", j.Part.Name, err)
	}
	return parts, nil
}
