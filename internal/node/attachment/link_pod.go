// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

// The methods of request and Link in this file run inside the pod's network namespace.

// linkRouteProtocol is by what the routes of links are known: no routing daemon of /etc/iproute2/rt_protos has it.
const linkRouteProtocol = 0x6b

// configureLink gives the pod's interface its settings, addresses, neighbours and routes, and sets it up.
func (s *Spec) configureLink() error {
	if s.Link.Closed { // first: from here on the pod has no moment with an address of the link and without the refusal
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
	for _, own := range s.Link.Addresses {
		address := &netlink.Addr{IPNet: ipNet(own)}
		if own.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD // nobody else is on the link
		}
		if err := netlink.AddrReplace(link, address); err != nil {
			return fmt.Errorf("give %s the address %s: %w", s.Interface, own, err)
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

// guardOnce attaches the program that keeps untimed from timed, if it is not there.
func (s *Spec) guardOnce() error {
	if !isGuarded(s.Unseen, s.Device) {
		return nil
	}
	if now, err := capture.Read(s.Interface); err == nil && now.Attached && now.Mode == s.Capture {
		return nil
	}
	return s.guard()
}

// setLinkSettings has the interface be of the link's families.
func (s *Spec) setLinkSettings() error {
	settings := [][3]string{}
	if s.Link.gateway(false).IsValid() {
		settings = append(settings, [3]string{"ipv6", "disable_ipv6", "0"}, [3]string{"ipv6", "accept_ra", "0"}, [3]string{"ipv6", "keep_addr_on_down", "1"})
	} else if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		settings = append(settings, [3]string{"ipv6", "disable_ipv6", "1"})
	}
	if s.Link.forwards(ForwardIPv4) {
		// What comes by one link may be answered by another.
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

// setNeighbours tells the pod's kernel the peer's hardware address, so that it need not ask.
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
			return fmt.Errorf("tell the pod the hardware address of %s: %w", peer, err)
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

// setRoutes makes the link's routes those that it shall have.
func (l *Link) setRoutes(link netlink.Link) error {
	wanted := map[netip.Prefix]bool{}
	for _, to := range l.Routes {
		wanted[to] = true
	}
	mask := netlink.RT_FILTER_OIF | netlink.RT_FILTER_PROTOCOL
	filter := &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: linkRouteProtocol}
	have, err := again(func() ([]netlink.Route, error) { return netlink.RouteListFiltered(netlink.FAMILY_ALL, filter, mask) })
	if err != nil {
		return fmt.Errorf("list the routes of the link: %w", err)
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
