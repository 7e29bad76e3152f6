// SPDX-License-Identifier: Apache-2.0

package wiretap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// ErrOther is returned for a frame that is well-formed and has no UDP datagram in its innermost frame.
var ErrOther = errors.New("not UDP over IPv4")

// Datagram is the innermost UDP datagram of a frame.
type Datagram struct {
	// VNI is the VXLAN network of the datagram, 0 for none. OuterSource and OuterDestination are the ends of the
	// tunnel, invalid for none.
	VNI                           uint32
	OuterSource, OuterDestination netip.Addr
	// SourceMAC and DestinationMAC are those of the innermost frame.
	SourceMAC, DestinationMAC net.HardwareAddr
	// VLAN is the tag of that frame. It is nil without a tag, and for a frame directly on the link, whose tag the
	// kernel stores separately.
	VLAN                *VLANTag
	Source, Destination netip.AddrPort
	// Payload may be truncated: a tap keeps only the beginning of a frame.
	Payload []byte
}

// vxlanPort is VXLAN's UDP port.
const vxlanPort = 4789

// Dissect returns the innermost UDP datagram of an Ethernet frame.
func Dissect(frame []byte) (*Datagram, error) {
	datagram := &Datagram{}
	for {
		if err := datagram.take(frame); err != nil {
			return nil, fmt.Errorf("dissect frame: %w", err)
		}
		if datagram.Destination.Port() != vxlanPort {
			return datagram, nil
		}
		var vxlan layers.VXLAN
		if err := vxlan.DecodeFromBytes(datagram.Payload, gopacket.NilDecodeFeedback); err != nil {
			return nil, fmt.Errorf("dissect frame: %w", err)
		}
		datagram.VNI = vxlan.VNI
		datagram.OuterSource, datagram.OuterDestination = datagram.Source.Addr(), datagram.Destination.Addr()
		frame = vxlan.Payload
	}
}

// take reads one Ethernet, IPv4 and UDP header.
func (d *Datagram) take(frame []byte) error {
	var ethernet layers.Ethernet
	if err := ethernet.DecodeFromBytes(frame, gopacket.NilDecodeFeedback); err != nil {
		return err
	}
	kind, content := ethernet.EthernetType, ethernet.Payload
	if kind == layers.EthernetTypeDot1Q {
		var tag layers.Dot1Q
		if err := tag.DecodeFromBytes(content, gopacket.NilDecodeFeedback); err != nil {
			return err
		}
		d.VLAN = &VLANTag{ID: tag.VLANIdentifier, PCP: tag.Priority}
		kind, content = tag.Type, tag.Payload
	}
	if kind != layers.EthernetTypeIPv4 {
		return fmt.Errorf("%s: %w", kind, ErrOther)
	}
	var ip layers.IPv4
	if err := ip.DecodeFromBytes(content, gopacket.NilDecodeFeedback); err != nil {
		return err
	}
	if ip.Protocol != layers.IPProtocolUDP {
		return fmt.Errorf("%s: %w", ip.Protocol, ErrOther)
	}
	var udp layers.UDP
	if err := udp.DecodeFromBytes(ip.Payload, gopacket.NilDecodeFeedback); err != nil {
		return err
	}
	d.SourceMAC, d.DestinationMAC = ethernet.SrcMAC, ethernet.DstMAC
	d.Source = netip.AddrPortFrom(address(ip.SrcIP), uint16(udp.SrcPort))
	d.Destination = netip.AddrPortFrom(address(ip.DstIP), uint16(udp.DstPort))
	d.Payload = udp.Payload
	return nil
}

func address(ip net.IP) netip.Addr {
	converted, _ := netip.AddrFromSlice(ip)
	return converted.Unmap()
}
