// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// FromCluster plans by what the operator has written: the node's TSNNode, and the TSNPeers of its networks.
type FromCluster struct {
	// Nodes gives the agent's own Node.
	Nodes client.Reader
	// Node is its name.
	Node string
	// State is what the API server has said.
	State func() network.Cluster
	// Encryption says how a network is encrypted, nil where it is not to be; EncryptedPort is the port of the tunnels of those that are.
	Encryption    func(joined *network.Joined) *encryption.Verdict
	EncryptedPort uint16
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
		if err := f.join(made, &state.Networks[i]); err != nil {
			made.unknown = errors.Join(made.unknown, err)
		}
	}
	return made, nil
}

// join plans for a network of the node's.
func (f *FromCluster) join(p *plan, joined *network.Joined) error {
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
	verdict := f.encrypt(&made, joined)
	uplink, err := network.UplinkOf(joined.Object, p.own)
	made.Uplink = uplink.Interface
	if err == nil && parts != nil && (verdict == nil || verdict.Unknown == "") { // else the node's state says why; its peers are those of the network nevertheless
		p.parts[made.Name] = parts
	}
	p.networks = append(p.networks, made)
	if verdict != nil && verdict.Unknown != "" {
		p.unsure[made.VNI] = errors.New(verdict.Unknown)
		return nil
	}
	p.meet(made.VNI, joined, verdict)
	return nil
}

// encrypt says in a network how it is encrypted.
func (f *FromCluster) encrypt(made *network.Network, joined *network.Joined) *encryption.Verdict {
	if f.Encryption == nil {
		return nil
	}
	verdict := f.Encryption(joined)
	if verdict == nil {
		return nil
	}
	made.Overhead, made.Encrypted, made.Refused = xfrm.OverheadBytes, verdict.Active, verdict.Refused
	if verdict.Active {
		made.Port = f.EncryptedPort
	}
	return verdict
}

// meet plans the peers of a network. Of several nodes with one address the first is planned. Peers of an encrypted network are nodes to which
// frames can be encrypted, with the subnets that their clusters have signed, also if the objects have others now.
func (p *plan) meet(vni uint32, joined *network.Joined, verdict *encryption.Verdict) {
	present := false
	for _, shard := range joined.Shards {
		for _, member := range shard {
			at := key{vni, member.Address}
			trusted := trustedPeer(verdict, &member)
			if trusted != nil {
				member.Subnets = trusted.Subnets
			}
			if err := p.validatePeer(joined, &member); err != nil {
				p.fault(member.Cluster+"/"+member.Node, err)
				continue
			}
			if member.Cluster == "" && member.Node == p.own.Name {
				present = true
			} else if _, known := p.peers[at]; !known && (verdict == nil || !verdict.Active || trusted != nil) {
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

// trustedPeer returns the statement that a node's cluster has signed, nil if there is none or the network's frames are not encrypted.
func trustedPeer(verdict *encryption.Verdict, member *network.Member) *encryption.Trusted {
	if verdict == nil || !verdict.Active {
		return nil
	}
	trusted := verdict.Peers[member.Address]
	if trusted == nil || trusted.Name != member.Node || trusted.Cluster != member.Cluster {
		return nil
	}
	return trusted
}

// validatePeer returns why a node cannot be a peer, nil if it can.
func (p *plan) validatePeer(joined *network.Joined, member *network.Member) error {
	if member.Cluster == "" && member.Node == p.own.Name {
		return nil
	}
	err := joined.Trespasses(member)
	if ownAddress, _ := tsnnetwork.TunnelAddress(p.own); err == nil && ownAddress == member.Address {
		err = fmt.Errorf("its address %s is this node's", ownAddress)
	}
	switch {
	case err == nil:
		return nil
	case member.Cluster == "":
		return fmt.Errorf("node %s is no peer: %w", member.Node, err)
	}
	return fmt.Errorf("a node of cluster %s is no peer: %w", member.Cluster, err)
}
