// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Networks returns the networks of the node that have a tunnel.
func Networks(node *overlay.Node, stateDir string) ([]Network, error) {
	tunnels, err := node.Tunnels()
	if err != nil || len(tunnels) == 0 {
		return nil, err
	}
	peers, err := node.Peers()
	if err != nil {
		return nil, err
	}
	pods, err := attachment.PodAddresses(stateDir)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	name := func(index int) string {
		if _, known := names[index]; !known && index > 0 {
			names[index] = ""
			if link, err := netlink.LinkByIndex(index); err == nil {
				names[index] = link.Attrs().Name
			}
		}
		return names[index]
	}
	var all []Network
	for _, tunnel := range tunnels {
		vni := uint32(tunnel.VxlanId)
		local, _ := netip.AddrFromSlice(tunnel.SrcAddr)
		network := Network{
			Bridge: name(tunnel.MasterIndex), Tunnel: tunnel.Name, Uplink: name(tunnel.VtepDevIndex),
			Local: local.Unmap(), Port: uint16(tunnel.Port), Pod: pods[vni],
		}
		for i := range peers {
			if peers[i].VNI != vni {
				continue
			}
			peer := Peer{Address: peers[i].Address}
			for _, subnet := range peers[i].Subnets {
				if subnet.Addr().Is4() {
					peer.Pod = subnet.Addr().Next()
					break
				}
			}
			network.Peers = append(network.Peers, peer)
		}
		all = append(all, network)
	}
	return all, nil
}
