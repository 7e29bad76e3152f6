// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// FromCluster plans by what the operator has written: the node's TSNNode, and the TSNPeers of its networks.
type FromCluster struct {
	// Nodes gives the agent's own Node.
	Nodes client.Reader
	// Node is its name.
	Node string
	// State is what the API server has said.
	State func() network.Cluster
}

func (f *FromCluster) plan(ctx context.Context) (*plan, error) {
	state := f.State()
	if state.Unknown != nil {
		return nil, state.Unknown
	}
	made := newPlan()
	made.own = &corev1.Node{}
	if err := f.Nodes.Get(ctx, types.NamespacedName{Name: f.Node}, made.own); err != nil {
		return nil, fmt.Errorf("look at node %s: %w", f.Node, err)
	}
	for i := range state.Networks {
		if err := made.join(&state.Networks[i]); err != nil {
			made.unknown = errors.Join(made.unknown, err)
		}
	}
	return made, nil
}

// join plans for a network of the node's.
func (p *plan) join(joined *network.Joined) error {
	if joined.Object == nil {
		return fmt.Errorf("the API server has not said yet what network %s is", joined.Part.Name)
	}
	made, err := joined.Network()
	if err != nil {
		return err
	}
	parts, err := joined.Parts()
	if err != nil {
		return err
	}
	uplink, err := network.UplinkOf(joined.Object, p.own)
	made.Uplink = uplink.Interface
	if err == nil && parts != nil { // else the node's state says why; its peers are those of the network nevertheless
		p.parts[made.Name] = parts
	}
	p.networks = append(p.networks, made)
	p.meet(made.VNI, joined)
	return nil
}

// meet plans the peers of a network. The first one of an address counts.
func (p *plan) meet(vni uint32, joined *network.Joined) {
	present := false
	for _, shard := range joined.Shards {
		for _, member := range shard {
			at := key{vni, member.Address}
			if member.Node == p.own.Name {
				present = true
			} else if _, known := p.peers[at]; !known {
				p.peers[at] = control.Peer{VNI: vni, Address: member.Address, Subnets: member.Subnets}
			}
		}
	}
	switch {
	case joined.Shards == nil:
		p.unsure[vni] = fmt.Errorf("the API server has not said yet which nodes are on network %s", joined.Part.Name)
	case !present:
		p.unsure[vni] = fmt.Errorf("the other nodes of network %s are not told of this one; Events of the Node say why, unless its part is new",
			joined.Part.Name)
	}
}
