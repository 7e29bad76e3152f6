// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// key is what a peer is known by.
type key struct {
	vni     uint32
	address netip.Addr
}

// plan is what shall be on one node.
type plan struct {
	peers map[key]control.Peer
	// parts are this node's, by network.
	parts map[string][]netip.Prefix
	// faults are why nodes are left out, by their names.
	faults map[string]error
}

func (p *plan) fault(node string, err error) { p.faults[node] = errors.Join(p.faults[node], err) }

// wanted plans for the node called own. A node of which nothing can be made is left out, and nothing else.
func wanted(own string, nodes []corev1.Node, networks []network.Network) plan {
	made := plan{map[key]control.Peer{}, map[string][]netip.Prefix{}, map[string]error{}}
	var described []network.Node
	for i := range nodes {
		described = append(described, describe(&nodes[i]))
	}
	unreachable := withoutAddress(described)
	for i := range nodes {
		if given := nodes[i].Annotations[network.AddressAnnotation]; given != "" && !described[i].Address.IsValid() {
			unreachable[nodes[i].Name] = fmt.Errorf("annotation %s: %q is no IPv4 address", network.AddressAnnotation, given)
		}
	}
	for _, n := range networks {
		assigned, faults := network.Assign(&n, described)
		for name, err := range faults {
			made.fault(name, fmt.Errorf("node %s has no part of network %s: %w", name, n.Name, err))
		}
		for _, node := range described {
			parts, has := assigned[node.Name]
			if !has {
				continue
			}
			if node.Name == own {
				made.parts[n.Name] = parts
			}
			if err := unreachable[node.Name]; err != nil {
				made.fault(node.Name, fmt.Errorf("node %s is not reached on network %s: %w", node.Name, n.Name, err))
			} else if node.Name != own {
				made.peers[key{n.VNI, node.Address}] = control.Peer{VNI: n.VNI, Address: node.Address, Subnets: parts}
			}
		}
	}
	return made
}

// tunnels are those of the networks that can go through Open vSwitch.
func (p *plan) tunnels(own netip.Addr, networks []network.Network) Tunnels {
	made := Tunnels{Own: own}
	for _, n := range networks {
		if p.parts[n.Name] == nil || n.VNI > overlay.MaxSwitchedVNI {
			continue
		}
		made.Networks, made.Port = append(made.Networks, n.VNI), n.Port
	}
	for at := range p.peers {
		if slices.Contains(made.Networks, at.vni) && !slices.Contains(made.Peers, at.address) {
			made.Peers = append(made.Peers, at.address)
		}
	}
	return made
}

// withoutAddress says why nodes have no tunnel's end. One address has one node, the oldest.
func withoutAddress(nodes []network.Node) map[string]error {
	faults, has := map[string]error{}, map[netip.Addr]string{}
	for _, node := range slices.SortedFunc(slices.Values(nodes), func(a, b network.Node) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	}) {
		other, known := has[node.Address]
		switch {
		case !node.Address.IsValid():
			faults[node.Name] = fmt.Errorf("it has no IPv4 InternalIP; annotate it with %s", network.AddressAnnotation)
		case known:
			faults[node.Name] = fmt.Errorf("its tunnel's address %s is node %s's; annotate it with another %s", node.Address, other, network.AddressAnnotation)
		default:
			has[node.Address] = node.Name
		}
	}
	return faults
}

// describe takes from a Node what counts.
func describe(node *corev1.Node) network.Node {
	described := network.Node{
		Name: node.Name, Created: node.CreationTimestamp.Time, Address: addressOf(node), Given: map[string]string{},
	}
	described.PodCIDR, _ = netip.ParsePrefix(node.Spec.PodCIDR) // stays invalid where there is none
	for name, value := range node.Annotations {
		if of, ok := strings.CutPrefix(name, network.RangeAnnotation); ok {
			described.Given[of] = value
		}
	}
	return described
}

func addressOf(node *corev1.Node) netip.Addr {
	if given := node.Annotations[network.AddressAnnotation]; given != "" {
		address, err := netip.ParseAddr(given)
		if err != nil || !address.Is4() {
			return netip.Addr{}
		}
		return address
	}
	for _, known := range node.Status.Addresses {
		address, err := netip.ParseAddr(known.Address)
		if known.Type == corev1.NodeInternalIP && err == nil && address.Is4() {
			return address
		}
	}
	return netip.Addr{}
}
