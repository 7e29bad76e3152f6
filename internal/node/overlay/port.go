// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
)

const (
	errExist    = unix.EEXIST
	errNoDevice = unix.ENODEV
)

func kindOf(err error) Kind {
	var typed *Error
	if errors.As(err, &typed) {
		return typed.Kind
	}
	return 0
}

// Port describes an attachment that is to be plugged.
type Port struct {
	Attachment
	HardwareAddress net.HardwareAddr
	// Netns is an open descriptor of the pod's network namespace.
	Netns int
	// FrontBytes is the length of the record in front of captured frames, which only frames at the node's end have.
	FrontBytes int
	// Note is kept in the port's alias, for attachments without a record. If it does not fit, NoteLost is kept instead.
	Note string
}

// NoteLost replaces a note that does not fit.
const NoteLost = "?"

// alias is how the port is written on itself.
func (p *Port) alias() string {
	alias := p.Attachment.alias()
	switch {
	case p.Note == "":
		return alias
	case len(alias)+1+len(p.Note) > maxAliasBytes:
		return alias + " " + NoteLost
	}
	return alias + " " + p.Note
}

// maxMTU is that of a veth device.
const maxMTU = 65535

// PortMTU returns the MTU of the node's end of a pod's interface with that MTU.
func PortMTU(mtu, frontBytes int) int { return min(mtu+frontBytes, maxMTU) }

// Plugged describes a plugged Port.
type Plugged struct {
	Bridge, Port         string
	BridgeAddr, PortAddr net.HardwareAddr
	// MTU is that of the pod's interface, in bytes.
	MTU int
}

// Plug makes the veth pair of an attachment, with one end in the pod, down, and the other on the network's bridge, up.
// For the network's first port it makes the network's devices. If it fails it removes what it made.
func (n *Node) Plug(ctx context.Context, network *Network, port *Port, timed Timed) (*Plugged, error) {
	plugged, err := n.plugLocked(ctx, network, port, timed)
	if err != nil {
		return nil, err
	}
	if err := n.finishPort(port, plugged); err != nil {
		return nil, errors.Join(err, n.Unplug(ctx, network, &port.Attachment))
	}
	return plugged, nil
}

func (n *Node) plugLocked(ctx context.Context, network *Network, port *Port, timed Timed) (*Plugged, error) {
	unlock, err := n.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	fault.Point("locked")
	have, err := n.ensure(ctx, network, timed)
	if err != nil {
		return nil, err
	}
	fault.Point("network-made")
	plugged := &Plugged{
		Bridge: have.bridge.Name, BridgeAddr: have.bridge.HardwareAddr,
		Port: port.PortName(), PortAddr: portHardwareAddress(port.PortName()),
		MTU: network.MTU,
	}
	if plugged.MTU == 0 {
		plugged.MTU = have.egress().Attrs().MTU
	}
	if err := n.makePair(port, plugged, have.bridge.Index); err != nil {
		return nil, errors.Join(err, n.clear(network))
	}
	fault.Point("pair-made")
	return plugged, nil
}

func (n *Node) makePair(port *Port, plugged *Plugged, bridgeIndex int) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = plugged.Port
	attributes.Group = LinkGroup
	attributes.MTU = PortMTU(plugged.MTU, port.FrontBytes)
	attributes.HardwareAddr = plugged.PortAddr
	pair := &netlink.Veth{
		LinkAttrs:        attributes,
		PeerName:         port.Interface,
		PeerHardwareAddr: port.HardwareAddress,
		PeerNamespace:    netlink.NsFd(port.Netns),
		PeerTxQLen:       -1,
		PeerMTU:          uint32(plugged.MTU),
	}
	if err := n.addPair(pair); err != nil {
		return n.explainPair(port, plugged, err)
	}
	if err := n.kernel.LinkSetMasterByIndex(pair, bridgeIndex); err != nil {
		return errors.Join(fmt.Errorf("add %s to bridge %s: %w", plugged.Port, plugged.Bridge, err), n.remove(pair))
	}
	return nil
}

// addPair makes a veth pair, after removing one with its name that a killed Unplug has left.
func (n *Node) addPair(pair *netlink.Veth) error {
	err := n.kernel.LinkAdd(pair)
	if !errors.Is(err, errExist) {
		return err
	}
	former, errFormer := n.link(pair.Name)
	if errFormer != nil || former == nil || !isLeaving(former) {
		return err
	}
	if err := n.removeLeaving(); err != nil {
		return err
	}
	return n.kernel.LinkAdd(pair)
}

// Mend repairs an existing port and its network's devices, after a killed Plug or changes by others.
func (n *Node) Mend(ctx context.Context, network *Network, port *Port, timed Timed) error {
	bridgeIndex, err := n.ensureLocked(ctx, network, timed)
	if err != nil {
		return err
	}
	link, err := n.existing(port.PortName())
	if err != nil {
		return err
	}
	if link.Attrs().MasterIndex != bridgeIndex {
		if err := n.kernel.LinkSetMasterByIndex(link, bridgeIndex); err != nil {
			return fmt.Errorf("add %s to bridge %s: %w", port.PortName(), network.Bridge, err)
		}
	}
	return n.finishPort(port, &Plugged{Port: port.PortName(), Bridge: network.Bridge})
}

func (n *Node) ensureLocked(ctx context.Context, network *Network, timed Timed) (bridgeIndex int, err error) {
	unlock, err := n.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	have, err := n.ensure(ctx, network, timed)
	if err != nil {
		return 0, err
	}
	return have.bridge.Index, nil
}

// explainPair reports which of the two names exists.
func (n *Node) explainPair(port *Port, plugged *Plugged, err error) error {
	if !errors.Is(err, errExist) {
		return fmt.Errorf("make veth pair %s: %w", plugged.Port, err)
	}
	if link, _ := n.link(plugged.Port); link != nil {
		return failed(Exists, "container %s is attached to network %s as %s already; call DEL first",
			port.ContainerID, port.Network, port.Interface)
	}
	return failed(Exists, "the pod has an interface %s already; give the attachment, or the label of the link, another name", port.Interface)
}

// finishPort does the work that needs no lock: the port already counts as used.
func (n *Node) finishPort(port *Port, plugged *Plugged) error {
	link, err := n.existing(plugged.Port)
	if err != nil {
		return err
	}
	if err := withoutIPv6(plugged.Port); err != nil {
		return err
	}
	if err := n.kernel.LinkSetAlias(link, port.alias()); err != nil {
		return fmt.Errorf("set the alias of %s: %w", plugged.Port, err)
	}
	return n.forward(link, port.HardwareAddress)
}

// Forwarding waits until the bridge forwards to and from the port, shortly after both ends of the veth pair are up.
func (n *Node) Forwarding(ctx context.Context, portName string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 50*time.Millisecond) {
		link, err := n.existing(portName)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s forwards: it stays %s: %w", portName, link.Attrs().OperState, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Plugged reports whether the attachment has its port. A port that a killed Unplug has left does not count.
func (n *Node) Plugged(attachment *Attachment) (bool, error) {
	link, err := n.link(attachment.PortName())
	return link != nil && !isLeaving(link), err
}

// Sweep removes the network's devices if no pod uses them, after a killed process.
func (n *Node) Sweep(ctx context.Context, network *Network) error {
	unlock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return n.clear(network)
}

// Found is an attachment that has a port.
type Found struct {
	Attachment
	// Bridge, Tunnel and VNI are those of its network; VNI is 0 when the port is on no network's bridge.
	Bridge, Tunnel string
	VNI            uint32
	// Port is the UDP port of the tunnel, 0 for none.
	Port uint16
	// NetnsID is the node's number for the pod's network namespace, negative for one that has no number.
	NetnsID int
	// Note is that of the port; "": it has none.
	Note string
	// Index is the kernel's number of the port; a younger port has a larger one.
	Index int
}

// Attachments lists the ports of all networks of this node.
func (*Node) Attachments() ([]Found, error) { return Attachments() }

// Attachments lists the ports of all networks of the network namespace in which it is called.
func Attachments() ([]Found, error) {
	links, err := listLinks(choice{})
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	type egress struct {
		name string
		vni  uint32
		port uint16
	}
	tunnels := map[int]egress{} // by bridge
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
		if tunnel, ok := link.(*netlink.Vxlan); ok {
			tunnels[tunnel.MasterIndex] = egress{tunnel.Name, uint32(tunnel.VxlanId), uint16(tunnel.Port)}
		}
		if name := link.Attrs().Name; leadsIntoSwitch(link) && link.Attrs().MasterIndex != 0 {
			tunnels[link.Attrs().MasterIndex] = egress{name, networkOf(name), 0}
		}
	}
	var all []Found
	for _, link := range links {
		attachment, note, ok := parseAlias(link.Attrs().Alias)
		if !ok || !ours(link) {
			continue
		}
		port := Found{Attachment: attachment, Bridge: names[link.Attrs().MasterIndex], NetnsID: link.Attrs().NetNsID, Note: note, Index: link.Attrs().Index}
		tunnel := tunnels[link.Attrs().MasterIndex]
		port.Tunnel, port.VNI, port.Port = tunnel.name, tunnel.vni, tunnel.port
		all = append(all, port)
	}
	return all, nil
}
