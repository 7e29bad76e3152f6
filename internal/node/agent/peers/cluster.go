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

// FromCluster plans by the operator's objects: the node's TSNNode, and the TSNPeers of its networks.
type FromCluster struct {
	// Nodes reads the agent's own Node.
	Nodes client.Reader
	// Node is the name of the node.
	Node string
	// State returns the node's objects.
	State func() network.Cluster
	// Encryption returns how a network is encrypted, nil if it is not to be; EncryptedPort is the port of encrypted
	// tunnels.
	Encryption    func(joined *network.Joined) *encryption.Verdict
	EncryptedPort uint16
}

func (f *FromCluster) plan(ctx context.Context) (*plan, error) {
	state := f.State()
	if state.Unknown != nil {
		return nil, state.Unknown
	}
	p := newPlan()
	p.node = &corev1.Node{}
	if err := f.Nodes.Get(ctx, types.NamespacedName{Name: f.Node}, p.node); err != nil {
		return nil, fmt.Errorf("get node %s: %w", f.Node, err)
	}
	for i := range state.Networks {
		if err := f.join(p, &state.Networks[i]); err != nil {
			p.unknown = errors.Join(p.unknown, err)
		}
	}
	return p, nil
}

// join adds a network of the node to the plan.
func (f *FromCluster) join(p *plan, joined *network.Joined) error {
	if joined.Object == nil {
		return fmt.Errorf("network %s is not known yet", joined.Part.Name)
	}
	net, err := joined.Network()
	if err != nil {
		return err
	}
	parts, err := joined.Subnets()
	if err != nil {
		return err
	}
	verdict := f.encrypt(&net, joined)
	uplink, err := network.UplinkOf(joined.Object, p.node)
	net.Uplink = uplink.Interface
	if err == nil && parts != nil && (verdict == nil || verdict.Unknown == "") { // otherwise the node's status has the reason; the peers are planned all the same
		p.parts[net.Name] = parts
	}
	p.networks = append(p.networks, net)
	if verdict != nil && verdict.Unknown != "" {
		p.unsure[net.VNI] = errors.New(verdict.Unknown)
		return nil
	}
	p.addPeers(net.VNI, joined, verdict)
	return nil
}

// encrypt sets the encryption of a network.
func (f *FromCluster) encrypt(net *network.Network, joined *network.Joined) *encryption.Verdict {
	if f.Encryption == nil {
		return nil
	}
	verdict := f.Encryption(joined)
	if verdict == nil {
		return nil
	}
	net.Overhead, net.Encrypted, net.Refused = xfrm.OverheadBytes, verdict.Active, verdict.Refused
	if verdict.Active {
		net.Port = f.EncryptedPort
	}
	return verdict
}

// addPeers plans the peers of a network. If several nodes have the same address, the first counts. Peers of an
// encrypted network are the nodes to which frames can be encrypted, with the subnets that their clusters have signed,
// even if the objects have others now.
func (p *plan) addPeers(vni uint32, joined *network.Joined, verdict *encryption.Verdict) {
	present := false
	for _, shard := range joined.Shards {
		for _, member := range shard {
			at := key{vni, member.Address}
			trusted := trustedPeer(verdict, &member)
			if trusted != nil {
				member.Subnets = trusted.Subnets
			}
			if err := p.validatePeer(joined, &member); err != nil {
				p.addFault(member.Cluster+"/"+member.Node, err)
				continue
			}
			if member.Cluster == "" && member.Node == p.node.Name {
				present = true
			} else if _, known := p.peers[at]; !known && (verdict == nil || !verdict.Active || trusted != nil) {
				p.peers[at] = control.Peer{VNI: vni, Address: member.Address, Subnets: member.Subnets, Port: peerPort(joined.Object.Spec.TunnelPort())}
			}
		}
	}
	switch {
	case joined.Shards == nil:
		p.unsure[vni] = fmt.Errorf("the nodes of network %s are not known yet", joined.Part.Name)
	case !present:
		p.unsure[vni] = fmt.Errorf("the other nodes of network %s do not know this one; see the Events of the Node, unless its subnet is new", joined.Part.Name)
	}
}

// trustedPeer returns the statement that a node's cluster has signed, nil if there is none or the network is not
// encrypted.
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
	if member.Cluster == "" && member.Node == p.node.Name {
		return nil
	}
	err := joined.ValidateSubnets(member)
	if ownAddress, _ := tsnnetwork.TunnelAddress(p.node); err == nil && ownAddress == member.Address {
		err = fmt.Errorf("its address %s is that of this node", ownAddress)
	}
	switch {
	case err == nil:
		return nil
	case member.Cluster == "":
		return fmt.Errorf("node %s cannot be a peer: %w", member.Node, err)
	}
	return fmt.Errorf("a node of cluster %s cannot be a peer: %w", member.Cluster, err)
}
