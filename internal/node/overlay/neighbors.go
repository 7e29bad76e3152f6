// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// A program at the node's end of a pod's interface drops ARP, RARP and neighbour discovery that names an address which is not the pod's.
// Without it one pod with CAP_NET_RAW overwrites the neighbour entries of all pods of its network. Each port has a program of its own,
// with the pod's addresses in it; the filter's name ends with a digest of them, so that a program for other addresses is replaced.

const (
	neighborsName     = "ktsn_neighbors"
	neighborsPriority = 3
)

const (
	// mostTags and mostExtensions are how many 802.1Q tags and IPv6 extension headers a frame may have. The kernel takes priority tags off
	// one after the other, whatever their number.
	mostTags, mostExtensions = 4, 8

	etherTypeARP, etherTypeRARP, etherTypeIPv6, etherTypeTag, etherTypeServiceTag = 0x0806, 0x8035, 0x86dd, 0x8100, 0x88a8
	atEtherType, vlanTagBytes, etherTypeBytes                                     = 12, 4, 2
	arpSender                                                                     = 14 // RFC 826, for IPv4 on Ethernet
	ipv6NextHeader, ipv6Source, ipv6Bytes, extensionUnit                          = 6, 8, 40, 8
	hopByHop, routingHeader, destinationOptions                                   = 0, 43, 60
	// RFC 4861: router solicitation, ..., redirect. Each may carry the hardware address of its sender.
	routerSolicitation, neighborSolicitation, neighborAdvertisement, redirect, ndTarget = 133, 135, 136, 137, 8
)

// Registers of the program.
const (
	regPacket = asm.R6 // where LoadAbs and LoadInd look for the packet
	regAt     = asm.R7 // offset of what is read next
	regKind   = asm.R8 // next header, then type of an ICMPv6 message
)

// KeepNeighbors makes sure that a port drops neighbour discovery for addresses outside the sources, and reports whether the program was
// missing. It does nothing for a port that is gone, or that is on a bridge of somebody else.
func (n *Node) KeepNeighbors(portName string, sources *control.Sources) (missing bool, err error) {
	port, err := n.link(portName)
	if err != nil || port == nil || sources == nil {
		return false, err
	}
	hardware, err := hardwareAddresses(sources)
	if err != nil {
		return false, err
	}
	missing, err = n.keepFilter(port, portFilter{
		Filter: netdev.Filter{Side: netdev.Ingress, Priority: neighborsPriority, Name: neighborsNameOf(sources)},
		load:   func() (*ebpf.Program, func() error, error) { return neighborsProgram(hardware, sources.Addresses) },
	})
	if errors.Is(err, errNoDevice) {
		return false, nil
	}
	return missing, err
}

func neighborsNameOf(sources *control.Sources) string {
	digest := fnv.New64a()
	fmt.Fprintf(digest, "1 %v %v", sources.HardwareAddresses, sources.Addresses)
	return fmt.Sprintf("%s:%x", neighborsName, digest.Sum64())
}

func hardwareAddresses(sources *control.Sources) (all []net.HardwareAddr, err error) {
	for _, text := range sources.HardwareAddresses {
		address, err := net.ParseMAC(text)
		if err != nil || len(address) != 6 {
			return nil, fmt.Errorf("%q is no hardware address of Ethernet", text)
		}
		all = append(all, address)
	}
	return all, nil
}

func neighborsProgram(hardware []net.HardwareAddr, addresses []netip.Prefix) (*ebpf.Program, func() error, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: neighborsName, Type: ebpf.SchedCLS, License: "GPL", Instructions: neighborsInstructions(hardware, addresses),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("load the program that drops foreign neighbour discovery: %w", err)
	}
	return program, program.Close, nil
}

func neighborsInstructions(hardware []net.HardwareAddr, addresses []netip.Prefix) asm.Instructions {
	code := asm.Instructions{asm.Mov.Reg(regPacket, asm.R1), asm.Mov.Imm(regAt, atEtherType)}
	for i := range mostTags + 1 {
		tag := fmt.Sprintf("tag%d", i)
		code = append(code,
			asm.LoadInd(asm.R0, regAt, 0, asm.Half),
			asm.JEq.Imm(asm.R0, etherTypeARP, "arp"),
			asm.JEq.Imm(asm.R0, etherTypeRARP, "arp"),
			asm.JEq.Imm(asm.R0, etherTypeIPv6, "ipv6"),
			asm.JEq.Imm(asm.R0, etherTypeTag, tag),
			asm.JNE.Imm(asm.R0, etherTypeServiceTag, "pass"),
			asm.Add.Imm(regAt, vlanTagBytes).WithSymbol(tag),
		)
	}
	code = append(code, asm.Ja.Label("drop")) // no host needs more tags
	code = append(code, arpInstructions(addresses)...)
	code = append(code, ndInstructions(hardware, addresses)...)
	return append(code,
		asm.Mov.Imm(asm.R0, goesOn).WithSymbol("pass"), asm.Return(),
		asm.Mov.Imm(asm.R0, dropped).WithSymbol("drop"), asm.Return(),
	)
}

// arpInstructions pass ARP from the pod's addresses, and from senders without an address yet (RFC 5227).
func arpInstructions(addresses []netip.Prefix) asm.Instructions {
	code := asm.Instructions{
		asm.LoadInd(asm.R0, regAt, etherTypeBytes+arpSender, asm.Word).WithSymbol("arp"),
		asm.JEq.Imm(asm.R0, 0, "pass"),
	}
	for _, prefix := range addresses {
		if !prefix.Addr().Is4() {
			continue
		}
		mask := binary.BigEndian.Uint32(net.CIDRMask(prefix.Bits(), 32))
		from := prefix.Masked().Addr().As4()
		code = append(code,
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.And.Imm32(asm.R1, int32(mask)),
			asm.JEq.Imm32(asm.R1, int32(binary.BigEndian.Uint32(from[:])), "pass"),
		)
	}
	return append(code, asm.Ja.Label("drop"))
}

// ndInstructions pass neighbour discovery from the pod's addresses, if it announces no address of others.
func ndInstructions(hardware []net.HardwareAddr, addresses []netip.Prefix) asm.Instructions {
	code := asm.Instructions{
		asm.Add.Imm(regAt, etherTypeBytes).WithSymbol("ipv6"),
		asm.LoadInd(asm.R0, regAt, ipv6NextHeader, asm.Byte),
		asm.Mov.Reg(regKind, asm.R0),
	}
	code = append(code, loadAddress(ipv6Source)...)
	code = append(code, asm.Add.Imm(regAt, ipv6Bytes))
	for i := range mostExtensions {
		extension := fmt.Sprintf("extension%d", i)
		code = append(code,
			asm.JEq.Imm(regKind, hopByHop, extension), asm.JEq.Imm(regKind, routingHeader, extension),
			asm.JNE.Imm(regKind, destinationOptions, "upper"),
			asm.LoadInd(asm.R0, regAt, 0, asm.Byte).WithSymbol(extension),
			asm.Mov.Reg(regKind, asm.R0),
			asm.LoadInd(asm.R0, regAt, 1, asm.Byte),
			asm.Add.Imm(asm.R0, 1),
			asm.Mul.Imm(asm.R0, extensionUnit),
			asm.Add.Reg(regAt, asm.R0),
		)
	}
	code = append(code,
		asm.JEq.Imm(regKind, hopByHop, "drop"), asm.JEq.Imm(regKind, routingHeader, "drop"), asm.JEq.Imm(regKind, destinationOptions, "drop"),
		asm.JNE.Imm(regKind, unix.IPPROTO_ICMPV6, "pass").WithSymbol("upper"),
		asm.LoadInd(asm.R0, regAt, 0, asm.Byte),
		asm.Mov.Reg(regKind, asm.R0),
		asm.JLT.Imm(regKind, routerSolicitation, "pass"),
		asm.JGT.Imm(regKind, redirect, "pass"),
	)
	code = append(code, checkAddress("source", hardware, addresses)...)
	// A host that checks whether an address is free sends from the unspecified address and asks for its own.
	code = append(code,
		asm.JEq.Imm(regKind, neighborSolicitation, "target").WithSymbol("source-none"),
		asm.JEq.Imm(regKind, neighborAdvertisement, "target").WithSymbol("source-own"),
		asm.Ja.Label("pass"),
	)
	// A solicitation from an address of the pod may ask for any address; one from the unspecified address may not.
	code = append(code, loadAddressAt("target", ndTarget)...)
	code = append(code, checkAddress("target", hardware, addresses)...)
	return append(code, asm.Ja.Label("drop").WithSymbol("target-none"), asm.Ja.Label("pass").WithSymbol("target-own"))
}

// addressWord is the offset on the stack of a word of the address that is checked.
func addressWord(i int) int16 { return int16(-16 + 4*i) }

func loadAddress(offset int32) (code asm.Instructions) {
	for i := range 4 {
		code = append(code, asm.LoadInd(asm.R0, regAt, offset+int32(4*i), asm.Word), asm.StoreMem(asm.RFP, addressWord(i), asm.R0, asm.Word))
	}
	return code
}

func loadAddressAt(label string, offset int32) asm.Instructions {
	code := loadAddress(offset)
	code[0] = code[0].WithSymbol(label)
	return code
}

// checkAddress jumps to "NAME-none" for the unspecified address and to "NAME-own" for an address of the pod, and drops the frame otherwise.
func checkAddress(name string, hardware []net.HardwareAddr, addresses []netip.Prefix) asm.Instructions {
	allowed, none := name+"-own", name+"-none"
	code := asm.Instructions{}
	for i := range 4 {
		code = append(code, asm.LoadMem(asm.Register(1+i), asm.RFP, addressWord(i), asm.Word))
	}
	code = append(code,
		asm.Mov.Reg(asm.R0, asm.R1), asm.Or.Reg(asm.R0, asm.R2), asm.Or.Reg(asm.R0, asm.R3), asm.Or.Reg(asm.R0, asm.R4),
		asm.JEq.Imm(asm.R0, 0, none))
	for i, prefix := range addresses {
		if prefix.Addr().Is4() {
			continue
		}
		next := fmt.Sprintf("%s-prefix%d", name, i)
		mask, from := net.CIDRMask(prefix.Bits(), 128), prefix.Masked().Addr().As16()
		for word := range 4 {
			code = append(code,
				asm.Mov.Reg(asm.R0, asm.Register(1+word)),
				asm.And.Imm32(asm.R0, int32(binary.BigEndian.Uint32(mask[4*word:]))),
				asm.JNE.Imm32(asm.R0, int32(binary.BigEndian.Uint32(from[4*word:])), next),
			)
		}
		code = append(code, asm.Ja.Label(allowed), asm.Mov.Reg(asm.R0, asm.R1).WithSymbol(next))
	}
	return append(code, checkLinkLocal(allowed, hardware)...)
}

// checkLinkLocal drops addresses that are not link-local, and those derived from the hardware address of somebody else (RFC 4291 appendix
// A). Addresses that are derived from no hardware address (RFC 7217) pass: their owner is unknown.
func checkLinkLocal(allowed string, hardware []net.HardwareAddr) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R0, asm.R1), asm.And.Imm32(asm.R0, -0x400000), asm.JNE.Imm32(asm.R0, -0x1800000, "drop"), // ffc00000, fe800000
		asm.Mov.Reg(asm.R0, asm.R3), asm.And.Imm32(asm.R0, 0xff), asm.JNE.Imm32(asm.R0, 0xff, allowed),
		asm.Mov.Reg(asm.R0, asm.R4), asm.And.Imm32(asm.R0, -0x1000000), asm.JNE.Imm32(asm.R0, -0x2000000, allowed), // ff000000, fe000000
	}
	for i, address := range hardware {
		next := fmt.Sprintf("%s-hardware%d", strings.TrimSuffix(allowed, "-own"), i)
		upper := binary.BigEndian.Uint32([]byte{address[0] ^ 2, address[1], address[2], 0xff})
		lower := binary.BigEndian.Uint32([]byte{0xfe, address[3], address[4], address[5]})
		code = append(code,
			asm.JNE.Imm32(asm.R3, int32(upper), next),
			asm.JEq.Imm32(asm.R4, int32(lower), allowed),
			asm.Mov.Reg(asm.R0, asm.R1).WithSymbol(next),
		)
	}
	return append(code, asm.Ja.Label("drop"))
}
