// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/control"
)

// AddressAnnotation is the annotation of a Node whose tunnel ends at another address than its InternalIP.
const AddressAnnotation = "kubernetsn.io/tunnel-address"

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
}

// wanted plans for the node called own. What cannot be had is in the error; the plan holds the rest.
func wanted(own string, nodes []corev1.Node, networks []network.Network) (plan, error) {
	made := plan{map[key]control.Peer{}, map[string][]netip.Prefix{}}
	var described []network.Node
	for i := range nodes {
		described = append(described, describe(&nodes[i]))
	}
	var all error
	for _, n := range networks {
		assigned, err := network.Assign(&n, described)
		all = errors.Join(all, err)
		for _, node := range described {
			parts, has := assigned[node.Name]
			switch {
			case !has:
			case node.Name == own:
				made.parts[n.Name] = parts
			case !node.Address.IsValid():
				all = errors.Join(all, fmt.Errorf("node %s has no IPv4 InternalIP; annotate it with %s", node.Name, AddressAnnotation))
			default:
				// ktsnd serves IPv4; the tunnel floods to the node for other families as well.
				made.peers[key{n.VNI, node.Address}] = control.Peer{VNI: n.VNI, Address: node.Address, Subnets: parts[:1]}
			}
		}
	}
	return made, all
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
	if given := node.Annotations[AddressAnnotation]; given != "" {
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
