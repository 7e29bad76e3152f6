// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Link is one end of a point-to-point link, as the field link of a configuration describes it.
type Link struct {
	// Addresses are those of the pod's interface, one of a family at most.
	Addresses []netip.Prefix `json:"addresses"`
	// MAC is the interface's hardware address.
	MAC  string   `json:"mac"`
	Peer LinkPeer `json:"peer"`
	// Routes are ranges that the pod reaches through the peer's address.
	Routes []netip.Prefix `json:"routes,omitempty"`
	// Forward are the families, IPv4 and IPv6, that the pod's kernel forwards.
	Forward []string `json:"forward,omitempty"`
	// Closed makes the pod's kernel reject packets to the peer, and to the ranges behind it, while the interface is missing.
	// Configurations do not have it: ktsn-agent sets it for links whose frames must not leave the node in clear.
	Closed bool `json:"closed,omitempty"`
}

// LinkPeer is the other end of a link.
type LinkPeer struct {
	Addresses []netip.Addr `json:"addresses"`
	MAC       string       `json:"mac"`
	// Node is the tunnel address of the peer's node; the zero value: the peer is on this node.
	Node netip.Addr `json:"node,omitzero"`
}

// Families that a pod in the middle of a chain forwards.
const (
	ForwardIPv4 = "IPv4"
	ForwardIPv6 = "IPv6"
)

// maxLinkRoutes is the limit of a TSNLink.
const maxLinkRoutes = 4096

// Ends of a link.
const (
	linkClient   = 1
	linkEndpoint = 2
)

// LinkMACs returns the hardware addresses of a link's ends. They follow from the VNI, so that each end knows the
// other's without asking.
func LinkMACs(vni uint32) (client, endpoint net.HardwareAddr) {
	mac := func(end byte) net.HardwareAddr {
		return net.HardwareAddr{0x02, 0x6b, byte(vni >> 16), byte(vni >> 8), byte(vni), end}
	}
	return mac(linkClient), mac(linkEndpoint)
}

// Validate returns what is wrong with the link.
func (l *Link) Validate() error {
	if err := l.checkAddresses(); err != nil {
		return err
	}
	for field, text := range map[string]string{"mac": l.MAC, "peer.mac": l.Peer.MAC} {
		if !IsHardwareAddress(text) {
			return fmt.Errorf("%s: %q is no hardware address for an interface", field, text)
		}
	}
	if l.MAC == l.Peer.MAC {
		return fmt.Errorf("peer.mac: both ends have %s", l.MAC)
	}
	if node := l.Peer.Node; node.IsValid() {
		if err := CheckNodeAddress(node); err != nil {
			return fmt.Errorf("peer.node: %w", err)
		}
	}
	if len(l.Routes) > maxLinkRoutes {
		return fmt.Errorf("routes: there are %d; give at most %d", len(l.Routes), maxLinkRoutes)
	}
	for _, route := range l.Routes {
		if !route.IsValid() || route != route.Masked() || route.Addr().Is4In6() {
			return fmt.Errorf("routes: %s is no range written by its first address", route)
		}
		if !l.gateway(route.Addr().Is4()).IsValid() {
			return fmt.Errorf("routes: %s cannot be reached: the peer has no address of its family", route)
		}
	}
	for _, family := range l.Forward {
		if family != ForwardIPv4 && family != ForwardIPv6 {
			return fmt.Errorf("forward: %q is neither %s nor %s", family, ForwardIPv4, ForwardIPv6)
		}
	}
	return nil
}

func (l *Link) checkAddresses() error {
	if len(l.Addresses) == 0 || len(l.Addresses) > 2 || len(l.Peer.Addresses) != len(l.Addresses) {
		return fmt.Errorf("addresses: there are %d, and the peer has %d; give each end one of IPv4, of IPv6, or of both",
			len(l.Addresses), len(l.Peer.Addresses))
	}
	seen := map[bool]bool{}
	for i, address := range l.Addresses {
		peer := l.Peer.Addresses[i]
		switch {
		case !address.IsValid() || address.Addr().Is4In6() || address.Addr().IsMulticast() || address.Addr().IsUnspecified() || address.Addr().IsLoopback():
			return fmt.Errorf("addresses: %s is no address for an interface", address)
		case seen[address.Addr().Is4()]:
			return errors.New("addresses: there are two of one family; give one of each at most")
		case !address.Contains(peer) || address.Addr() == peer:
			return fmt.Errorf("addresses: %s and the peer's %s are not the two ends of one link", address, peer)
		}
		seen[address.Addr().Is4()] = true
	}
	return nil
}

// CheckNodeAddress returns an error for an address at which no node's tunnels can end.
func CheckNodeAddress(node netip.Addr) error {
	if !node.Is4() || node.IsUnspecified() || node.IsMulticast() || node.IsLoopback() || node.IsLinkLocalUnicast() ||
		node == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s is no address at which tunnels of a node can end; give an IPv4 address of a host", node)
	}
	return nil
}

// gateway returns the peer's address of a family.
func (l *Link) gateway(ipv4 bool) netip.Addr {
	for _, address := range l.Peer.Addresses {
		if address.Is4() == ipv4 {
			return address
		}
	}
	return netip.Addr{}
}

// behindPeer returns the subnets from which frames may come from the peer: its addresses, and the ranges that the pod
// reaches through it. If they are more than ktsnd accepts, every source is allowed.
func (l *Link) behindPeer() []netip.Prefix {
	var all []netip.Prefix
	for _, address := range l.Peer.Addresses {
		all = append(all, netip.PrefixFrom(address, address.BitLen()))
	}
	all = append(all, l.Routes...)
	if len(all) <= maxPeerSubnets {
		return all
	}
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// maxPeerSubnets is ktsnd's limit for one peer.
const maxPeerSubnets = 64

// same reports whether two links have the same ends. Their other differences can be changed while they are plugged.
func (l *Link) same(other *Link) bool {
	return slices.Equal(l.Addresses, other.Addresses) && l.MAC == other.MAC && slices.Equal(l.Peer.Addresses, other.Peer.Addresses) &&
		l.Peer.MAC == other.Peer.MAC
}

// linkNetwork returns the network of a link on this node.
func linkNetwork(vni uint32) overlay.Network {
	return overlay.Network{VNI: vni, Bridge: overlay.BridgeName(vni), Tunnel: overlay.TunnelName(vni), PointToPoint: true}
}

// The methods of Spec and Link below run inside the pod's network namespace, except for open.

// linkRouteProtocol marks the routes of links: no routing daemon of /etc/iproute2/rt_protos has it.
const linkRouteProtocol = 0x6b

// configureLink gives the pod's interface its settings, addresses, neighbours and routes, and sets it up.
func (s *Spec) configureLink() error {
	if s.Link.Closed { // first, so that the pod never has an address of the link without the route that rejects
		if err := s.Link.close(s.Interface); err != nil {
			return err
		}
	}
	if err := s.setLinkSettings(); err != nil {
		return err
	}
	link, err := netlink.LinkByName(s.Interface)
	if err != nil {
		return fmt.Errorf("look for %s in the pod: %w", s.Interface, err)
	}
	if err := s.guardOnce(); err != nil {
		return err
	}
	if link.Attrs().MTU != s.Overlay.MTU {
		if err := netlink.LinkSetMTU(link, s.Overlay.MTU); err != nil {
			return fmt.Errorf("give %s an MTU of %d: %w", s.Interface, s.Overlay.MTU, err)
		}
	}
	for _, prefix := range s.Link.Addresses {
		address := &netlink.Addr{IPNet: ipNet(prefix)}
		if prefix.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // nobody else is on the link
		}
		if err := netlink.AddrReplace(link, address); err != nil {
			return fmt.Errorf("give %s the address %s: %w", s.Interface, prefix, err)
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up in the pod: %w", s.Interface, err)
		}
	}
	if err := s.Link.setNeighbours(link); err != nil {
		return err
	}
	return s.Link.setRoutes(link)
}

// guardOnce attaches the program that separates untimed from timed datagrams, if it is missing.
func (s *Spec) guardOnce() error {
	if !isGuarded(s.Unseen, s.Device) {
		return nil
	}
	if count, err := capture.Read(s.Interface); err == nil && count.Attached && count.Mode == s.Capture {
		return nil
	}
	return s.guard()
}

// setLinkSettings sets the interface's sysctls for the link's families.
func (s *Spec) setLinkSettings() error {
	settings := [][3]string{}
	if s.Link.gateway(false).IsValid() {
		settings = append(settings, [3]string{"ipv6", "disable_ipv6", "0"}, [3]string{"ipv6", "accept_ra", "0"}, [3]string{"ipv6", "keep_addr_on_down", "1"})
	} else if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		settings = append(settings, [3]string{"ipv6", "disable_ipv6", "1"})
	}
	if s.Link.forwards(ForwardIPv4) {
		// Replies may leave by another link.
		settings = append(settings, [3]string{"ipv4", "rp_filter", "2"})
	}
	for _, setting := range settings {
		path := "/proc/sys/net/" + setting[0] + "/conf/" + s.Interface + "/" + setting[1]
		if err := os.WriteFile(path, []byte(setting[2]), 0); err != nil {
			return fmt.Errorf("set %s of %s in the pod: %w", setting[1], s.Interface, err)
		}
	}
	return s.Link.setForwarding()
}

// setNeighbours adds the peer's hardware address to the pod's kernel, so that it need not ask.
func (l *Link) setNeighbours(link netlink.Link) error {
	mac, err := net.ParseMAC(l.Peer.MAC)
	if err != nil {
		return coded(types.ErrInvalidNetworkConfig, fmt.Errorf("link.peer.mac: %w", err))
	}
	for _, peer := range l.Peer.Addresses {
		entry := &netlink.Neigh{
			LinkIndex: link.Attrs().Index, Family: familyOf(peer), State: netlink.NUD_PERMANENT, IP: peer.AsSlice(), HardwareAddr: mac,
		}
		if err := netlink.NeighSet(entry); err != nil {
			return fmt.Errorf("set the hardware address of %s in the pod: %w", peer, err)
		}
	}
	return nil
}

func familyOf(address netip.Addr) int {
	if address.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// setRoutes adds missing routes of the link and removes others.
func (l *Link) setRoutes(link netlink.Link) error {
	wanted := map[netip.Prefix]bool{}
	for _, to := range l.Routes {
		wanted[to] = true
	}
	have, err := linkRoutes(link)
	if err != nil {
		return err
	}
	for i := range have {
		to, ok := prefixOf(have[i].Dst)
		if ok && wanted[to] {
			delete(wanted, to)
			continue
		}
		if err := netlink.RouteDel(&have[i]); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove the route to %v: %w", have[i].Dst, err)
		}
	}
	for to := range wanted {
		gateway := l.gateway(to.Addr().Is4())
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: linkRouteProtocol, Dst: ipNet(to), Gw: gateway.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("add the route to %s by %s: %w", to, gateway, explainLinkRoute(err))
		}
	}
	return nil
}

// linkRoutes lists the routes of a link's interface that have linkRouteProtocol.
func linkRoutes(link netlink.Link) ([]netlink.Route, error) {
	filter := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: linkRouteProtocol}
	routes, err := netdev.Dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list the routes of the link: %w", err)
	}
	return routes, nil
}

func explainLinkRoute(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: the pod has one by another interface; leave it out of the service's routes", err)
	}
	return err
}

func prefixOf(dst *net.IPNet) (netip.Prefix, bool) {
	if dst == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(dst.IP)
	bits, _ := dst.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits), ok
}

// refusalsOf returns the metrics of the routes that reject packets to the ends of a pod's link, and to the ranges
// behind it. Each link has its own metrics, by which its routes are found without a record, also next to those of
// another link to the same range. Routes of a plugged link have a lower metric.
func refusalsOf(interfaceName string) (ends, behind int) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(interfaceName))
	metric := 1<<24 | int(hash.Sum32()>>8)
	return metric, 1<<25 | metric
}

// CloseLink makes the pod's kernel reject packets to the other end of a link, and to the ranges behind it, as long as
// the link is not plugged. Through the pod's default route they would leave the node in clear. The routes stay until
// the link need not be closed, a range is no longer behind it, or the sandbox ends.
func CloseLink(plugged *Plugged) error {
	return ns.WithNetNSPath(plugged.Netns, func(ns.NetNS) error { return plugged.Link.close(plugged.Interface) })
}

// close adds the routes that reject. It runs inside the pod's network namespace.
func (l *Link) close(interfaceName string) error {
	var all error
	refuse := func(to netip.Prefix, metric int) {
		route := closedRoute(to, metric)
		if err := netlink.RouteReplace(&route); err != nil {
			all = errors.Join(all, fmt.Errorf("have the pod refuse what is for %s: %w", to, err))
		}
	}
	ends, behind := refusalsOf(interfaceName)
	for _, address := range l.Addresses {
		refuse(address.Masked(), ends) // both ends
	}
	for _, to := range l.Routes {
		refuse(to, behind)
	}
	return all
}

// open removes the rejecting routes that the link no longer needs: all if it need not be closed, else those of ranges
// that are not behind it any more. Addresses of a former endpoint stay rejected, as the pod may still send to them.
func (p *plugging) open() error {
	ends, behind := refusalsOf(p.Interface)
	filter := &netlink.Route{Type: unix.RTN_UNREACHABLE, Protocol: linkRouteProtocol}
	return p.netns.Do(func(ns.NetNS) error {
		have, err := netdev.Dump(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_TYPE|netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return fmt.Errorf("list what the pod refuses to send: %w", err)
		}
		for i := range have {
			to, ok := prefixOf(have[i].Dst)
			metric := have[i].Priority
			if !ok || metric != ends && metric != behind || p.Link.Closed && (metric == ends || slices.Contains(p.Link.Routes, to)) {
				continue
			}
			route := closedRoute(to, metric)
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("have the pod send to %s again: %w", to, err)
			}
		}
		return nil
	})
}

func closedRoute(to netip.Prefix, metric int) netlink.Route {
	return netlink.Route{Type: unix.RTN_UNREACHABLE, Dst: ipNet(to), Priority: metric, Protocol: linkRouteProtocol}
}
