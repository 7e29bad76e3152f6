// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

func TestAnnouncement(t *testing.T) {
	hardware := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	address := netip.MustParseAddr("192.0.2.1")
	packet := gopacket.NewPacket(announcement(hardware, address), layers.LayerTypeEthernet, gopacket.Default)
	ethernet, _ := packet.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	arp, _ := packet.Layer(layers.LayerTypeARP).(*layers.ARP)
	if ethernet == nil || arp == nil {
		t.Fatalf("it is %v", packet)
	}
	if ethernet.SrcMAC.String() != hardware.String() || ethernet.DstMAC.String() != "ff:ff:ff:ff:ff:ff" || arp.Operation != layers.ARPRequest ||
		net.IP(arp.SourceProtAddress).String() != address.String() || net.IP(arp.DstProtAddress).String() != address.String() ||
		net.HardwareAddr(arp.SourceHwAddress).String() != hardware.String() {
		t.Errorf("it is %v", packet)
	}
}
