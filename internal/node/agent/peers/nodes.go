// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// FromNodes plans by the Nodes of a cluster, each of which has parts of the networks that follow from all Nodes.
type FromNodes struct {
	Nodes    client.Reader
	Networks network.Source
	// Node is the name of the agent's node.
	Node string
}

func (f *FromNodes) plan(ctx context.Context) (*plan, error) {
	networks, err := f.Networks.Networks(ctx)
	if err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := f.Nodes.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	own := slices.IndexFunc(nodes.Items, func(node corev1.Node) bool { return node.Name == f.Node })
	if own < 0 {
		return nil, fmt.Errorf("there is no node %s among %d", f.Node, len(nodes.Items))
	}
	made := wanted(f.Node, nodes.Items, networks)
	made.own, made.networks = &nodes.Items[own], networks
	return made, nil
}

// wanted plans for the node called own. A node of which nothing can be made is left out, and nothing else.
func wanted(own string, nodes []corev1.Node, networks []network.Network) *plan {
	made := newPlan()
	var described []network.Node
	for i := range nodes {
		described = append(described, describe(&nodes[i]))
	}
	addresses, unreachable := tsnnetwork.TunnelAddresses(nodes, nil)
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
