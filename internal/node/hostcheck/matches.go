// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// expression is an expression of a rule. any is nil for those of unknown kinds.
type expression struct {
	name string
	any  expr.Any
	raw  []byte
	// entry is a rule of iptables-legacy instead, and next the place of the one after it.
	entry legacyEntry
	next  int
}

// parseExpressions never returns nil.
func parseExpressions(family byte, raw []byte) []expression {
	all := []expression{}
	for _, entry := range list(raw) {
		have := attributes(entry.Value)
		e := expression{name: text(have[unix.NFTA_EXPR_NAME]), raw: have[unix.NFTA_EXPR_DATA]}
		var known expr.Any
		switch e.name {
		case "meta":
			known = &expr.Meta{}
		case "payload":
			known = &expr.Payload{}
		case "cmp":
			known = &expr.Cmp{}
		case "bitwise":
			known = &expr.Bitwise{}
		case "lookup":
			known = &expr.Lookup{}
		case "range":
			known = &expr.Range{}
		case "ct":
			known = &expr.Ct{}
		case "fib":
			known = &expr.Fib{}
		case "immediate":
			known = &expr.Immediate{}
		}
		if known != nil && expr.Unmarshal(family, e.raw, known) == nil {
			e.any = known
		}
		all = append(all, e)
	}
	return all
}

// registerBytes is the size of the registers of nf_tables together.
const registerBytes = 64

// registers hold what expressions load.
type registers struct {
	data  [registerBytes]byte
	known [registerBytes]bool
}

// at returns the first byte of a register: there are four of 16 bytes, and 16 of four bytes that are the same memory.
func at(register uint32) int {
	if register >= unix.NFT_REG32_00 {
		return int(register-unix.NFT_REG32_00) * 4
	}
	return int(register-unix.NFT_REG_1) * 16
}

// store stores bytes, nil for unknown ones; the rest of the length is unknown, too.
func (r *registers) store(register uint32, value []byte, length int) {
	for i := range max(length, len(value)) {
		if at := at(register) + i; at >= 0 && at < registerBytes {
			r.known[at] = i < len(value)
			if r.known[at] {
				r.data[at] = value[i]
			}
		}
	}
}

// load returns bytes, false if some of them are unknown.
func (r *registers) load(register uint32, length int) (value []byte, known bool) {
	from := at(register)
	if from < 0 || from+length > registerBytes || slices.Contains(r.known[from:from+length], false) {
		return nil, false
	}
	return r.data[from : from+length], true
}

// evaluation is that of one rule.
type evaluation struct {
	*walk
	registers
	chain   *chain
	rule    *rule
	matched chance
	results outcomes
	depth   int
}

func (e *evaluation) match(c chance) { e.matched = min(e.matched, c) }

// step executes an expression.
func (e *evaluation) step(x *expression) {
	switch known := x.any.(type) {
	case *expr.Meta:
		e.meta(known)
	case *expr.Payload:
		e.payload(known)
	case *expr.Cmp:
		e.compare(known)
	case *expr.Bitwise:
		e.bitwise(known)
	case *expr.Lookup:
		e.lookup(known)
	case *expr.Range:
		value, readable := e.load(known.Register, len(known.FromData))
		inside := bytes.Compare(value, known.FromData) >= 0 && bytes.Compare(value, known.ToData) <= 0
		e.matchIf(readable, inside == (known.Op == expr.CmpOpEq))
	case *expr.Ct:
		e.connection(known)
	case *expr.Fib:
		e.addressType(known)
	case *expr.Immediate:
		e.immediate(known, x.raw)
	default:
		if x.entry != nil {
			e.legacy(x.entry, x.next)
			return
		}
		e.other(x)
	}
}

// matchIf matches if yes, maybe if that is not known.
func (e *evaluation) matchIf(known, yes bool) {
	if !known {
		e.match(maybe)
		return
	}
	e.match(certain(yes))
}

// other executes expressions that package expr has no use for here.
func (e *evaluation) other(x *expression) {
	switch x.name {
	case "counter", "log", "objref", "last": // a quota of objref may drop nothing for certain
	case "reject":
		e.results = e.drop(e.chain, e.rule)
	case "notrack":
		e.become(stateUntracked)
	case "match":
		e.matchOfIPTables(x.raw)
	case "target":
		e.targetOfIPTables(x.raw)
	case "queue", "tproxy", "synproxy", "fwd":
		e.results = accepts | returns
	default:
		e.registers = registers{} // it may have loaded any
		e.match(maybe)
	}
}

// become sets the connection state.
func (e *evaluation) become(state int64) {
	if e.matched == always {
		e.state = state
	} else {
		e.state = -1
	}
}

func (e *evaluation) meta(m *expr.Meta) {
	if m.SourceRegister {
		if m.Key == expr.MetaKeyMARK {
			e.mark = -1
		}
		return
	}
	var value []byte
	length := 4
	switch m.Key {
	case expr.MetaKeyIIFNAME:
		value = name(e.in)
	case expr.MetaKeyOIFNAME:
		value = name(e.out)
	case expr.MetaKeyL4PROTO:
		value = []byte{unix.IPPROTO_UDP, 0, 0, 0}
	case expr.MetaKeyNFPROTO:
		value = []byte{unix.NFPROTO_IPV4, 0, 0, 0}
	case expr.MetaKeyPROTOCOL:
		value = []byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff, 0, 0}
	case expr.MetaKeyMARK:
		if e.mark >= 0 {
			value = binary.NativeEndian.AppendUint32(nil, uint32(e.mark))
		}
	default:
		length = unix.IFNAMSIZ
	}
	e.store(m.Register, value, length)
}

// name returns the name of an interface as registers have it, nil for none.
func name(device string) []byte {
	if device == "" {
		return nil
	}
	value := make([]byte, unix.IFNAMSIZ)
	copy(value, device)
	return value
}

func (e *evaluation) payload(p *expr.Payload) {
	if p.OperationType == expr.PayloadWrite {
		return
	}
	header := e.network
	switch p.Base {
	case expr.PayloadBaseNetworkHeader:
	case expr.PayloadBaseTransportHeader:
		header = e.transport
	default:
		header = nil
	}
	padded := (int(p.Len) + 3) &^ 3
	for i := range padded {
		value, known := header[int(p.Offset)+i]
		if i >= int(p.Len) {
			value, known = 0, true
		}
		if at := at(p.DestRegister) + i; at < registerBytes {
			e.data[at], e.known[at] = value, known
		}
	}
}

func (e *evaluation) compare(c *expr.Cmp) {
	value, known := e.load(c.Register, len(c.Data))
	order := bytes.Compare(value, c.Data)
	yes := map[expr.CmpOp]bool{
		expr.CmpOpEq: order == 0, expr.CmpOpNeq: order != 0, expr.CmpOpLt: order < 0, expr.CmpOpLte: order <= 0,
		expr.CmpOpGt: order > 0, expr.CmpOpGte: order >= 0,
	}
	e.matchIf(known, yes[c.Op])
}

func (e *evaluation) bitwise(b *expr.Bitwise) {
	value, known := e.load(b.SourceRegister, int(b.Len))
	if !known || len(b.Mask) != int(b.Len) || len(b.Xor) != int(b.Len) {
		e.store(b.DestRegister, nil, int(b.Len))
		return
	}
	result := make([]byte, b.Len)
	for i := range result {
		result[i] = value[i]&b.Mask[i] ^ b.Xor[i]
	}
	e.store(b.DestRegister, result, len(result))
}

// connection loads what connection tracking knows.
func (e *evaluation) connection(c *expr.Ct) {
	if c.SourceRegister {
		return
	}
	var value []byte
	if c.Key == expr.CtKeySTATE && e.state >= 0 {
		value = binary.NativeEndian.AppendUint32(nil, uint32(e.state))
	}
	e.store(c.Register, value, registerBytes/4)
}

// addressType loads what the routes say of the packet's addresses: only that a packet at the hook input is for the node.
func (e *evaluation) addressType(f *expr.Fib) {
	var value []byte
	if f.ResultADDRTYPE && f.FlagDADDR && !f.FlagIIF && e.chain.hook == unix.NF_INET_LOCAL_IN {
		value = binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)
	}
	e.store(f.Register, value, unix.IFNAMSIZ)
}

func (e *evaluation) immediate(i *expr.Immediate, raw []byte) {
	if i.Register != unix.NFT_REG_VERDICT {
		e.store(i.Register, i.Data, len(i.Data))
		return
	}
	e.results = e.judgeData(attributes(raw)[unix.NFTA_IMMEDIATE_DATA])
}

// judgeData returns the results of a verdict as the kernel sends it.
func (e *evaluation) judgeData(data []byte) outcomes {
	verdict := attributes(attributes(data)[unix.NFTA_DATA_VERDICT])
	code := verdict[unix.NFTA_VERDICT_CODE]
	if code == nil {
		return accepts | returns
	}
	return e.judge(int32(number(code)), text(verdict[unix.NFTA_VERDICT_CHAIN]))
}

// lookup searches a set, a map or a map of verdicts.
func (e *evaluation) lookup(l *expr.Lookup) {
	known := e.set(e.chain.table, l.SetName)
	item, chance := e.find(known, l.SourceRegister)
	if l.IsDestRegSet && l.DestRegister == unix.NFT_REG_VERDICT {
		e.judgeMap(known, item, chance)
		return
	}
	if l.IsDestRegSet {
		e.store(l.DestRegister, nil, unix.IFNAMSIZ)
	}
	if l.Invert {
		chance = chance.not()
	}
	e.match(chance)
}

// judgeMap returns the results of the element, or of all elements if the right one is not known.
func (e *evaluation) judgeMap(known *set, item *element, c chance) {
	switch {
	case c == always:
		e.results = e.judgeData(item.data)
	case c == never:
		e.match(never)
	case known == nil:
		e.results = accepts | returns
	default:
		e.match(maybe) // before what the elements lead to
		for i := range known.elements {
			e.results |= e.judgeData(known.elements[i].data)
		}
		e.results |= returns
	}
}

// find searches the element for the key in a register.
func (e *evaluation) find(in *set, register uint32) (*element, chance) {
	if in == nil {
		return nil, maybe
	}
	var best, rest *element
	for i := range in.elements {
		at := &in.elements[i]
		if at.catchAll {
			rest = at
			continue
		}
		key, known := e.load(register, len(at.key))
		if !known || len(at.end) > 0 {
			return nil, maybe
		}
		switch order := bytes.Compare(at.key, key); {
		case order == 0 && !in.interval:
			return at, always
		case in.interval && order <= 0 && (best == nil || bytes.Compare(best.key, at.key) < 0):
			best = at
		}
	}
	if best != nil && !best.isEnd {
		return best, always
	}
	if rest != nil {
		return rest, always
	}
	return nil, never
}
