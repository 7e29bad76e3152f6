// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// arpIgnore returns the path of the setting with which an interface answers ARP for all addresses of the node (0) or its own (1).
func arpIgnore(name string) string { return "/proc/sys/net/ipv4/conf/" + name + "/arp_ignore" }

// keepQuiet makes the interface that Open vSwitch shares with the kernel answer ARP for its own addresses only. Otherwise it
// would also answer for br-phy's address, and peers would send tunnel packets to the wrong hardware address.
func (s *Switch) keepQuiet(ctx context.Context, plan *Plan) error {
	if plan.Interface == "" {
		return nil
	}
	setting := arpIgnore(plan.Interface)
	value, err := os.ReadFile(setting)
	if err != nil {
		return fmt.Errorf("read whether %s answers ARP for other interfaces: %w", plan.Interface, err)
	}
	if strings.TrimSpace(string(value)) != "0" {
		return nil
	}
	// Write the mark first, as with the address.
	if err := s.write(ctx, []string{"--", "set", "Open_vSwitch", ".", "external_ids:" + arpIgnored + "=" + quoted(plan.Interface)}); err != nil {
		return err
	}
	link, err := netdev.Find(plan.Interface)
	if err == nil && link != nil {
		err = setARPIgnore(link, 1)
	}
	if err != nil {
		return fmt.Errorf("make %s answer ARP for its own addresses only: %w", plan.Interface, err)
	}
	return nil
}

// devconfARPIgnore is IPV4_DEVCONF_ARP_IGNORE of linux/ip.h.
const devconfARPIgnore = 19

// setARPIgnore uses rtnetlink, because /proc/sys is read-only in an unprivileged container.
func setARPIgnore(link netlink.Link, value uint32) error {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(link.Attrs().Index)
	families := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	families.AddRtAttr(unix.AF_INET, nil).AddRtAttr(unix.IFLA_INET_CONF, nil).AddRtAttr(devconfARPIgnore, nl.Uint32Attr(value))
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	request.AddData(message)
	request.AddData(families)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// answerAgain undoes keepQuiet.
func answerAgain(have *database) error {
	name := have.root.pairs("external_ids")[arpIgnored]
	if name == "" {
		return nil
	}
	link, err := netdev.Find(name)
	if err == nil && link != nil { // it may be gone
		err = setARPIgnore(link, 0)
	}
	if err != nil {
		return fmt.Errorf("make %s answer ARP as before: %w", name, err)
	}
	return nil
}

// announce announces an interface's new address by ARP, so that peers do not keep sending to its old place.
func announce(name string, address netip.Addr) error {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("announce %s: %w", address, err)
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Sendto(fd, announcement(link.HardwareAddr, address), 0, &unix.SockaddrLinklayer{Ifindex: link.Index})
}

// announcement returns an ARP announcement (RFC 5227).
func announcement(hardware net.HardwareAddr, address netip.Addr) []byte {
	sender := address.As4()
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, hardware...)
	frame = append(frame, 0x08, 0x06, // ARP
		0, 1, 0x08, 0, 6, 4, 0, 1) // a request, of Ethernet and IPv4
	frame = append(append(frame, hardware...), sender[:]...)
	return append(append(frame, make([]byte, 6)...), sender[:]...)
}
