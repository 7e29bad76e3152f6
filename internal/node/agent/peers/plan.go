// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Planner returns the desired state of the node: FromNodes or FromCluster.
type Planner interface {
	plan(ctx context.Context) (*plan, error)
}

// key identifies a peer.
type key struct {
	vni     uint32
	address netip.Addr
}

// plan is the desired state of a node.
type plan struct {
	// node is the node itself.
	node     *corev1.Node
	networks []network.Network
	peers    map[key]control.Peer
	// parts are this node's subnets, by network.
	parts map[string][]netip.Prefix
	// faults are the reasons why nodes are skipped, by name.
	faults map[string]error
	// unsure are networks whose peers may not all be known, with the reason. Their existing peers stay.
	unsure map[uint32]error
	// unknown says which networks are not known, nil if all are. Existing peers of unknown networks stay.
	unknown error
}

func newPlan() *plan {
	return &plan{
		peers: map[key]control.Peer{}, parts: map[string][]netip.Prefix{}, faults: map[string]error{}, unsure: map[uint32]error{},
	}
}

// certain reports whether unplanned peers of a network are to be removed.
func (p *plan) certain(vni uint32) bool {
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

// problems returns why the plan is incomplete for this node.
func (p *plan) problems() error {
	all := []error{p.faults[p.node.Name], p.unknown}
	for i := range p.networks {
		all = append(all, p.unsure[p.networks[i].VNI])
	}
	return errors.Join(all...)
}

func (p *plan) addFault(node string, err error) { p.faults[node] = errors.Join(p.faults[node], err) }

// peerPort returns the port of a network's peers, 0 for the default: releases of ktsnd without it reject the field.
func peerPort(port uint16) uint16 {
	if port == network.DefaultPort {
		return 0
	}
	return port
}

// tunnels returns the tunnels of the networks that Open vSwitch can carry.
func (p *plan) tunnels(ownAddress netip.Addr) openvswitch.Tunnels {
	tunnels := openvswitch.Tunnels{Local: ownAddress, Networks: map[uint32]uint16{}}
	known := map[netip.Addr]bool{}
	for _, n := range p.networks {
		if p.parts[n.Name] == nil || n.VNI > overlay.MaxSwitchedVNI {
			continue
		}
		tunnels.Networks[n.VNI] = n.Port
	}
	for at := range p.peers {
		if tunnels.Networks[at.vni] != 0 && !known[at.address] {
			tunnels.Peers, known[at.address] = append(tunnels.Peers, at.address), true
		}
	}
	return tunnels
}
