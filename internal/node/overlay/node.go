// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
)

// DefaultStateDir is the default folder of peers and attachments.
const DefaultStateDir = "/var/lib/cni/tsn-cni"

// Node is the node whose networks are changed.
type Node struct {
	kernel *netlink.Handle
	dir    string
	// patience is how long to wait for other processes.
	patience time.Duration
	// apply makes the filter of the node's tunnels and bridges what it shall be.
	apply func(*filter.Wanted) (changed []string, err error)
	// protect keeps clear packets from tunnels to a port.
	protect func(port uint16) error
	// changeLinks tells the filter of links, which it must be as it shall be for.
	changeLinks func([]filter.LinkChange) error
	// receiveDir is where the program for receive rings has its maps.
	receiveDir string
	// pods tells a program for receive rings that knows nothing of the node's pods; nil: nobody here knows them.
	pods func(*receive.Maps) error
}

// KnowPods sets the function that adds the node's pods to a program for receive rings after the maps of another
// release's were replaced. It must not call the node, which is locked.
func (n *Node) KnowPods(tell func(*receive.Maps) error) { n.pods = tell }

// Open opens the network namespace of the calling thread.
func Open(stateDir string, patience time.Duration) (*Node, error) {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about devices: %w", err)
	}
	return &Node{
		kernel: kernel, dir: stateDir, patience: patience, apply: filter.Apply, protect: protect, changeLinks: filter.ChangeLinks,
		receiveDir: receive.DefaultDir,
	}, nil
}

// Close closes the node; devices stay.
func (n *Node) Close() { n.kernel.Close() }

// Network describes a network on this node.
type Network struct {
	// Name is that of the network's attachments; "" for links, which share one.
	Name string `json:"name,omitempty"`
	// VNI is the VXLAN network identifier, 1 to 16777215.
	VNI uint32 `json:"vni"`
	// Bridge and Tunnel are the names of its devices.
	Bridge string `json:"bridge"`
	Tunnel string `json:"tunnel"`
	// Port is the UDP port of the tunnel.
	Port uint16 `json:"port"`
	// MTU is that of the pods' interfaces, in bytes; 0: the largest that the uplink allows.
	MTU int `json:"mtu,omitempty"`
	// Uplink names the interface towards the other nodes; "": ktsnd's.
	Uplink string `json:"uplink,omitempty"`
	// LocalAddress is the tunnel's source; the zero value: ktsnd's, or the uplink's first.
	LocalAddress netip.Addr `json:"localAddress,omitzero"`
	// Overhead is the most that encryption may add to a frame, in bytes.
	Overhead int `json:"overhead,omitempty"`
	// Encrypted: frames to and from other nodes are encrypted, or dropped.
	Encrypted bool `json:"encrypted,omitempty"`
	// NodeAccess lets pods reach the node through the bridge.
	NodeAccess bool `json:"nodeAccess,omitempty"`
	// PointToPoint: there is one port here and one behind the tunnel, so that no addresses need to be learnt.
	PointToPoint bool `json:"pointToPoint,omitempty"`
}

// devices are a network's devices as they are.
type devices struct {
	bridge *netlink.Bridge
	tunnel *netlink.Vxlan
	// switched leads into Open vSwitch, instead of a tunnel.
	switched netlink.Link
}

// find returns the existing devices, nil for missing ones. A device of another type is an error.
func (n *Node) find(network *Network) (existing devices, err error) {
	link, err := n.link(network.Bridge)
	if err != nil {
		return existing, err
	}
	if link != nil {
		bridge, ok := link.(*netlink.Bridge)
		if !ok {
			return existing, failed(Foreign, "%s exists and is a device of type %s, not a bridge; remove it, or name another bridge",
				network.Bridge, link.Type())
		}
		existing.bridge = bridge
	}
	link, err = n.link(network.Tunnel)
	if err != nil || link == nil {
		return existing, err
	}
	if leadsIntoSwitch(link) {
		existing.switched = link
		return existing, nil
	}
	tunnel, ok := link.(*netlink.Vxlan)
	if !ok {
		return existing, failed(Foreign, "%s exists and is a device of type %s, not VXLAN; remove it, or name another tunnel",
			network.Tunnel, link.Type())
	}
	existing.tunnel = tunnel
	return existing, nil
}

// link returns nil for a device that is not there.
func (n *Node) link(name string) (netlink.Link, error) { return netdev.FindBy(n.kernel, name) }

// existing returns a device that was there before.
func (n *Node) existing(name string) (netlink.Link, error) {
	link, err := n.link(name)
	if err == nil && link == nil {
		err = fmt.Errorf("%s has disappeared", name)
	}
	return link, err
}

func ours(link netlink.Link) bool { return link.Attrs().Group == LinkGroup || isLeaving(link) }

func isUp(link netlink.Link) bool { return link.Attrs().RawFlags&unix.IFF_UP != 0 }

// withoutIPv6 keeps the node out of the pods' network. It does nothing in a kernel without IPv6.
func withoutIPv6(name string) error {
	if err := setting("ipv6", name, "disable_ipv6", "1"); err != nil {
		return fmt.Errorf("switch IPv6 off on %s: %w", name, err)
	}
	return nil
}

// setting sets one of a device's. A kernel without the family has none.
func setting(family, device, name, value string) error {
	// What /proc/sys/net shows is the network namespace of the thread that opens it.
	err := os.WriteFile("/proc/sys/net/"+family+"/conf/"+device+"/"+name, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
