// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
)

// table identifies a table of nf_tables.
type table struct {
	family byte
	name   string
}

// chain is a chain with its rules. hook is negative for a chain that is only jumped to.
type chain struct {
	table
	name     string
	hook     int
	priority int32
	kind     string
	drops    bool // the policy
	rules    []*rule
}

// rule has its expressions as the kernel sends them until they are needed.
type rule struct {
	raw     []byte
	handle  uint64
	comment string
	parsed  []expression
}

// ruleset has the chains of families that IPv4 packets traverse, without those of package filter.
type ruleset struct {
	tables map[table]map[string]*chain
	sets   map[string]*set // read when needed, by table and name
	ipsets map[uint16][]netip.Prefix
}

// Attributes of linux/netfilter/nf_tables.h that package unix lacks, or that are shorter to name here.
const (
	setFlagInterval = 0x4
	elementIsEnd    = 0x1
	elementCatchAll = 0x2
	attributeKeyEnd = 10
)

// Generation identifies the state of all rules of nf_tables. Each change increments it.
func Generation() (uint32, error) {
	messages, err := request(unix.NFT_MSG_GETGEN, unix.NFPROTO_UNSPEC, 0)
	if err != nil || len(messages) == 0 {
		return 0, fmt.Errorf("ask for the generation of the packet filter: %w", err)
	}
	value := attributesOf(messages[0])[unix.NFTA_GEN_ID]
	if len(value) != 4 {
		return 0, errors.New("the kernel does not say which generation of rules it has")
	}
	return binary.BigEndian.Uint32(value), nil
}

// request sends a request to nf_tables and returns the answers.
func request(command int, family byte, flags int, attributes ...*nl.RtAttr) ([][]byte, error) {
	return netdev.Dump(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|command, flags)
		request.AddData(&nl.Nfgenmsg{NfgenFamily: family})
		for _, attribute := range attributes {
			request.AddData(attribute)
		}
		return request.Execute(unix.NETLINK_NETFILTER, 0)
	})
}

func named(kind int, name string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(name)) }

// attributesOf returns the attributes of a message by type, of several the last.
func attributesOf(message []byte) map[int][]byte {
	if len(message) < nl.SizeofNfgenmsg {
		return nil
	}
	return attributes(message[nl.SizeofNfgenmsg:])
}

func attributes(bytes []byte) map[int][]byte {
	all := map[int][]byte{}
	for _, attribute := range list(bytes) {
		all[kindOf(&attribute)] = attribute.Value
	}
	return all
}

// list returns attributes in order; none where they are damaged.
func list(bytes []byte) []syscall.NetlinkRouteAttr {
	all, err := nl.ParseRouteAttr(bytes)
	if err != nil {
		return nil
	}
	return all
}

func kindOf(attribute *syscall.NetlinkRouteAttr) int {
	return int(attribute.Attr.Type & nl.NLA_TYPE_MASK)
}

func text(value []byte) string { return strings.TrimRight(string(value), "\x00") }

func number(value []byte) uint64 {
	var sum uint64
	for _, b := range value {
		sum = sum<<8 | uint64(b)
	}
	return sum
}

// readRuleset reads the chains of all tables and the rules of tables with a chain at one of the hooks.
func readRuleset(hooks ...int) (*ruleset, error) {
	all := &ruleset{tables: map[table]map[string]*chain{}, sets: map[string]*set{}, ipsets: map[uint16][]netip.Prefix{}}
	messages, err := request(unix.NFT_MSG_GETCHAIN, unix.NFPROTO_UNSPEC, unix.NLM_F_DUMP)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return all, nil // the kernel has no nf_tables, and so no rules
	}
	if err != nil {
		return nil, fmt.Errorf("list the chains of the packet filter: %w", err)
	}
	needed := map[table]bool{}
	for _, message := range messages {
		c := readChain(message)
		if c.name == "" || c.table.name == filter.Name || c.family != unix.NFPROTO_INET && c.family != unix.NFPROTO_IPV4 {
			continue
		}
		if all.tables[c.table] == nil {
			all.tables[c.table] = map[string]*chain{}
		}
		all.tables[c.table][c.name] = c
		needed[c.table] = needed[c.table] || c.filters(hooks...)
	}
	for table := range needed {
		if needed[table] {
			err = errors.Join(err, all.readRules(table))
		}
	}
	return all, err
}

func readChain(message []byte) *chain {
	have := attributesOf(message)
	c := &chain{
		table: table{message[0], text(have[unix.NFTA_CHAIN_TABLE])}, name: text(have[unix.NFTA_CHAIN_NAME]), hook: -1,
		kind: text(have[unix.NFTA_CHAIN_TYPE]), drops: have[unix.NFTA_CHAIN_POLICY] != nil && number(have[unix.NFTA_CHAIN_POLICY]) == 0,
	}
	if hook := have[unix.NFTA_CHAIN_HOOK]; hook != nil {
		at := attributes(hook)
		c.hook, c.priority = int(number(at[unix.NFTA_HOOK_HOOKNUM])), int32(number(at[unix.NFTA_HOOK_PRIORITY]))
	}
	return c
}

// filters reports whether the chain is called at one of the hooks. Chains for address translation drop nothing.
func (c *chain) filters(hooks ...int) bool { return slices.Contains(hooks, c.hook) && c.kind != "nat" }

func (s *ruleset) readRules(in table) error {
	messages, err := request(unix.NFT_MSG_GETRULE, in.family, unix.NLM_F_DUMP, named(unix.NFTA_RULE_TABLE, in.name))
	if err != nil {
		return fmt.Errorf("list the rules of table %s: %w", in.name, err)
	}
	for _, message := range messages {
		have := attributesOf(message)
		if c := s.tables[in][text(have[unix.NFTA_RULE_CHAIN])]; c != nil && text(have[unix.NFTA_RULE_TABLE]) == in.name {
			comment, _ := userdata.GetString(have[unix.NFTA_RULE_USERDATA], userdata.TypeComment)
			c.rules = append(c.rules, &rule{raw: have[unix.NFTA_RULE_EXPRESSIONS], handle: number(have[unix.NFTA_RULE_HANDLE]), comment: comment})
		}
	}
	return nil
}

// at returns the chains of a hook in the order in which packets traverse them.
func (s *ruleset) at(hook int) []*chain {
	var all []*chain
	for _, chains := range s.tables {
		for _, c := range chains {
			if c.filters(hook) {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *chain) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), strings.Compare(a.table.name, b.table.name), strings.Compare(a.name, b.name))
	})
	return all
}

// set is a set or a map of nf_tables.
type set struct {
	interval bool
	elements []element
}

type element struct {
	key, end        []byte
	isEnd, catchAll bool
	data            []byte // of a map, as the kernel sends it
}

// set reads a set; nil if that fails.
func (s *ruleset) set(in table, name string) *set {
	id := fmt.Sprint(in, name)
	known, read := s.sets[id]
	if !read {
		known = readSet(in, name)
		s.sets[id] = known
	}
	return known
}

func readSet(in table, name string) *set {
	messages, err := request(unix.NFT_MSG_GETSET, in.family, 0, named(unix.NFTA_SET_TABLE, in.name), named(unix.NFTA_SET_NAME, name))
	if err != nil || len(messages) == 0 {
		return nil
	}
	known := &set{interval: number(attributesOf(messages[0])[unix.NFTA_SET_FLAGS])&setFlagInterval != 0}
	messages, err = request(unix.NFT_MSG_GETSETELEM, in.family, unix.NLM_F_DUMP, named(unix.NFTA_SET_ELEM_LIST_TABLE, in.name),
		named(unix.NFTA_SET_ELEM_LIST_SET, name))
	if err != nil {
		return nil
	}
	for _, message := range messages {
		for _, entry := range list(attributesOf(message)[unix.NFTA_SET_ELEM_LIST_ELEMENTS]) {
			have := attributes(entry.Value)
			flags := number(have[unix.NFTA_SET_ELEM_FLAGS])
			known.elements = append(known.elements, element{
				key: attributes(have[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE], end: attributes(have[attributeKeyEnd])[unix.NFTA_DATA_VALUE],
				isEnd: flags&elementIsEnd != 0, catchAll: flags&elementCatchAll != 0, data: have[unix.NFTA_SET_ELEM_DATA],
			})
		}
	}
	return known
}

// ipset returns the addresses of the ipset with that index, by which rules name it; nil if it cannot be read or has other elements.
func (s *ruleset) ipset(index uint16) []netip.Prefix {
	known, read := s.ipsets[index]
	if !read {
		known = readIPSet(index)
		s.ipsets[index] = known
	}
	return known
}

// From linux/netfilter/ipset/ip_set.h.
const (
	ipsetProtocol       = 7
	ipsetGetByIndex     = 15
	ipsetAttributeIndex = 11
)

func readIPSet(index uint16) []netip.Prefix {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_IPSET<<8|ipsetGetByIndex, 0)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_IPV4})
	request.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, []byte{ipsetProtocol}))
	request.AddData(nl.NewRtAttr(ipsetAttributeIndex|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint16(nil, index)))
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil || len(messages) == 0 {
		return nil
	}
	listed, err := netlink.IpsetList(text(attributesOf(messages[0])[nl.IPSET_ATTR_SETNAME]))
	if err != nil || listed.TypeName != "hash:ip" && listed.TypeName != "hash:net" {
		return nil
	}
	prefixes := []netip.Prefix{}
	for i := range listed.Entries {
		entry := &listed.Entries[i]
		address, ok := netip.AddrFromSlice(entry.IP)
		if !ok {
			return nil
		}
		bits := int(entry.CIDR)
		if bits == 0 {
			bits = address.Unmap().BitLen()
		}
		prefixes = append(prefixes, netip.PrefixFrom(address.Unmap(), bits))
	}
	return prefixes
}
