// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// complete reports whether both devices exist and are up, and the tunnel is a port of the bridge, or of another one, which is an error.
func (d devices) complete() bool {
	return d.bridge != nil && d.tunnel != nil && isUp(d.bridge) && isUp(d.tunnel) && d.tunnel.MasterIndex != 0
}

// Repair repairs the devices of a network and its ports after other programs changed them, and returns what it changed. An existing
// tunnel keeps its UDP port and encryption, which [Node.Retune] changes. A tunnel that is missing or unfinished is made only if it will be
// encrypted, or if inClear tells that the network is not encrypted, because frames could leave in clear otherwise. A network without a port
// has no pods, or its last one is being removed: it is left alone. A port that is missing stays missing: the pod's end has gone with it.
func (n *Node) Repair(ctx context.Context, network *Network, ports []Port, inClear bool, timed Timed) (repaired []string, err error) {
	ports, err = n.staying(ports)
	if err != nil || len(ports) == 0 {
		return nil, err
	}
	if whole, err := n.isWhole(network, ports); whole || err != nil {
		return nil, err
	}
	unlock, err := n.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Unplug removes the network with its last port.
	if ports, err = n.staying(ports); err != nil || len(ports) == 0 {
		return nil, err
	}
	before, err := n.find(network)
	if err == nil {
		repaired, err = n.renameBack(network, before)
	}
	if err == nil && len(repaired) > 0 {
		before, err = n.find(network)
	}
	if err != nil {
		return repaired, err
	}
	network, err = n.keepTunnel(network, before, inClear)
	if err == nil && timed == nil && network.Uplink == "" && before.tunnel != nil {
		network, err = n.withUplinkOf(network, before.tunnel)
	}
	if err == nil {
		var raised []string
		raised, err = n.raiseMTU(ctx, network, before, timed)
		repaired = append(repaired, raised...)
	}
	if err != nil {
		return repaired, err
	}
	have, err := n.ensure(ctx, network, timed)
	if err != nil {
		return repaired, err
	}
	repaired = append(repaired, describeRepairs(network, before, have)...)
	for i := range ports {
		done, errPort := n.repairPort(network, &ports[i], have.bridge.Index)
		if done != "" {
			repaired = append(repaired, done)
		}
		err = errors.Join(err, errPort)
	}
	return repaired, err
}

// staying returns the ports that exist and are not about to be removed.
func (n *Node) staying(ports []Port) (all []Port, err error) {
	for i := range ports {
		link, err := n.link(ports[i].PortName())
		if err != nil {
			return nil, err
		}
		if link != nil && !isLeaving(link) {
			all = append(all, ports[i])
		}
	}
	return all, nil
}

// isWhole reports whether nothing needs repair, without the lock and without asking ktsnd.
func (n *Node) isWhole(network *Network, ports []Port) (bool, error) {
	have, err := n.find(network)
	if err != nil || have.bridge == nil || have.egress() == nil {
		return false, err
	}
	egress := have.egress().Attrs()
	if !isUp(have.bridge) || !isUp(have.egress()) || egress.MasterIndex != have.bridge.Index || have.bridge.MTU < egress.MTU || egress.MTU < network.MTU {
		return false, nil
	}
	if have.tunnel != nil && ours(have.tunnel) {
		uplink, err := n.kernel.LinkByIndex(have.tunnel.VtepDevIndex)
		if err != nil || n.checkUplink(have.tunnel) != nil || mayRaise(network, have.tunnel) && have.tunnel.MTU < network.mtu(&uplinkDevice{mtu: uplink.Attrs().MTU}) {
			return false, nil
		}
		if kept, err := reservedFilter(have.tunnel).Find(n.kernel, have.tunnel); ours(have.bridge) && (kept == nil || err != nil) {
			return false, err
		}
	}
	for i := range ports {
		link, err := n.link(ports[i].PortName())
		if err != nil {
			return false, err
		}
		if link != nil && !isLeaving(link) && (link.Attrs().MasterIndex != have.bridge.Index || !isUp(link)) {
			return false, nil
		}
	}
	return true, nil
}

// keepTunnel returns the network with the port and encryption of its existing tunnel. It fails if a tunnel would have to be made, or to
// be finished, that may have to be encrypted.
func (n *Node) keepTunnel(network *Network, have devices, inClear bool) (*Network, error) {
	if have.switched != nil || network.Encrypted {
		return network, nil
	}
	finished := have.tunnel != nil && (!ours(have.tunnel) || isUp(have.tunnel) || encrypted(have.tunnel))
	if !finished && !inClear {
		return nil, fmt.Errorf("%s is missing or unfinished, and it is not known here whether the network is encrypted", network.Tunnel)
	}
	if have.tunnel == nil || !ours(have.tunnel) {
		return network, nil
	}
	existing := *network
	existing.Port, existing.Encrypted = uint16(have.tunnel.Port), encrypted(have.tunnel)
	return &existing, nil
}

// withUplinkOf returns the network with the uplink of its tunnel.
func (n *Node) withUplinkOf(network *Network, tunnel *netlink.Vxlan) (*Network, error) {
	uplink, err := n.kernel.LinkByIndex(tunnel.VtepDevIndex)
	if err != nil {
		return nil, fmt.Errorf("look for the uplink of %s: %w", tunnel.Name, err)
	}
	existing := *network
	existing.Uplink = uplink.Attrs().Name
	return &existing, nil
}

// describeRepairs names the devices that differ from those before.
func describeRepairs(network *Network, before, after devices) (all []string) {
	switch {
	case before.bridge == nil || before.bridge.Index != after.bridge.Index:
		all = append(all, "recreated bridge "+network.Bridge)
	case !isUp(before.bridge):
		all = append(all, "set "+network.Bridge+" up")
	}
	if after.tunnel == nil {
		return all
	}
	switch {
	case before.tunnel == nil || before.tunnel.Index != after.tunnel.Index:
		all = append(all, "recreated tunnel "+network.Tunnel)
	case before.tunnel.MasterIndex != after.bridge.Index:
		all = append(all, "added "+network.Tunnel+" to "+network.Bridge)
	case !isUp(before.tunnel):
		all = append(all, "set "+network.Tunnel+" up")
	}
	return all
}

// removeStale removes a tunnel that leads through another interface than the uplink, which was removed and created again, and gives one
// with the uplink its address. It leaves tunnels that differ otherwise, which fits reports. The lock is held.
func (n *Node) removeStale(network *Network, have devices, uplink *uplinkDevice, timed Timed) (devices, error) {
	tunnel := have.tunnel
	if tunnel == nil || !ours(tunnel) || tunnel.Port != int(network.Port) || encrypted(tunnel) != network.Encrypted {
		return have, nil
	}
	// Without ktsnd the address is the uplink's first, which may change while the tunnel's is still there.
	named := timed != nil || network.LocalAddress.IsValid()
	if tunnel.VtepDevIndex == uplink.index {
		if named && !sendsFrom(tunnel, uplink.address) {
			return have, n.setAddress(tunnel, uplink.address)
		}
		return have, nil
	}
	have.tunnel = nil
	return have, n.remove(tunnel)
}

func sendsFrom(tunnel *netlink.Vxlan, address netip.Addr) bool {
	source, _ := netip.AddrFromSlice(tunnel.SrcAddr)
	return source.Unmap() == address
}

// setAddress sets the address that a tunnel sends from.
func (n *Node) setAddress(tunnel *netlink.Vxlan, address netip.Addr) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(tunnel.Index)
	request.AddData(message)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(tunnel.Type()))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_VXLAN_LOCAL, address.AsSlice())
	request.AddData(info)
	if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("have %s send from %s: %w", tunnel.Name, address, err)
	}
	tunnel.SrcAddr = address.AsSlice()
	return nil
}

// FollowAddress gives tunnels of networks and links the address that ktsnd sends from, after the uplink lost the one that they have. It
// returns what it changed.
func (n *Node) FollowAddress(ctx context.Context, status *control.Status) (repaired []string, err error) {
	if status.Uplink == uplinkSwitched || !status.LocalAddress.IsValid() {
		return nil, nil
	}
	lost, err := n.withLostAddress(status)
	if err != nil || len(lost) == 0 {
		return nil, err
	}
	unlock, err := n.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if lost, err = n.withLostAddress(status); err != nil {
		return nil, err
	}
	for _, tunnel := range lost {
		former := tunnel.SrcAddr
		if err := n.setAddress(tunnel, status.LocalAddress); err != nil {
			return repaired, err
		}
		repaired = append(repaired, fmt.Sprintf("changed the address of %s from %s to %s", tunnel.Name, former, status.LocalAddress))
	}
	return repaired, nil
}

// withLostAddress returns the tunnels of this package through ktsnd's uplink whose address is not the uplink's, if ktsnd's is.
func (n *Node) withLostAddress(status *control.Status) ([]*netlink.Vxlan, error) {
	uplink, err := n.link(status.Interface)
	if err != nil || uplink == nil {
		return nil, err
	}
	entries, err := n.kernel.AddrList(uplink, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", status.Interface, err)
	}
	has := func(address net.IP) bool {
		return slices.ContainsFunc(entries, func(entry netlink.Addr) bool { return entry.IP.Equal(address) })
	}
	if !has(status.LocalAddress.AsSlice()) {
		return nil, nil // ktsnd follows a moment later
	}
	tunnels, err := ownTunnels()
	return slices.DeleteFunc(tunnels, func(tunnel *netlink.Vxlan) bool {
		return isLeaving(tunnel) || tunnel.VtepDevIndex != uplink.Attrs().Index || has(tunnel.SrcAddr)
	}), err
}

// renameBack finds the network's tunnel by its VNI and port, and its bridge as the tunnel's, if the names are free and the ports of the
// bridge are the network's.
func (n *Node) renameBack(network *Network, have devices) (renamed []string, err error) {
	if network.PointToPoint || have.switched != nil || have.tunnel != nil && have.bridge != nil {
		return nil, nil
	}
	tunnel := have.tunnel
	if tunnel == nil {
		if tunnel, err = renamedTunnel(network); tunnel == nil || err != nil {
			return nil, err
		}
	}
	bridge, err := n.bridgeOf(network, tunnel)
	if err != nil || bridge == nil {
		return nil, err
	}
	for _, device := range []struct {
		link netlink.Link
		name string
	}{{tunnel, network.Tunnel}, {bridge, network.Bridge}} {
		if former := device.link.Attrs().Name; former != device.name {
			if err := n.rename(device.link, device.name); err != nil {
				return renamed, err
			}
			renamed = append(renamed, "renamed "+former+" to "+device.name)
		}
	}
	return renamed, nil
}

// renamedTunnel returns the tunnel of this package with the network's VNI and port, nil if there is none.
func renamedTunnel(network *Network) (*netlink.Vxlan, error) {
	tunnels, err := ownTunnels()
	for _, tunnel := range tunnels {
		if tunnel.VxlanId == int(network.VNI) && tunnel.Port == int(network.Port) && !isLeaving(tunnel) {
			return tunnel, err
		}
	}
	return nil, err
}

// bridgeOf returns the tunnel's bridge if it is of this package and has ports of the network only, else nil.
func (n *Node) bridgeOf(network *Network, tunnel *netlink.Vxlan) (netlink.Link, error) {
	if tunnel.MasterIndex == 0 {
		return nil, nil
	}
	bridge, err := n.kernel.LinkByIndex(tunnel.MasterIndex)
	if err != nil || !ours(bridge) {
		return nil, err
	}
	ports, err := listLinks(choice{master: tunnel.MasterIndex, kind: "veth"})
	if err != nil || len(ports) == 0 {
		return nil, err
	}
	for _, port := range ports {
		if attachment, _, ok := parseAlias(port.Attrs().Alias); !ok || attachment.Network != network.Name {
			return nil, nil
		}
	}
	return bridge, nil
}

// rename renames a device. Before Linux 6.2 it must be down.
func (n *Node) rename(link netlink.Link, name string) error {
	former := link.Attrs().Name
	err := n.kernel.LinkSetName(link, name)
	if errors.Is(err, unix.EBUSY) {
		if err = n.kernel.LinkSetDown(link); err == nil {
			err = n.kernel.LinkSetName(link, name)
		}
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", former, name, err)
	}
	return nil
}

// mayRaise reports whether only this package sets the tunnel's MTU; that of networks with encryption is Retune's.
func mayRaise(network *Network, tunnel *netlink.Vxlan) bool {
	return ours(tunnel) && !network.Encrypted && network.Overhead == 0 && !encrypted(tunnel)
}

// raiseMTU restores the MTU of the network's devices where it has become smaller.
func (n *Node) raiseMTU(ctx context.Context, network *Network, have devices, timed Timed) (raised []string, err error) {
	if have.bridge == nil || have.tunnel == nil || !mayRaise(network, have.tunnel) {
		return nil, nil
	}
	uplink, err := n.resolveUplink(ctx, network, timed)
	if err != nil {
		return nil, err
	}
	want := network.mtu(uplink)
	for _, link := range []netlink.Link{have.tunnel, have.bridge} {
		if !ours(link) || link.Attrs().MTU >= want {
			continue
		}
		if err := n.kernel.LinkSetMTU(link, want); err != nil {
			return raised, fmt.Errorf("set the MTU of %s to %d: %w", link.Attrs().Name, want, err)
		}
		raised = append(raised, fmt.Sprintf("raised the MTU of %s from %d to %d", link.Attrs().Name, link.Attrs().MTU, want))
	}
	return raised, nil
}

// repairPort adds a port to the bridge again, and sets it up.
func (n *Node) repairPort(network *Network, port *Port, bridgeIndex int) (repaired string, err error) {
	name := port.PortName()
	link, err := n.link(name)
	if err != nil || link == nil || isLeaving(link) || link.Attrs().MasterIndex == bridgeIndex && isUp(link) {
		return "", err
	}
	repaired = "set " + name + " up"
	if link.Attrs().MasterIndex != bridgeIndex {
		repaired = "added " + name + " to " + network.Bridge
		// It forwards nothing before it has its settings.
		if err := n.kernel.LinkSetDown(link); err != nil {
			return "", fmt.Errorf("set %s down: %w", name, err)
		}
		if err := n.kernel.LinkSetMasterByIndex(link, bridgeIndex); err != nil {
			return "", fmt.Errorf("add %s to bridge %s: %w", name, network.Bridge, err)
		}
	}
	return repaired, n.forward(link, port.HardwareAddress)
}

// forward has the bridge forward frames from and to a port, with the hardware address of the pod.
func (n *Node) forward(link netlink.Link, address net.HardwareAddr) error {
	if err := n.claimHardwareAddress(link, address); err != nil {
		return err
	}
	// A frame that claims the address of a pod of another node does not bring that pod's frames here.
	if err := n.kernel.LinkSetLearning(link, false); err != nil {
		return fmt.Errorf("keep bridge port %s from learning: %w", link.Attrs().Name, err)
	}
	if _, err := n.keepReserved(link); err != nil {
		return err
	}
	if err := n.kernel.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", link.Attrs().Name, err)
	}
	return nil
}

// lostPorts returns the ports of a network that are not on its bridge, which may be missing; none of "".
func lostPorts(network string, bridge *netlink.Bridge) (names []string, err error) {
	if network == "" {
		return nil, nil
	}
	bridgeIndex := -1
	if bridge != nil {
		bridgeIndex = bridge.Index
	}
	links, err := listLinks(choice{kind: "veth"})
	for _, link := range links {
		attachment, _, ok := parseAlias(link.Attrs().Alias)
		if ok && ours(link) && !isLeaving(link) && link.Attrs().MasterIndex != bridgeIndex && attachment.Network == network {
			names = append(names, link.Attrs().Name)
		}
	}
	return names, err
}

// CheckLostPorts returns an error if ports of a network are not on its bridge. name is the network's.
func (n *Node) CheckLostPorts(name string, network *Network) error {
	have, err := n.find(network)
	if err != nil {
		return err
	}
	names, err := lostPorts(name, have.bridge)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%s: not on bridge %s, because another program removed the port; run `ktsn node restore`", strings.Join(names, ", "), network.Bridge)
	}
	return err
}
