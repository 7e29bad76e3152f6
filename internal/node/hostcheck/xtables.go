// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Bits and offsets of structures of linux/netfilter: xt_conntrack.h, xt_physdev.h, xt_set.h, xt_addrtype.h, xt_CT.h.
const (
	conntrackMatchAt    = 8*16 + 8 + 2 + 4*2
	conntrackInvertAt   = conntrackMatchAt + 2
	conntrackStateAt    = conntrackInvertAt + 2
	conntrackState      = 0x1
	conntrackStateAlias = 0x1 << 13
	conntrackUntracked  = 0x1 << 8
	stateInvalid        = 0x1
	physdevInvertAt     = 4 * unix.IFNAMSIZ
	physdevMatchAt      = physdevInvertAt + 1
	physdevIsBridged    = 0x4
	physdevIsIn         = 0x8
	setInvert           = 0x1
	setSource           = 0x2
	addressTypeLocal    = 1 << unix.RTN_LOCAL
	ctTargetNoTrack     = 0x1
)

// matchOfIPTables evaluates a match of iptables-nft.
func (e *evaluation) matchOfIPTables(raw []byte) {
	have := attributes(raw)
	e.match(e.xtMatch(text(have[unix.NFTA_MATCH_NAME]), number(have[unix.NFTA_MATCH_REV]), have[unix.NFTA_MATCH_INFO]))
}

// xtMatch evaluates a match of iptables; what is unknown or too short may match.
func (e *evaluation) xtMatch(name string, revision uint64, info []byte) chance {
	switch {
	case name == "comment":
		return always
	case name == "udp" && len(info) >= 9:
		return e.portsOfUDP(info)
	case name == "tcp" || name == "icmp" || name == "sctp":
		return never
	case name == "multiport" && revision == 1 && len(info) >= 48:
		return e.multiport(info)
	case name == "conntrack" && revision >= 1 && len(info) >= conntrackStateAt+2:
		return e.conntrack(info, revision)
	case name == "state" && len(info) >= 4:
		return e.hasState(uint64(binary.NativeEndian.Uint32(info)))
	case name == "mark" && revision == 1 && len(info) >= 9:
		if e.mark < 0 {
			return maybe
		}
		matches := uint32(e.mark)&binary.NativeEndian.Uint32(info[4:]) == binary.NativeEndian.Uint32(info)
		return certain(matches != (info[8] != 0))
	case name == "physdev" && len(info) > physdevMatchAt:
		return e.physdev(info)
	case name == "addrtype" && revision == 1 && len(info) >= 8:
		return e.addrtype(info)
	case name == "set" && len(info) >= 4:
		return e.inIPSet(info)
	}
	return maybe
}

func (e *evaluation) port() uint16 { return uint16(e.transport[2])<<8 | uint16(e.transport[3]) }

// portsOfUDP evaluates xt_udp: two ranges of ports in host order, and a byte of inversions.
func (e *evaluation) portsOfUDP(info []byte) chance {
	part := func(at int, known, invert bool) chance {
		low, high := binary.NativeEndian.Uint16(info[at:]), binary.NativeEndian.Uint16(info[at+2:])
		if low == 0 && high == 0xffff {
			return certain(!invert)
		}
		if !known {
			return maybe
		}
		return certain((e.port() >= low && e.port() <= high) != invert)
	}
	return min(part(0, false, info[8]&1 != 0), part(4, true, info[8]&2 != 0))
}

// multiport evaluates xt_multiport_v1: flags (source, destination, either), count, ports, which of them begin a range, inversion.
func (e *evaluation) multiport(info []byte) chance {
	const destination = 1
	if info[0] != destination {
		return maybe
	}
	port, listed := e.port(), false
	for i := 0; i < int(info[1]) && i < 15; i++ {
		low := binary.NativeEndian.Uint16(info[2+2*i:])
		high := low
		if info[32+i] != 0 && i+1 < 15 {
			i++
			high = binary.NativeEndian.Uint16(info[2+2*i:])
		}
		listed = listed || port >= low && port <= high
	}
	return certain(listed != (info[47] != 0))
}

// hasState evaluates a mask of connection states.
func (e *evaluation) hasState(mask uint64) chance {
	if e.state < 0 {
		// Neither packets of tunnels nor those that are not tracked are invalid.
		if mask&^stateInvalid == 0 {
			return never
		}
		return maybe
	}
	return certain(mask&uint64(e.state) != 0)
}

// conntrack evaluates xt_conntrack, if the state is all that it looks at.
func (e *evaluation) conntrack(info []byte, revision uint64) chance {
	flags, invert := binary.NativeEndian.Uint16(info[conntrackMatchAt:]), binary.NativeEndian.Uint16(info[conntrackInvertAt:])
	if flags&conntrackState == 0 {
		return maybe
	}
	mask := uint64(info[conntrackStateAt])
	if revision > 1 {
		mask = uint64(binary.NativeEndian.Uint16(info[conntrackStateAt:]))
	}
	if mask &^= stateUntracked; mask&conntrackUntracked != 0 { // the bit is another one there
		mask |= stateUntracked
	}
	state := e.hasState(mask)
	if invert&conntrackState != 0 {
		state = state.not()
	}
	if flags&^conntrackStateAlias != conntrackState {
		return min(state, maybe)
	}
	return state
}

// physdev evaluates whether the frame is bridged.
func (e *evaluation) physdev(info []byte) chance {
	flags, invert := info[physdevMatchAt], info[physdevInvertAt]
	if flags&^(physdevIsBridged|physdevIsIn) != 0 || flags == 0 {
		return maybe
	}
	yes := certain(e.isBridged)
	if invert&flags != 0 {
		if invert&flags != flags {
			return maybe
		}
		return yes.not()
	}
	return yes
}

// addrtype evaluates xt_addrtype_info_v1 for destinations: source, destination, flags.
func (e *evaluation) addrtype(info []byte) chance {
	const invertSource, invertDestination, limited = 1, 2, 4 | 8
	source, destination := binary.NativeEndian.Uint16(info), binary.NativeEndian.Uint16(info[2:])
	flags := binary.NativeEndian.Uint32(info[4:])
	if source != 0 || flags&(invertSource|limited) != 0 || e.isBridged {
		return maybe
	}
	return certain((destination&addressTypeLocal != 0) != (flags&invertDestination != 0))
}

// inIPSet evaluates xt_set of revision 1 and later for one address: index, dimension, flags.
func (e *evaluation) inIPSet(info []byte) chance {
	flags := info[3]
	if info[2] != 1 {
		return maybe
	}
	prefixes := e.ipset(binary.NativeEndian.Uint16(info))
	at := atDestination
	if flags&setSource != 0 {
		at = atSource
	}
	var bytes [4]byte
	for i := range bytes {
		value, known := e.network[at+i]
		if prefixes == nil || !known {
			return maybe
		}
		bytes[i] = value
	}
	inside := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(netip.AddrFrom4(bytes)) })
	return certain(inside != (flags&setInvert != 0))
}

// targetOfIPTables executes a target of iptables-nft that is no verdict.
func (e *evaluation) targetOfIPTables(raw []byte) {
	have := attributes(raw)
	e.xtTarget(text(have[unix.NFTA_TARGET_NAME]), have[unix.NFTA_TARGET_INFO])
}

func (e *evaluation) xtTarget(name string, info []byte) {
	switch name {
	case "REJECT":
		e.results = e.drop(e.chain, e.rule)
	case "CT":
		if len(info) > 2 && binary.NativeEndian.Uint16(info)&ctTargetNoTrack != 0 {
			e.become(stateUntracked)
		}
	case "NOTRACK":
		e.become(stateUntracked)
	case "MARK":
		e.mark = -1
	case "NFQUEUE", "TPROXY", "SYNPROXY":
		e.results = accepts | returns
	}
}
