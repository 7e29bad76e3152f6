// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

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
	if err := os.WriteFile(setting, []byte("1"), 0); err != nil {
		return fmt.Errorf("have %s answer ARP for its own addresses only: %w", plan.Interface, err)
	}
	return nil
}

// answerAgain undoes keepQuiet.
func answerAgain(have *database) error {
	name := have.root.pairs("external_ids")[arpIgnored]
	if name == "" {
		return nil
	}
	if err := os.WriteFile(arpIgnore(name), []byte("0"), 0); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("have %s answer ARP as before: %w", name, err)
	}
	return nil
}

// announce tells by ARP where an address of br-phy's is: who knew it elsewhere would go on sending there for a while.
func announce(address netip.Addr) error {
	link, err := net.InterfaceByName(BridgePhysical)
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
