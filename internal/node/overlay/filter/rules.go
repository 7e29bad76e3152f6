// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Reasons for which packets are dropped, as counters and comments name them.
const (
	ReasonIPv6      = "tunnel-ipv6"
	ReasonUplink    = "tunnel-not-by-uplink"
	ReasonPeer      = "tunnel-not-from-peer"
	ReasonSource    = "tunnel-inner-source"
	ReasonForwarded = "tunnel-forwarded"
	ReasonProgram   = "tunnel-from-program"
	ReasonToNode    = "bridge-to-node"
	ReasonFromNode  = "bridge-from-node"
)

// Names of the chains; a bridge's in family netdev has the bridge's name.
const (
	chainInput   = "input"
	chainTunnel  = "tunnel"
	chainInside  = "inside"
	chainTagged  = "tagged"
	chainForward = "forward"
	chainOutput  = "output"
	chainBridged = "bridged"
)

// Where things are, from the outer UDP header on. A frame inside begins behind the headers of UDP and VXLAN.
const (
	atPort = 2
	atVNI  = 8 + 4
	// atType is where the EtherType of a frame without a tag is; each tag moves it.
	atType   = 8 + 8 + 12
	tagBytes = 4
)

// rule is one rule; reason is the comment of those that drop.
type rule struct {
	comment string
	exprs   []expr.Any
}

// chain is a chain with its rules, in order.
type chain struct {
	name  string
	hook  *nftables.ChainHook
	rules []rule
}

// chains are those of family inet. The one that another jumps to comes first.
func chains() []chain {
	return []chain{
		{chainTagged, nil, append(inner(atType+tagBytes),
			drop(ReasonSource, isType(atType+tagBytes, unix.ETH_P_8021Q)...),
			drop(ReasonSource, isType(atType+tagBytes, unix.ETH_P_8021AD)...),
		)},
		{chainInside, nil, append(inner(atType),
			jump(chainTagged, isType(atType, unix.ETH_P_8021Q)...),
			jump(chainTagged, isType(atType, unix.ETH_P_8021AD)...),
		)},
		{chainTunnel, nil, []rule{
			drop(ReasonIPv6, meta(expr.MetaKeyNFPROTO), equal(unix.NFPROTO_IPV6)),
			drop(ReasonUplink, metaTo(0, expr.MetaKeyIIF), load(1, atVNI, 3), notIn(setUplinks)),
			drop(ReasonPeer, load(0, atVNI, 3), loadOuterSource(1), notIn(setPeers)),
			jump(chainInside),
		}},
		{chainInput, nftables.ChainHookInput, []rule{jump(chainTunnel, isOf(setTunnels)...)}},
		// The bridge sees only the replies of a captured connection, because ktsnd sends the requests. Connection tracking would call them
		// invalid, and rules of kube-proxy and others drop invalid packets (br_netfilter shows them bridged ones).
		{chainBridged, nftables.ChainHookPrerouting, []rule{untracked(meta(expr.MetaKeyIIFNAME), in(setClosed))}},
		{chainForward, nftables.ChainHookForward, []rule{drop(ReasonForwarded, isOf(setNetworks)...)}},
		{chainOutput, nftables.ChainHookOutput, []rule{
			// Packets with a user are from a program's socket; those of the kernel's tunnels have none, which ends the rule.
			drop(ReasonProgram, append(isOf(setSealed), meta(expr.MetaKeySKUID),
				&expr.Cmp{Op: expr.CmpOpGte, Register: unix.NFT_REG_1, Data: make([]byte, 4)})...),
			drop(ReasonFromNode, meta(expr.MetaKeyOIFNAME), &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: setClosed}),
		}},
	}
}

// closing returns the rules of a closed bridge's chain.
func closing() []rule { return []rule{drop(ReasonToNode)} }

// inner returns the rules that check the source of the inner frame, whose EtherType is at that offset. Frames that are neither IP
// nor ARP have no such address. The first rule accepts the most frequent frames, because each rule costs time for every packet after it.
func inner(at uint32) []rule {
	const (
		ipv4Source, ipv6Source, arpSource = 2 + 12, 2 + 8, 2 + 14
		ipv6Next, icmpv6Type, ndTarget    = 2 + 6, 2 + 40, 2 + 48
	)
	behind := []expr.Any{load(0, atVNI, 3), loadOuterSource(1)}
	source := func(offset, bytes uint32) []expr.Any { return append(behind[:2:2], load(2, at+offset, bytes)) }
	ofType := func(etherType uint16, more ...expr.Any) []expr.Any { return append(isType(at, etherType), more...) }
	advertisement := ofType(unix.ETH_P_IPV6, load(0, at+ipv6Next, 1), equal(unix.IPPROTO_ICMPV6), load(0, at+icmpv6Type, 1), equal(136))
	return []rule{
		accept(ofType(unix.ETH_P_IP, append(source(ipv4Source, 4), in(setSources4))...)...),
		// The querier of multicast groups may lack an address (RFC 4541).
		accept(ofType(unix.ETH_P_IP, load(0, at+ipv4Source, 4), equal(0, 0, 0, 0))...),
		drop(ReasonSource, ofType(unix.ETH_P_IP)...),
		// A host that checks whether an address is free (RFC 5227) has none yet.
		accept(ofType(unix.ETH_P_ARP, load(0, at+arpSource, 4), equal(0, 0, 0, 0))...),
		accept(ofType(unix.ETH_P_ARP, append(source(arpSource, 4), in(setSources4))...)...),
		drop(ReasonSource, ofType(unix.ETH_P_ARP)...),
		// A neighbour says where an address is, whatever address it says that from.
		drop(ReasonSource, append(append(advertisement, notLinkLocal(at+ndTarget)...),
			append(source(ndTarget, 16), notIn(setSources6))...)...),
		accept(ofType(unix.ETH_P_IPV6, linkLocal(at+ipv6Source)...)...),
		accept(ofType(unix.ETH_P_IPV6, load(0, at+ipv6Source, 16), equal(make([]byte, 16)...))...),
		accept(ofType(unix.ETH_P_IPV6, append(source(ipv6Source, 16), in(setSources6))...)...),
		drop(ReasonSource, ofType(unix.ETH_P_IPV6)...),
	}
}

// isOf matches packets with the port and VNI of a network of the set.
func isOf(set string) []expr.Any {
	return []expr.Any{meta(expr.MetaKeyL4PROTO), equal(unix.IPPROTO_UDP), load(0, atPort, 2), load(1, atVNI, 3), in(set)}
}

func isType(at uint32, etherType uint16) []expr.Any {
	return []expr.Any{load(0, at, 2), equal(byte(etherType>>8), byte(etherType))}
}

// linkLocal matches an address of fe80::/10 at that offset.
func linkLocal(at uint32) []expr.Any { return prefixed(at, expr.CmpOpEq) }

func notLinkLocal(at uint32) []expr.Any { return prefixed(at, expr.CmpOpNeq) }

func prefixed(at uint32, op expr.CmpOp) []expr.Any {
	return []expr.Any{
		load(0, at, 2),
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 2, Mask: []byte{0xff, 0xc0}, Xor: []byte{0, 0}},
		&expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: []byte{0xfe, 0x80}},
	}
}

// load brings bytes of the packet, counted from its UDP header, into a register of four bytes and those that follow.
func load(register, offset, bytes uint32) expr.Any {
	return &expr.Payload{DestRegister: unix.NFT_REG32_00 + register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: bytes}
}

func loadOuterSource(register uint32) expr.Any {
	return &expr.Payload{DestRegister: unix.NFT_REG32_00 + register, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
}

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: unix.NFT_REG_1} }

func metaTo(register uint32, key expr.MetaKey) expr.Any {
	return &expr.Meta{Key: key, Register: unix.NFT_REG32_00 + register}
}

func equal(bytes ...byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: bytes}
}

func in(set string) expr.Any {
	return &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: set}
}

func notIn(set string) expr.Any {
	return &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: set, Invert: true}
}

func drop(reason string, matches ...expr.Any) rule {
	return rule{reason, append(matches, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})}
}

func accept(matches ...expr.Any) rule {
	return rule{"", append(matches, &expr.Verdict{Kind: expr.VerdictAccept})}
}

// untracked keeps packets out of connection tracking.
func untracked(matches ...expr.Any) rule { return rule{"", append(matches, &expr.Notrack{})} }

func jump(to string, matches ...expr.Any) rule {
	return rule{"", append(matches, &expr.Verdict{Kind: expr.VerdictJump, Chain: to})}
}

// digest identifies a rule.
func (r *rule) digest(family nftables.TableFamily) (string, error) {
	sum := sha256.New()
	for _, e := range r.exprs {
		bytes, err := expr.Marshal(byte(family), e)
		if err != nil {
			return "", fmt.Errorf("write a rule of the filter: %w", err)
		}
		sum.Write(bytes)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}
