// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// openAlias is the alias of a bridge of this package through which pods may reach the node.
const openAlias = "tsn-cni:1 node-access"

// Guard restores the filter that keeps foreign packets out of the tunnels and pods off the node, and returns what was
// wrong.
func (n *Node) Guard(ctx context.Context) (changed []string, err error) {
	unlock, err := n.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	wanted, err := n.guarded()
	if err != nil {
		return nil, err
	}
	changed, err = n.apply(wanted)
	return changed, explainGuard(err)
}

// guard is Guard with the lock held.
func (n *Node) guard() error {
	peers, err := n.readPeers()
	if err != nil {
		return err
	}
	return n.guardFor(peers)
}

// guardFor updates the filter, and the program for receive rings, for the node's devices and these peers. The lock is
// held.
func (n *Node) guardFor(peers []control.Peer) error {
	wanted, err := n.guardedWith(peers)
	if err != nil {
		return err
	}
	if _, err = n.apply(wanted); err != nil {
		return explainGuard(err)
	}
	return n.setReceivePeersOrDetach(peers)
}

func explainGuard(err error) error {
	if errors.Is(err, filter.ErrMissing) {
		return failed(NoFilter, "%w", err)
	}
	return err
}

// checkGuard returns what is wrong with the filter.
func (n *Node) checkGuard(ctx context.Context) error {
	unlock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	wanted, err := n.guarded()
	if err != nil {
		return err
	}
	return explainGuard(filter.Check(wanted))
}

// guarded returns the filter's desired contents.
func (n *Node) guarded() (*filter.Wanted, error) {
	peers, err := n.readPeers()
	if err != nil {
		return nil, err
	}
	return n.guardedWith(peers)
}

// guardedWith is guarded with other peers. It leaves out bridges and tunnels that others made.
func (n *Node) guardedWith(peers []control.Peer) (*filter.Wanted, error) {
	wanted := &filter.Wanted{Peers: peers}
	bridges, err := listLinks(choice{kind: "bridge"})
	if err != nil {
		return nil, err
	}
	open, sealed := map[int]bool{}, map[int]bool{}
	for _, bridge := range bridges {
		switch {
		case ours(bridge) && bridge.Attrs().Alias == sealAlias: // closed by itself
			sealed[bridge.Attrs().Index] = true
		case ours(bridge) && bridge.Attrs().Alias != openAlias:
			wanted.Closed = append(wanted.Closed, bridge.Attrs().Name)
		default:
			open[bridge.Attrs().Index] = true
		}
	}
	tunnels, err := ownTunnels()
	if err != nil {
		return nil, err
	}
	for _, tunnel := range tunnels {
		if !sealed[tunnel.MasterIndex] {
			wanted.Tunnels = append(wanted.Tunnels, filterTunnel(tunnel, open[tunnel.MasterIndex]))
			continue
		}
		peer, err := n.linkPeer(uint32(tunnel.VxlanId))
		if err != nil {
			return nil, err
		}
		wanted.Links = append(wanted.Links, *linkOf(tunnel, peer))
	}
	return wanted, nil
}

func filterTunnel(tunnel *netlink.Vxlan, open bool) filter.Tunnel {
	return filter.Tunnel{
		VNI: uint32(tunnel.VxlanId), Port: uint16(tunnel.Port), Uplink: tunnel.VtepDevIndex, Open: open, Encrypted: encrypted(tunnel),
	}
}

// closeOff closes the network's bridge to the node, or opens it, and updates the filter for it and for the tunnel. The
// lock is held.
func (n *Node) closeOff(network *Network, have devices) error {
	switch {
	case !ours(have.bridge):
	case network.PointToPoint:
		if err := n.seal(have.bridge); err != nil {
			return err
		}
		if have.tunnel != nil && ours(have.tunnel) {
			err := n.openLink(network, have.tunnel)
			fault.Point("network-guarded")
			return err
		}
	default:
		if err := n.setAccess(have.bridge, network.NodeAccess); err != nil {
			return err
		}
	}
	if err := n.guard(); err != nil {
		return err
	}
	fault.Point("network-guarded")
	return nil
}

func (n *Node) setAccess(bridge *netlink.Bridge, open bool) error {
	// 8: the node answers no ARP request here, even while the filter is missing.
	alias, ignore := "", "8"
	if open {
		alias, ignore = openAlias, "0"
	}
	if err := setting("ipv4", bridge.Name, "arp_ignore", ignore); err != nil {
		return fmt.Errorf("set what %s answers: %w", bridge.Name, err)
	}
	if bridge.Alias == alias {
		return nil
	}
	if err := n.kernel.LinkSetAlias(bridge, alias); err != nil {
		return fmt.Errorf("set the alias of %s: %w", bridge.Name, err)
	}
	bridge.Alias = alias
	return nil
}

// Dropped lists the packets that the filter has dropped; none where there is no filter.
type Dropped = filter.Counter

// Dropped lists them; none where there is no filter.
func (n *Node) Dropped() ([]Dropped, error) {
	dropped, err := filter.Counters()
	return dropped, explainGuard(err)
}
