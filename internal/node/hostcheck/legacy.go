// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/netfilter_ipv4/ip_tables.h and linux/netfilter/x_tables.h: options of sockets, sizes and offsets of structures.
const (
	legacyGetInfo    = 64
	legacyGetEntries = 65
	tableNameBytes   = 32

	infoHooksAt     = tableNameBytes + 4
	infoUnderflowAt = infoHooksAt + 4*unix.NF_INET_NUMHOOKS
	infoSizeAt      = infoUnderflowAt + 4*unix.NF_INET_NUMHOOKS + 4
	infoBytes       = infoSizeAt + 4
	entriesAt       = tableNameBytes + 8 // in the reply with the entries

	entryMasksAt     = 8
	entryInAt        = 16
	entryOutAt       = entryInAt + unix.IFNAMSIZ
	entryInMaskAt    = entryOutAt + unix.IFNAMSIZ
	entryOutMaskAt   = entryInMaskAt + unix.IFNAMSIZ
	entryProtocolAt  = entryOutMaskAt + unix.IFNAMSIZ
	entryFlagsAt     = entryProtocolAt + 2
	entryInvertAt    = entryFlagsAt + 1
	entryTargetAt    = 88
	entryNextAt      = 90
	entryMatchesAt   = 112
	extensionNameAt  = 2
	extensionName    = 29
	extensionBytes   = 32
	flagFragment     = 0x1
	flagGoto         = 0x2
	invertIn         = 0x1
	invertOut        = 0x2
	invertTOS        = 0x4
	invertSource     = 0x8
	invertTarget     = 0x10
	invertFragment   = 0x20
	invertProtocol   = 0x40
	verdictReturn    = -5 // -NF_REPEAT - 1
	targetOfHeads    = "ERROR"
	suffixOfLegacy   = " (iptables-legacy)"
	maxLegacyRetries = 3
)

// legacyTables are the tables of iptables-legacy that can drop packets, and their priorities at all hooks.
var legacyTables = map[string]int32{"raw": -300, "mangle": -150, "filter": 0, "security": 50}

var legacyChains = [unix.NF_INET_NUMHOOKS]string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}

// readLegacy adds the chains of a table of iptables-legacy, which must exist: the kernel would create it.
func (s *ruleset) readLegacy(name string) error {
	priority, filters := legacyTables[name]
	if !filters {
		return nil
	}
	info, entries, err := readLegacyTable(name)
	if err == nil {
		err = s.addLegacy(table{unix.NFPROTO_IPV4, name + suffixOfLegacy}, priority, info, entries)
	}
	if err != nil {
		return fmt.Errorf("read table %s of iptables-legacy: %w", name, err)
	}
	return nil
}

// addLegacy adds the chains of a table. A chain that is only jumped to has the place of its first rule as its key, by which rules name it.
func (s *ruleset) addLegacy(in table, priority int32, info, entries []byte) error {
	chains := map[string]*chain{}
	hooks, policies := map[uint32]int{}, map[uint32]bool{}
	for hook := range unix.NF_INET_NUMHOOKS {
		if binary.NativeEndian.Uint32(info[tableNameBytes:])&(1<<hook) != 0 {
			hooks[binary.NativeEndian.Uint32(info[infoHooksAt+4*hook:])] = hook
			policies[binary.NativeEndian.Uint32(info[infoUnderflowAt+4*hook:])] = true
		}
	}
	var present *chain
	for at := 0; at < len(entries); {
		entry, next, err := legacyEntryAt(entries, at)
		if err != nil {
			return err
		}
		if hook, begins := hooks[uint32(at)]; begins {
			present = &chain{table: in, name: legacyChains[hook], hook: hook, priority: priority}
			chains[present.name] = present
		}
		target, data := extension(entry[entry.targetAt():])
		switch {
		case target == targetOfHeads:
			present = &chain{table: in, name: untilZero(data), hook: -1}
			chains[strconv.Itoa(next)] = present
		case present == nil:
			return fmt.Errorf("the rule at %d is in no chain", at)
		case policies[uint32(at)]:
			present.drops = entry.verdict() == -nfDrop-1
		default:
			present.rules = append(present.rules, &rule{
				handle: uint64(len(present.rules) + 1), comment: entry.comment(), parsed: []expression{{entry: entry, next: next}},
			})
		}
		at = next
	}
	s.tables[in] = chains
	return nil
}

// readLegacyTable reads a table, again if it changes meanwhile.
func readLegacyTable(name string) (info, entries []byte, err error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Close(socket) }()
	for range maxLegacyRetries {
		info = make([]byte, infoBytes)
		copy(info[:tableNameBytes-1], name)
		if err := getOption(socket, legacyGetInfo, info); err != nil {
			return nil, nil, err
		}
		size := info[infoSizeAt:]
		entries = make([]byte, entriesAt+int(binary.NativeEndian.Uint32(size)))
		copy(entries[:tableNameBytes-1], name)
		copy(entries[tableNameBytes:], size)
		if err = getOption(socket, legacyGetEntries, entries); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return info, entries[entriesAt:], err
}

func getOption(socket, option int, value []byte) error {
	length := uint32(len(value))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(socket), unix.SOL_IP, uintptr(option), uintptr(unsafe.Pointer(&value[0])),
		uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// legacyEntry is a rule of iptables-legacy as the kernel has it: struct ipt_entry, matches and target.
type legacyEntry []byte

func legacyEntryAt(entries []byte, at int) (entry legacyEntry, next int, err error) {
	rest := legacyEntry(entries[at:])
	if len(rest) < entryMatchesAt+extensionBytes {
		return nil, 0, fmt.Errorf("the rule at %d is too short", at)
	}
	length := int(binary.NativeEndian.Uint16(rest[entryNextAt:]))
	if target := rest.targetAt(); target < entryMatchesAt || length > len(rest) || length < target+extensionBytes {
		return nil, 0, fmt.Errorf("the rule at %d has a length of %d", at, length)
	}
	return rest[:length], at + length, nil
}

func (r legacyEntry) targetAt() int { return int(binary.NativeEndian.Uint16(r[entryTargetAt:])) }

// verdict returns the verdict of the standard target.
func (r legacyEntry) verdict() int32 {
	_, data := extension(r[r.targetAt():])
	if len(data) < 4 {
		return -nfAccept - 1
	}
	return int32(binary.NativeEndian.Uint32(data))
}

// extension returns name and data of a match or target, struct xt_entry_match.
func extension(raw []byte) (name string, data []byte) {
	length := min(int(binary.NativeEndian.Uint16(raw)), len(raw))
	name = untilZero(raw[extensionNameAt : extensionNameAt+extensionName])
	return name, raw[extensionBytes:max(length, extensionBytes)]
}

func untilZero(raw []byte) string {
	text, _, _ := bytes.Cut(raw, []byte{0})
	return string(text)
}

// matches calls do with each match until it returns false.
func (r legacyEntry) matches(do func(name string, revision uint64, data []byte) bool) {
	for at, end := entryMatchesAt, r.targetAt(); at+extensionBytes <= end; {
		length := int(binary.NativeEndian.Uint16(r[at:]))
		name, data := extension(r[at:end])
		if length < extensionBytes || !do(name, uint64(r[at+extensionBytes-1]), data) {
			return
		}
		at += length
	}
}

func (r legacyEntry) comment() (comment string) {
	r.matches(func(name string, _ uint64, data []byte) bool {
		if name == "comment" {
			comment = untilZero(data)
		}
		return true
	})
	return comment
}

// legacy executes a rule of iptables-legacy; next is the place of the one after it.
func (e *evaluation) legacy(r legacyEntry, next int) {
	flags, invert := r[entryFlagsAt], r[entryInvertAt]
	e.match(e.legacyAddress(r, 0, atSource, invert&invertSource != 0))
	e.match(e.legacyAddress(r, 4, atDestination, invert&invertTarget != 0))
	e.match(legacyInterface(e.in, r[entryInAt:], r[entryInMaskAt:], invert&invertIn != 0))
	e.match(legacyInterface(e.out, r[entryOutAt:], r[entryOutMaskAt:], invert&invertOut != 0))
	if protocol := binary.NativeEndian.Uint16(r[entryProtocolAt:]); protocol != 0 {
		e.match(certain((protocol == unix.IPPROTO_UDP) != (invert&invertProtocol != 0)))
	}
	if flags&flagFragment != 0 {
		e.match(certain(invert&invertFragment != 0))
	}
	r.matches(func(name string, revision uint64, data []byte) bool {
		e.match(e.xtMatch(name, revision, data))
		return e.matched != never
	})
	if e.matched == never {
		return
	}
	target, data := extension(r[r.targetAt():])
	if target != "" {
		e.xtTarget(target, data)
		return
	}
	switch verdict := r.verdict(); {
	case verdict == verdictReturn:
		e.results = leaves
	case verdict < 0:
		e.results = e.judge(-verdict-1, "")
	case flags&flagGoto != 0:
		e.results = e.judge(unix.NFT_GOTO, strconv.Itoa(int(verdict)))
	case int(verdict) != next: // otherwise it has no target
		e.results = e.judge(unix.NFT_JUMP, strconv.Itoa(int(verdict)))
	}
}

func (e *evaluation) legacyAddress(r legacyEntry, at, header int, invert bool) chance {
	result := always
	for i := range 4 {
		mask := r[entryMasksAt+at+i]
		value, known := e.network[header+i]
		switch {
		case mask == 0:
		case known && (value^r[at+i])&mask != 0:
			result = never
		case !known:
			result = min(result, maybe)
		}
	}
	if invert {
		return result.not()
	}
	return result
}

func legacyInterface(device string, wanted, mask []byte, invert bool) chance {
	result := always
	for i, b := range name(device) {
		if (b^wanted[i])&mask[i] != 0 {
			result = never
		}
	}
	if device == "" && !bytes.Equal(mask[:unix.IFNAMSIZ], make([]byte, unix.IFNAMSIZ)) {
		result = maybe
	}
	if invert {
		return result.not()
	}
	return result
}
