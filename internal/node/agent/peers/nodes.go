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

// FromNodes plans by the Nodes of a cluster: each has subnets of the networks, which follow from all Nodes.
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
	index := slices.IndexFunc(nodes.Items, func(node corev1.Node) bool { return node.Name == f.Node })
	if index < 0 {
		return nil, fmt.Errorf("no node %s among %d", f.Node, len(nodes.Items))
	}
	p := planFor(f.Node, nodes.Items, networks)
	p.node, p.networks = &nodes.Items[index], networks
	return p, nil
}

// planFor plans for a node. Nodes with a fault are skipped.
func planFor(nodeName string, nodes []corev1.Node, networks []network.Network) *plan {
	p := newPlan()
	var described []network.Node
	for i := range nodes {
		described = append(described, describe(&nodes[i]))
	}
	addresses, unreachable := tsnnetwork.TunnelAddresses(nodes, nil)
	for _, n := range networks {
		assigned, faults := network.Assign(&n, described)
		for name, err := range faults {
			p.addFault(name, fmt.Errorf("node %s has no subnet of network %s: %w", name, n.Name, err))
		}
		for _, node := range described {
			parts, has := assigned[node.Name]
			if !has {
				continue
			}
			if node.Name == nodeName {
				p.parts[n.Name] = parts
			}
			if err := unreachable[node.Name]; err != nil {
				p.addFault(node.Name, fmt.Errorf("node %s is unreachable on network %s: %w", node.Name, n.Name, err))
			} else if node.Name != nodeName {
				address := addresses[node.Name]
				p.peers[key{n.VNI, address}] = control.Peer{VNI: n.VNI, Address: address, Subnets: parts, Port: peerPort(n.Port)}
			}
		}
	}
	return p
}

// describe returns the properties of a Node that determine its subnets.
func describe(node *corev1.Node) network.Node {
	described := network.Node{Name: node.Name, Created: node.CreationTimestamp.Time, Assigned: map[string]string{}}
	described.PodCIDR, _ = netip.ParsePrefix(node.Spec.PodCIDR) // stays invalid without one
	for name, value := range node.Annotations {
		if networkName, ok := strings.CutPrefix(name, network.RangeAnnotation); ok {
			described.Assigned[networkName] = value
		}
	}
	return described
}
