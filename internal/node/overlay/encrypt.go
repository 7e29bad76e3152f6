// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
)

// EncryptedPort is the default UDP port of the tunnels of encrypted networks. The kernel distinguishes them from others
// by it.
const EncryptedPort = v1alpha1.DefaultEncryptedPort

// encryptedAlias is the alias of a tunnel of this package whose packets are encrypted.
const encryptedAlias = "tsn-cni:1 encrypted"

// protect makes the kernel drop clear packets from and to tunnels on a port.
func protect(port uint16) error {
	kernel, err := xfrm.Open(port)
	if err != nil {
		return err
	}
	defer kernel.Close()
	return kernel.Protect()
}

// protectPort must run before a tunnel of an encrypted network can send anything.
func (n *Node) protectPort(network *Network) error {
	if !network.Encrypted {
		return nil
	}
	err := n.protect(network.Port)
	if errors.Is(err, xfrm.ErrUnavailable) {
		return failed(NoEncryption, "network %d is encrypted: %w", network.VNI, err)
	}
	return err
}

func (n *Node) markEncrypted(network *Network, tunnel *netlink.Vxlan) error {
	if !network.Encrypted || encrypted(tunnel) {
		return nil
	}
	if err := n.kernel.LinkSetAlias(tunnel, encryptedAlias); err != nil {
		return fmt.Errorf("set the alias of %s: %w", tunnel.Name, err)
	}
	tunnel.Alias = encryptedAlias
	return nil
}

func encrypted(tunnel *netlink.Vxlan) bool { return tunnel.Alias == encryptedAlias }

// Egress is the device through which a network's frames leave the node.
type Egress struct {
	Name string
	// Encrypted: frames leave encrypted or not at all. It applies to the tunnel of the network VNI.
	Encrypted bool
	VNI       uint32
}

// Egresses returns the finished egresses of this node. For networks without a finished one it is unknown whether they
// are encrypted.
func (n *Node) Egresses() ([]Egress, error) {
	links, err := listLinks(choice{})
	if err != nil {
		return nil, err
	}
	var all []Egress
	for _, link := range links {
		tunnel, ok := link.(*netlink.Vxlan)
		switch {
		case leadsIntoSwitch(link), ok && !ours(link), ok && !encrypted(tunnel) && isUp(link):
			all = append(all, Egress{Name: link.Attrs().Name})
		case ok && encrypted(tunnel):
			all = append(all, Egress{Name: tunnel.Name, Encrypted: true, VNI: uint32(tunnel.VxlanId)})
		}
	}
	return all, nil
}

// IsEncrypted tells whether a tunnel is one of this package whose packets are encrypted.
func IsEncrypted(tunnel *netlink.Vxlan) bool { return ours(tunnel) && encrypted(tunnel) }

// IsEncrypted tells whether there is a tunnel of this package of a name, whose packets are encrypted.
func (n *Node) IsEncrypted(name string) (bool, error) {
	link, err := n.link(name)
	tunnel, ok := link.(*netlink.Vxlan)
	return ok && IsEncrypted(tunnel), err
}

// sendsInClear reports whether this node has another port of the link with a finished tunnel that is not encrypted.
func (n *Node) sendsInClear(network *Network) (bool, error) {
	link, err := n.link(network.Tunnel)
	tunnel, ok := link.(*netlink.Vxlan)
	return ok && !encrypted(tunnel) && isUp(tunnel), err
}

// forgetEncryption makes ktsnd forget that a link was encrypted. The lock is held.
func forgetEncryption(ctx context.Context, network *Network, timed TimedLinks) error {
	if !network.Encrypted || timed == nil {
		return nil
	}
	return timed.Encrypt(ctx, network.VNI, false)
}

// Tuning is the desired tunnel of a network.
type Tuning struct {
	VNI       uint32
	Port      uint16
	Encrypted bool
	// MTU is the maximum for bridge and tunnel, in bytes, 0 for no change.
	MTU int
}

// Retune adapts existing tunnels and returns the networks whose tunnel was replaced. The kernel cannot change a
// tunnel's port, so frames are lost while it is replaced; an encrypted network sends none of them in clear.
func (n *Node) Retune(ctx context.Context, wanted []Tuning, timed Timed) (changed []uint32, err error) {
	unlock, err := n.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	tunnels, err := ownTunnels()
	if err != nil {
		return nil, err
	}
	byVNI := map[uint32]*netlink.Vxlan{}
	for _, tunnel := range tunnels {
		byVNI[uint32(tunnel.VxlanId)] = tunnel
	}
	var all error
	for i := range wanted {
		want, tunnel := &wanted[i], byVNI[wanted[i].VNI]
		done, err := n.retuneOne(ctx, tunnel, want, timed)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("make the tunnel of network %d anew: %w", want.VNI, err))
			continue
		}
		if done {
			changed = append(changed, want.VNI)
		}
	}
	return changed, all
}

// retuneOne recreates a tunnel that differs, or that is missing because a process was killed while it replaced it.
func (n *Node) retuneOne(ctx context.Context, tunnel *netlink.Vxlan, want *Tuning, timed Timed) (done bool, err error) {
	if tunnel != nil {
		if !differs(tunnel, want) {
			return false, nil
		}
		return true, n.retune(tunnel, want)
	}
	bridge, err := n.link(BridgeName(want.VNI))
	if err != nil || bridge == nil || !ours(bridge) {
		return false, err
	}
	network := &Network{
		VNI: want.VNI, Bridge: BridgeName(want.VNI), Tunnel: TunnelName(want.VNI), Port: want.Port, MTU: bridge.Attrs().MTU, Encrypted: want.Encrypted,
		NodeAccess: bridge.Attrs().Alias == openAlias,
	}
	have, err := n.find(network)
	if err != nil || have.switched != nil || have.tunnel != nil {
		return false, err
	}
	_, err = n.ensure(ctx, network, timed)
	return err == nil, err
}

func differs(tunnel *netlink.Vxlan, want *Tuning) bool {
	return tunnel.Port != int(want.Port) || encrypted(tunnel) != want.Encrypted || want.MTU > 0 && tunnel.MTU > want.MTU
}

// retune recreates a tunnel.
func (n *Node) retune(tunnel *netlink.Vxlan, want *Tuning) error {
	network := &Network{VNI: want.VNI, Tunnel: tunnel.Name, Port: want.Port, MTU: tunnel.MTU, Encrypted: want.Encrypted}
	if want.MTU > 0 {
		network.MTU = min(network.MTU, want.MTU)
	}
	if err := n.protectPort(network); err != nil {
		return err
	}
	master, err := n.kernel.LinkByIndex(tunnel.MasterIndex)
	if err != nil {
		return fmt.Errorf("look for the bridge of %s: %w", tunnel.Name, err)
	}
	bridge, ok := master.(*netlink.Bridge)
	if !ok {
		return fmt.Errorf("%s is no port of a bridge", tunnel.Name)
	}
	network.Bridge, network.NodeAccess = bridge.Name, bridge.Alias == openAlias
	if want.Encrypted {
		// The program at the uplink would take clear datagrams until the tunnel is encrypted, which may fail.
		peers, err := n.readPeers()
		if err != nil {
			return err
		}
		if err := n.setReceivePeersOrDetach(peers, want.VNI); err != nil {
			return err
		}
	}
	if err := n.remove(tunnel); err != nil {
		return err
	}
	fault.Point("tunnel-retuned")
	address, _ := netip.AddrFromSlice(tunnel.SrcAddr.To4())
	recreated, err := n.makeTunnel(network, &uplinkDevice{index: tunnel.VtepDevIndex, address: address})
	if err != nil {
		return err
	}
	if ours(bridge) && bridge.MTU > network.MTU {
		if err := n.kernel.LinkSetMTU(bridge, network.MTU); err != nil {
			return fmt.Errorf("set the MTU of %s: %w", bridge.Name, err)
		}
	}
	return n.complete(network, devices{bridge: bridge, tunnel: recreated})
}
