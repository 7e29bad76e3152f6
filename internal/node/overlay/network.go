// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// ensure makes missing devices of a network and returns its devices. The lock is held. The tunnel is set up last, so
// that a tunnel of this package that is down is known to be unfinished.
func (n *Node) ensure(ctx context.Context, network *Network, timed Timed) (have devices, err error) {
	have, err = n.find(network)
	if err == nil {
		have, err = n.finishLeaving(network, have)
	}
	if err != nil {
		return have, err
	}
	if have.switched != nil {
		return n.ensureSwitched(ctx, network, have, timed)
	}
	// An existing network does without an uplink that is away for a moment.
	uplink, errUplink := n.resolveUplink(ctx, network, timed)
	if errUplink == nil {
		have, err = n.removeStale(network, have, uplink, timed)
	}
	if err != nil {
		return have, err
	}
	if have.complete() {
		if err := n.fits(network, have); err != nil {
			return have, err
		}
		if err := n.protectPort(network); err != nil {
			return have, err
		}
		if ours(have.tunnel) {
			if _, err := n.keepReserved(have.tunnel); err != nil {
				return have, err
			}
		}
		return have, n.closeOff(network, have)
	}
	if errUplink != nil {
		return have, errUplink
	}
	created := devices{}
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, n.unmake(created), n.guard())
		}
	}()
	if have.bridge == nil {
		if have.bridge, err = n.makeBridge(network, uplink); err != nil {
			return have, err
		}
		created.bridge = have.bridge
	}
	fault.Point("bridge-made")
	if err := n.protectPort(network); err != nil {
		return have, err
	}
	if have.tunnel == nil {
		if have.tunnel, err = n.makeTunnel(network, uplink); err != nil {
			return have, err
		}
		created.tunnel = have.tunnel
	}
	fault.Point("tunnel-made")
	if err := n.complete(network, have); err != nil {
		return have, err
	}
	success = true
	return have, nil
}

// fits checks that existing devices are those that the network requires.
func (n *Node) fits(network *Network, have devices) error {
	tunnel := have.tunnel
	if tunnel.VxlanId != int(network.VNI) {
		return failed(Foreign, "%s carries network %d, not %d; give each network a bridge and tunnel of its own",
			network.Tunnel, tunnel.VxlanId, network.VNI)
	}
	if tunnel.MasterIndex != have.bridge.Index {
		return failed(Foreign, "%s is not a port of %s; give each network a bridge and tunnel of its own",
			network.Tunnel, network.Bridge)
	}
	if tunnel.Port != int(network.Port) {
		return failed(Foreign, "%s uses UDP port %d, not %d; remove the pods of this network first to change it",
			network.Tunnel, tunnel.Port, network.Port)
	}
	if network.MTU > tunnel.MTU {
		return failed(TooLarge, "an MTU of %d does not fit: %s carries %d bytes", network.MTU, network.Tunnel, tunnel.MTU)
	}
	if network.Uplink == "" {
		return nil
	}
	uplink, err := n.link(network.Uplink)
	if err != nil {
		return err
	}
	if uplink == nil || uplink.Attrs().Index != tunnel.VtepDevIndex {
		return failed(Foreign, "%s leads through another interface than %s; remove the pods of this network first to change it",
			network.Tunnel, network.Uplink)
	}
	return nil
}

func (n *Node) makeBridge(network *Network, uplink *uplinkDevice) (*netlink.Bridge, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = network.Bridge
	attributes.Group = LinkGroup
	attributes.MTU = network.mtu(uplink)
	// Left to the kernel, the bridge's address changes with its ports.
	attributes.HardwareAddr = randomHardwareAddress()
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := n.kernel.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make bridge %s: %w", network.Bridge, err)
	}
	return bridge, nil
}

func randomHardwareAddress() net.HardwareAddr {
	address := make(net.HardwareAddr, 6)
	_, _ = rand.Read(address) // never fails
	address[0] = address[0]&^1 | 2
	return address
}

func (n *Node) makeTunnel(network *Network, uplink *uplinkDevice) (*netlink.Vxlan, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = network.Tunnel
	attributes.Group = LinkGroup
	attributes.MTU = network.mtu(uplink)
	tunnel := &netlink.Vxlan{
		LinkAttrs:    attributes,
		VxlanId:      int(network.VNI),
		VtepDevIndex: uplink.index,
		SrcAddr:      net.IP(uplink.address.AsSlice()),
		Port:         int(network.Port),
		Learning:     !network.PointToPoint,
	}
	if err := n.kernel.LinkAdd(tunnel); err != nil {
		if errors.Is(err, errExist) {
			return nil, failed(Foreign, "make VXLAN device %s: another one carries network %d on UDP port %d already; name it as the tunnel, or choose another vni",
				network.Tunnel, network.VNI, network.Port)
		}
		return nil, fmt.Errorf("make VXLAN device %s: %w", network.Tunnel, err)
	}
	return tunnel, nil
}

// complete configures the devices. Each step can be repeated.
func (n *Node) complete(network *Network, have devices) error {
	if ours(have.bridge) {
		if err := withoutIPv6(network.Bridge); err != nil {
			return err
		}
	}
	if ours(have.tunnel) {
		if err := n.completeTunnel(network, have); err != nil {
			return err
		}
	}
	if err := n.closeOff(network, have); err != nil {
		return err
	}
	for _, link := range []netlink.Link{have.bridge, have.tunnel} {
		err := n.kernel.LinkSetUp(link)
		if errors.Is(err, unix.EADDRINUSE) {
			return n.portTaken(network)
		}
		if err != nil {
			return fmt.Errorf("set %s up: %w", link.Attrs().Name, err)
		}
	}
	return n.fits(network, have)
}

// portTaken returns the error of a tunnel whose UDP port is in use, and names the device or how to find the program.
func (n *Node) portTaken(network *Network) error {
	tunnels, err := listTunnels()
	if err != nil {
		return err
	}
	for _, tunnel := range tunnels {
		if tunnel.Port == int(network.Port) && tunnel.Name != network.Tunnel && isUp(tunnel) && !ours(tunnel) {
			return failed(Foreign, "set %s up: the VXLAN device %s takes all packets to UDP port %d; remove it, or give the network another port",
				network.Tunnel, tunnel.Name, network.Port)
		}
	}
	return failed(Foreign, "set %s up: another program or device uses UDP port %d, and `ss -lunp sport = :%[2]d` names a program; end it, or give the network another port",
		network.Tunnel, network.Port)
}

func (n *Node) completeTunnel(network *Network, have devices) error {
	if err := withoutIPv6(network.Tunnel); err != nil {
		return err
	}
	if err := n.markEncrypted(network, have.tunnel); err != nil {
		return err
	}
	if err := n.kernel.LinkSetMaster(have.tunnel, have.bridge); err != nil {
		return fmt.Errorf("add %s to bridge %s: %w", network.Tunnel, network.Bridge, err)
	}
	have.tunnel.MasterIndex = have.bridge.Index
	if _, err := n.keepReserved(have.tunnel); err != nil {
		return err
	}
	if network.PointToPoint {
		if err := n.kernel.LinkSetLearning(have.tunnel, false); err != nil {
			return fmt.Errorf("keep bridge port %s from learning: %w", network.Tunnel, err)
		}
	}
	peers, err := n.peersOf(network)
	if err != nil {
		return err
	}
	for _, peer := range peers {
		if err := n.flood(have.tunnel, peer.Address); err != nil {
			return err
		}
	}
	return nil
}

// unmake removes devices that were just created; nil stands for none.
func (n *Node) unmake(created devices) error {
	var err error
	if created.tunnel != nil {
		err = n.remove(created.tunnel)
	}
	if created.bridge != nil {
		err = errors.Join(err, n.remove(created.bridge))
	}
	return err
}

// remove removes a device. A device that is already gone is not an error.
func (n *Node) remove(link netlink.Link) error {
	err := n.kernel.LinkDel(link)
	if err == nil || errors.Is(err, errNoDevice) {
		return nil
	}
	return fmt.Errorf("remove %s: %w", link.Attrs().Name, err)
}

// clear removes the network's devices of this package when no pod uses them. The lock is held.
func (n *Node) clear(network *Network) error {
	unused, err := n.unused(network)
	if err == nil {
		err = n.leaveNetwork(unused)
	}
	if err == nil && unused != (devices{}) {
		err = n.removeLeaving()
	}
	if err != nil {
		return err
	}
	return n.unguardAll([]Leaving{{Network: network}}, []devices{unused}, []error{nil})[0]
}

// unused returns the network's devices of this package that no pod uses. The lock is held.
func (n *Node) unused(network *Network) (devices, error) {
	have, err := n.find(network)
	if err != nil {
		if kindOf(err) == Foreign {
			return devices{}, nil // what is something else, is not ours
		}
		return devices{}, err
	}
	unused := have.onlyOurs()
	if have.bridge == nil {
		return devices{tunnel: unused.tunnel}, nil
	}
	remaining, err := netdev.Dump(func() (users, error) { return usersOf(have.bridge, unused.egress()) })
	if err == nil && !remaining.pods {
		var lost []string
		lost, err = lostPorts(network.Name, have.bridge)
		remaining.pods = len(lost) > 0
	}
	if err != nil || remaining.pods {
		return devices{}, err
	}
	if remaining.others {
		unused.bridge = nil
	}
	return devices{bridge: unused.bridge, tunnel: unused.tunnel}, nil
}

// link returns a nil interface for no tunnel.
func link(tunnel *netlink.Vxlan) netlink.Link {
	if tunnel == nil {
		return nil
	}
	return tunnel
}

func (d devices) onlyOurs() devices {
	if d.bridge != nil && !ours(d.bridge) {
		d.bridge = nil
	}
	if d.tunnel != nil && !ours(d.tunnel) {
		d.tunnel = nil
	}
	return d
}
