// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Planner says what shall be on the node: FromNodes or FromCluster.
type Planner interface {
	plan(ctx context.Context) (*plan, error)
}

// key is what a peer is known by.
type key struct {
	vni     uint32
	address netip.Addr
}

// plan is what shall be on one node.
type plan struct {
	// own is the node itself.
	own      *corev1.Node
	networks []network.Network
	peers    map[key]control.Peer
	// parts are this node's, by network.
	parts map[string][]netip.Prefix
	// faults are why nodes are left out, by their names.
	faults map[string]error
	// unsure are networks of which not all peers may be known, and why. What is in force of them stays.
	unsure map[uint32]error
	// unknown says which networks are not known at all, nil where all are. What is in force and of no known network may be theirs.
	unknown error
}

func newPlan() *plan {
	return &plan{
		peers: map[key]control.Peer{}, parts: map[string][]netip.Prefix{}, faults: map[string]error{}, unsure: map[uint32]error{},
	}
}

// sure tells whether all that is in force of a network and not planned is to go.
func (p *plan) sure(vni uint32) bool {
	if p.unsure[vni] != nil {
		return false
	}
	for i := range p.networks {
		if p.networks[i].VNI == vni {
			return true
		}
	}
	return p.unknown == nil
}

// trouble is why the node does not have all that it shall have.
func (p *plan) trouble() error {
	all := []error{p.faults[p.own.Name], p.unknown}
	for i := range p.networks {
		all = append(all, p.unsure[p.networks[i].VNI])
	}
	return errors.Join(all...)
}

func (p *plan) fault(node string, err error) { p.faults[node] = errors.Join(p.faults[node], err) }

// tunnels are those of the networks that can go through Open vSwitch.
func (p *plan) tunnels(ownAddress netip.Addr) Tunnels {
	tunnels := Tunnels{Local: ownAddress}
	carried, known := map[uint32]bool{}, map[netip.Addr]bool{}
	for _, n := range p.networks {
		if p.parts[n.Name] == nil || n.VNI > overlay.MaxSwitchedVNI {
			continue
		}
		tunnels.Networks, tunnels.Port = append(tunnels.Networks, n.VNI), n.Port
		carried[n.VNI] = true
	}
	for at := range p.peers {
		if carried[at.vni] && !known[at.address] {
			tunnels.Peers, known[at.address] = append(tunnels.Peers, at.address), true
		}
	}
	return tunnels
}
