// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// outcomes is the set of possible results of a chain for a packet.
type outcomes uint8

const (
	accepts outcomes = 1 << iota
	drops
	returns // what follows decides: the next rule, that of the calling chain, or the policy
	leaves  // the rest of the chain is skipped
)

// chance is whether a rule matches.
type chance uint8

const (
	never chance = iota
	maybe
	always
)

func (c chance) not() chance { return always - c }

func certain(yes bool) chance {
	if yes {
		return always
	}
	return never
}

// Connection states as rules see them: bits of linux/netfilter/nf_conntrack_common.h.
const (
	stateNew       = 0x8
	stateUntracked = 0x40
)

// packet is what is known of a packet.
type packet struct {
	// network and transport are the bytes of the headers that are known.
	network, transport map[int]byte
	// in and out are the names of interfaces; "" is none.
	in, out string
	// isBridged: br_netfilter shows a bridged frame.
	isBridged bool
	// state is its connection state, mark its mark; negative: unknown.
	state, mark int64
}

// Offsets in the header of IPv4.
const (
	atSource      = 12
	atDestination = 16
)

// udpHeaders returns a packet of IPv4 and UDP without addresses.
func udpHeaders(port uint16) packet {
	return packet{network: map[int]byte{0: 0x45, 6: 0, 7: 0, 9: unix.IPPROTO_UDP}, transport: map[int]byte{2: byte(port >> 8), 3: byte(port)}}
}

// site is where a packet is dropped.
type site struct {
	chain *chain
	rule  *rule // nil: the policy
}

// String names the table, chain and rule.
func (s *site) String() string {
	family := "ip"
	if s.chain.family == unix.NFPROTO_INET {
		family = "inet"
	}
	where := fmt.Sprintf("chain %s of table %s %s", s.chain.name, family, s.chain.table.name)
	if s.rule == nil {
		return "the policy of " + where
	}
	if s.rule.comment != "" {
		return fmt.Sprintf("a rule of %s (%q)", where, s.rule.comment)
	}
	return fmt.Sprintf("rule %d of %s", s.rule.handle, where)
}

const (
	// maxDepth is the kernel's limit of nested jumps (NFT_JUMP_STACK_SIZE).
	maxDepth = 16
	// maxRules bounds the work for one packet: many jumps to the same chains multiply.
	maxRules = 100_000
)

// walk follows a packet.
type walk struct {
	*ruleset
	packet
	// first and last are the first and the last possible drop.
	first, last *site
	rules       int
	gaveUp      bool
}

// verdict returns whether the packet is dropped in the chains of the hooks, and where.
func (s *ruleset) verdict(p packet, hooks ...int) (dropped chance, at *site) {
	w := walk{ruleset: s, packet: p}
	for _, hook := range hooks {
		for _, base := range s.at(hook) {
			result := w.follow(base, 0)
			if result&returns != 0 {
				result &^= returns
				if base.drops {
					result |= w.drop(base, nil)
				} else {
					result |= accepts
				}
			}
			switch {
			case w.gaveUp:
				return never, nil
			case result == drops:
				return always, w.last
			}
		}
	}
	if w.first != nil {
		return maybe, w.first
	}
	return never, nil
}

func (w *walk) drop(at *chain, r *rule) outcomes {
	w.last = &site{at, r}
	if w.first == nil {
		w.first = w.last
	}
	return drops
}

// follow returns the possible results of a chain.
func (w *walk) follow(c *chain, depth int) (all outcomes) {
	if depth > maxDepth {
		w.gaveUp = true
	}
	for _, r := range c.rules {
		if w.rules++; w.rules > maxRules || w.gaveUp {
			w.gaveUp = true
			return accepts
		}
		results := w.apply(c, r, depth)
		all |= results & (accepts | drops)
		if results&leaves != 0 {
			all |= returns
		}
		if results&returns == 0 {
			return all
		}
	}
	return all | returns
}

// apply returns the possible results of a rule; returns among them means that the next rule follows.
func (w *walk) apply(c *chain, r *rule, depth int) outcomes {
	if r.parsed == nil {
		r.parsed = parseExpressions(c.family, r.raw)
	}
	e := evaluation{walk: w, chain: c, rule: r, matched: always, depth: depth}
	for i := range r.parsed {
		e.step(&r.parsed[i])
		if e.matched == never {
			return returns
		}
		if e.results != 0 {
			break // a verdict ends the rule
		}
	}
	if e.results == 0 || e.matched == maybe {
		e.results |= returns
	}
	return e.results
}

// judge returns the results of a verdict.
func (e *evaluation) judge(code int32, to string) outcomes {
	switch code {
	case unix.NFT_RETURN:
		return leaves
	case unix.NFT_JUMP, unix.NFT_GOTO:
		target := e.tables[e.chain.table][to]
		if target == nil {
			return accepts | returns // removed meanwhile
		}
		results := e.follow(target, e.depth+1)
		if code == unix.NFT_GOTO && results&returns != 0 {
			results = results&^returns | leaves // the chain that it leads to returns past this one
		}
		return results
	case nfDrop:
		return e.drop(e.chain, e.rule)
	case nfAccept:
		return accepts
	case unix.NFT_CONTINUE, unix.NFT_BREAK:
		return returns
	}
	return accepts | returns // a queue, whose program decides
}

// Verdicts of linux/netfilter.h.
const (
	nfDrop   = 0
	nfAccept = 1
)

// writtenBy reports whether the rule or its chain has a prefix by which a program names what it wrote.
func (s *site) writtenBy(prefix string) bool {
	return s.rule != nil && strings.HasPrefix(s.rule.comment, prefix) || strings.HasPrefix(s.chain.name, prefix)
}
