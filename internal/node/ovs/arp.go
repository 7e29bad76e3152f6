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
)

// arpIgnore is the kernel's setting by which an interface answers ARP for every address of the node (0), or for its own (1).
func arpIgnore(name string) string { return "/proc/sys/net/ipv4/conf/" + name + "/arp_ignore" }

// keepQuiet makes the interface that Open vSwitch shares with the kernel answer ARP for its own addresses only. It would
// answer for br-phy's, too, and who asked would send what is in the tunnel to a hardware address that is not br-phy's.
func (s *Switch) keepQuiet(ctx context.Context, plan *Plan) error {
	if plan.Interface == "" {
		return nil
	}
	setting := arpIgnore(plan.Interface)
	value, err := os.ReadFile(setting)
	if err != nil {
		return fmt.Errorf("see whether %s answers ARP for other interfaces: %w", plan.Interface, err)
	}
	if strings.TrimSpace(string(value)) != "0" {
		return nil
	}
	// First the mark, as with the address.
	if err := s.write(ctx, []string{"--", "set", "Open_vSwitch", ".", "external_ids:" + arpIgnored + "=" + quoted(plan.Interface)}); err != nil {
		return err
	}
	link, err := findLink(plan.Interface)
	if err == nil && link != nil {
		err = setARPIgnore(link, 1)
	}
	if err != nil {
		return fmt.Errorf("have %s answer ARP for its own addresses only: %w", plan.Interface, err)
	}
	return nil
}

// devconfARPIgnore is the setting's number (IPV4_DEVCONF_ARP_IGNORE of linux/ip.h).
const devconfARPIgnore = 19

// setARPIgnore goes by way of rtnetlink, because /proc/sys is read-only in a container that is not privileged.
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
	link, err := findLink(name)
	if err == nil && link != nil { // it may be gone
		err = setARPIgnore(link, 0)
	}
	if err != nil {
		return fmt.Errorf("have %s answer ARP as before: %w", name, err)
	}
	return nil
}

// announce tells by ARP that an interface has an address now: who knew it elsewhere would go on sending there for a while.
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

// announcement is a frame to all by which a hardware address asks for its own IPv4 address (RFC 5227).
func announcement(hardware net.HardwareAddr, address netip.Addr) []byte {
	own := address.As4()
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, hardware...)
	frame = append(frame, 0x08, 0x06, // ARP
		0, 1, 0x08, 0, 6, 4, 0, 1) // a request, of Ethernet and IPv4
	frame = append(append(frame, hardware...), own[:]...)
	return append(append(frame, make([]byte, 6)...), own[:]...)
}
