// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
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
	addresses, unreachable := tsnnetwork.TunnelAddresses(nodes)
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
				address := addresses[node.Name]
				made.peers[key{n.VNI, address}] = control.Peer{VNI: n.VNI, Address: address, Subnets: parts}
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

// describe takes from a Node what counts.
func describe(node *corev1.Node) network.Node {
	described := network.Node{Name: node.Name, Created: node.CreationTimestamp.Time, Given: map[string]string{}}
	described.PodCIDR, _ = netip.ParsePrefix(node.Spec.PodCIDR) // stays invalid where there is none
	for name, value := range node.Annotations {
		if of, ok := strings.CutPrefix(name, network.RangeAnnotation); ok {
			described.Given[of] = value
		}
	}
	return described
}
