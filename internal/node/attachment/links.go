// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// What is in this file is for those who plug links in their own process: ktsn-agent, which may plug a thousand at once.

// Sandbox is where links can be plugged.
type Sandbox struct {
	// ContainerID is the runtime's name, Identity the pod's UID, Netns the path of the network namespace.
	ContainerID, Identity, Netns string
	// Since is when the runtime made it known.
	Since time.Time
}

// Plugged is a link that is plugged, or that somebody began to plug.
type Plugged struct {
	Sandbox
	Interface string
	VNI       uint32
	MTU       int
	// Encrypted tells that its tunnel sends nothing in clear.
	Encrypted bool
	Link      Link
	// Port is the node's end of the interface.
	Port string
}

// PluggedLinks lists the links of the node whose interfaces have a name, "" for all.
func PluggedLinks(stateDir, interfaceName string) ([]Plugged, error) {
	all := recordStore{stateDir}
	attachments, err := all.list(LinkNetwork)
	if err != nil {
		return nil, err
	}
	var found []Plugged
	for _, r := range all.readThose(attachments, func(one *overlay.Attachment) bool { return interfaceName == "" || one.Interface == interfaceName }) {
		one := Plugged{Sandbox: Sandbox{r.ContainerID, r.Identity, r.Netns, all.since(&r.Attachment)}, Interface: r.Interface, VNI: r.VNI, MTU: r.MTU, Encrypted: r.Encrypted, Port: r.PortName()}
		if r.Link != nil {
			one.Link = *r.Link
		}
		found = append(found, one)
	}
	return found, nil
}

// LinkPlan is what one end of a link shall be.
type LinkPlan struct {
	Sandbox
	Interface string
	VNI       uint32
	MTU       int
	// Port is the UDP port of the tunnel.
	Port uint16
	// Encrypted has the tunnel send nothing in clear.
	Encrypted bool
	Link      Link
}

// LinkOptions are of the node.
type LinkOptions struct {
	StateDir, ControlSocket string
	// Uplink is the interface towards the other nodes, "" for ktsnd's.
	Uplink string
	// Patience is how long to wait for others that change the node's networks.
	Patience time.Duration
}

// PlugLink does what an ADD of the link would. It can be repeated, also to change what can change.
func PlugLink(ctx context.Context, options *LinkOptions, plan *LinkPlan) error {
	if err := plan.Link.Validate(); err != nil {
		return coded(types.ErrInvalidNetworkConfig, fmt.Errorf("link: %w", err))
	}
	s := &Spec{
		Record: Record{
			Attachment: overlay.Attachment{Network: LinkNetwork, ContainerID: plan.ContainerID, Interface: plan.Interface, Identity: plan.Identity},
			Netns:      plan.Netns, ControlSocket: options.ControlSocket, Unseen: UnseenDrop, Link: &plan.Link,
		},
		Overlay: linkNetwork(plan.VNI), StateDir: options.StateDir, LockTimeout: options.Patience,
	}
	s.Overlay.MTU, s.Overlay.Port, s.Overlay.Uplink, s.Overlay.Encrypted = plan.MTU, plan.Port, options.Uplink, plan.Encrypted
	if s.Overlay.Port == 0 {
		s.Overlay.Port = DefaultPort
	}
	s.CompleteRecord()
	if err := s.Attachment.Check(); err != nil {
		return err
	}
	_, err := plugLink(ctx, s)
	return err
}

// UnplugLink does what a DEL of the link would.
func UnplugLink(ctx context.Context, options *LinkOptions, plugged *Plugged) error {
	return UnplugLinks(ctx, options, []*Plugged{plugged})[0]
}

// UnplugLinks is UnplugLink for many, which takes far less time than each by itself. Each has an error of its own.
func UnplugLinks(ctx context.Context, options *LinkOptions, all []*Plugged) []error {
	failed := make([]error, len(all))
	err := options.with(func(node *overlay.Node, store recordStore) error {
		var links []*Record
		for _, plugged := range all {
			found := overlay.Found{VNI: plugged.VNI, Bridge: overlay.BridgeName(plugged.VNI), Tunnel: overlay.TunnelName(plugged.VNI)}
			found.Attachment = overlay.Attachment{
				Network: LinkNetwork, ContainerID: plugged.ContainerID, Interface: plugged.Interface, Identity: plugged.Identity,
			}
			links = append(links, foundLink(store, &found, options.ControlSocket))
		}
		failed = unplugLinks(ctx, node, store, links)
		return nil
	})
	for i := range failed {
		failed[i] = errors.Join(failed[i], err)
	}
	return failed
}

// DetachLinks does what a runtime's DEL would: it unplugs a link, or forgets a sandbox with all of its links.
func DetachLinks(ctx context.Context, options *LinkOptions, attached *Attached) error {
	return options.with(func(node *overlay.Node, store recordStore) error {
		if attached.Network == SandboxNetwork {
			return forgetSandbox(ctx, node, store, &attached.Attachment)
		}
		found := overlay.Found{
			Attachment: attached.Attachment, VNI: attached.VNI, Bridge: overlay.BridgeName(attached.VNI), Tunnel: overlay.TunnelName(attached.VNI),
		}
		return foundLink(store, &found, options.ControlSocket).unplugLink(ctx, node, store)
	})
}

func (o *LinkOptions) with(do func(*overlay.Node, recordStore) error) error {
	node, err := OpenNode(o.StateDir, o.Patience)
	if err != nil {
		return err
	}
	defer node.Close()
	return do(node, recordStore{o.StateDir})
}

// checkLink compares the link with what Add made.
func (r *Record) checkLink(ctx context.Context, node *overlay.Node) error {
	if r.Link == nil {
		return errors.New("its record is a rebuilt one, of which not all is known; ktsn-agent plugs it again")
	}
	mac, err := net.ParseMAC(r.Link.MAC)
	if err != nil {
		return fmt.Errorf("its record has the hardware address %q: %w", r.Link.MAC, err)
	}
	network := linkNetwork(r.VNI)
	network.MTU, network.Port, network.Encrypted = r.MTU, r.TunnelPort, r.Encrypted
	want := &Expected{MAC: mac, MTU: r.MTU}
	all := ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return errors.Join(r.checkPod(want), r.Link.checkPod(r.Interface)) })
	return errors.Join(all, node.CheckNetwork(ctx, &network),
		node.CheckPort(&network, &r.Attachment, overlay.PortMTU(r.MTU, frontBytes(r.Capture)), want.MAC),
		r.checkGuard(node), r.checkEndpoint(ctx, want))
}

// checkPod compares what the link has in the pod beside its interface. It runs inside the pod's network namespace.
func (l *Link) checkPod(interfaceName string) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return nil //nolint:nilerr // that has been said
	}
	var all error
	addresses, err := again(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list the addresses of %s in the pod: %w", interfaceName, err)
	}
	have := map[string]bool{}
	for i := range addresses {
		have[addresses[i].IPNet.String()] = true
	}
	for _, own := range l.Addresses {
		if !have[own.String()] {
			all = errors.Join(all, fmt.Errorf("%s in the pod lacks the address %s", interfaceName, own))
		}
	}
	for _, peer := range l.Peer.Addresses {
		neighbours, err := again(func() ([]netlink.Neigh, error) { return netlink.NeighList(link.Attrs().Index, familyOf(peer)) })
		if err != nil {
			return fmt.Errorf("list the neighbours of %s in the pod: %w", interfaceName, err)
		}
		known := false
		for i := range neighbours {
			known = known || neighbours[i].IP.Equal(peer.AsSlice()) && strings.EqualFold(neighbours[i].HardwareAddr.String(), l.Peer.MAC)
		}
		if !known {
			all = errors.Join(all, fmt.Errorf("the pod does not know that %s has the hardware address %s", peer, l.Peer.MAC))
		}
	}
	return errors.Join(all, l.checkRoutes(link))
}

func (l *Link) checkRoutes(link netlink.Link) error {
	filter := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: linkRouteProtocol}
	routes, err := again(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return fmt.Errorf("list the routes of the link: %w", err)
	}
	have := map[string]bool{}
	for i := range routes {
		if to, ok := prefixOf(routes[i].Dst); ok {
			have[to.String()] = true
		}
	}
	var all error
	for _, to := range l.Routes {
		if !have[to.String()] {
			all = errors.Join(all, fmt.Errorf("the pod lacks the route to %s through %s", to, link.Attrs().Name))
		}
	}
	return all
}
