// SPDX-License-Identifier: Apache-2.0

package wiretap

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// build serializes a frame with checksums and lengths.
func build(t *testing.T, all ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true}
	if err := gopacket.SerializeLayers(buffer, options, all...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// datagram returns Ethernet, IPv4 and UDP headers from 10.42.n.1 port n to 10.42.n.2 port toPort.
func datagram(n byte, toPort uint16) []gopacket.SerializableLayer {
	return []gopacket.SerializableLayer{
		&layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, n, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, n, 2},
			EthernetType: layers.EthernetTypeIPv4},
		&layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
			SrcIP: net.IP{10, 42, n, 1}, DstIP: net.IP{10, 42, n, 2}},
		&layers.UDP{SrcPort: layers.UDPPort(n), DstPort: layers.UDPPort(toPort)},
	}
}

func TestDissect(t *testing.T) {
	payload := gopacket.Payload("the payload, and so on")
	plain := build(t, append(datagram(1, 7000), payload)...)
	tunnelled := build(t, append(append(append(datagram(2, 4789), &layers.VXLAN{ValidIDFlag: true, VNI: 42}),
		datagram(1, 7000)...), payload)...)

	inner := datagram(1, 7000)
	inner[0].(*layers.Ethernet).EthernetType = layers.EthernetTypeDot1Q
	inner = append([]gopacket.SerializableLayer{inner[0], &layers.Dot1Q{VLANIdentifier: 3, Priority: 6, Type: layers.EthernetTypeIPv4}}, inner[1:]...)
	tagged := build(t, append(append(append(datagram(2, 4789), &layers.VXLAN{ValidIDFlag: true, VNI: 42}), inner...), payload)...)

	for name, test := range map[string]struct {
		frame       []byte
		vni         uint32
		outerSource string
		payload     string
	}{
		"without a tunnel":             {plain, 0, "", "the payload, and so on"},
		"inside VXLAN, with a tag":     {tagged, 42, "10.42.2.1", "the payload, and so on"},
		"inside VXLAN":                 {tunnelled, 42, "10.42.2.1", "the payload, and so on"},
		"inside VXLAN and cut by snap": {tunnelled[:len(tunnelled)-11], 42, "10.42.2.1", "the payload"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Dissect(test.frame)
			if err != nil {
				t.Fatal(err)
			}
			if got.VNI != test.vni || string(got.Payload) != test.payload {
				t.Errorf("VNI %d and payload %q", got.VNI, got.Payload)
			}
			if test.outerSource != "" && got.OuterSource != netip.MustParseAddr(test.outerSource) {
				t.Errorf("tunnel from %s", got.OuterSource)
			}
			if strings.HasSuffix(name, "a tag") != (got.VLAN != nil) || got.VLAN != nil && *got.VLAN != (VLANTag{ID: 3, PCP: 6}) {
				t.Errorf("the tag is %+v", got.VLAN)
			}
			if got.Source.String() != "10.42.1.1:1" || got.Destination.String() != "10.42.1.2:7000" {
				t.Errorf("from %s to %s", got.Source, got.Destination)
			}
			if got.SourceMAC.String() != "02:00:00:00:01:01" || got.DestinationMAC.String() != "02:00:00:00:01:02" {
				t.Errorf("from %s to %s", got.SourceMAC, got.DestinationMAC)
			}
		})
	}
}

func TestDissectErrors(t *testing.T) {
	whole := build(t, append(append(append(datagram(2, 4789), &layers.VXLAN{ValidIDFlag: true, VNI: 42}),
		datagram(1, 7000)...), gopacket.Payload("x"))...)
	for name, frame := range map[string][]byte{
		"nothing":                   {},
		"cut in the outer IPv4":     whole[:20],
		"cut in the VXLAN header":   whole[:14+20+8+3],
		"cut in the inner Ethernet": whole[:14+20+8+8+5],
		"cut in the inner UDP":      whole[:14+20+8+8+14+20+4],
		"not even Ethernet":         []byte("hello"),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Dissect(frame); err == nil {
				t.Errorf("found %+v", got)
			}
		})
	}
}
