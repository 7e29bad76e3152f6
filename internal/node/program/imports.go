// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"debug/elf"
	"io"
)

// Imports are the names with which a program is linked to libraries.
type Imports struct {
	// Libraries are the libraries that it needs.
	Libraries []string
	names     []byte
}

// Mentions reports whether the program has a dynamic symbol of that name, such as a function that it calls.
func (i *Imports) Mentions(name string) bool {
	return bytes.Contains(i.names, []byte("\x00"+name+"\x00"))
}

// ReadImports reads the imports of a program from its file. It returns none if there is no dynamic segment, or if it exceeds the
// limits.
func (p *Program) ReadImports(file io.ReaderAt) *Imports {
	imports := &Imports{}
	dynamic := p.choose(func(s segment) bool { return s.kind == elf.PT_DYNAMIC })
	if len(dynamic) == 0 {
		return imports
	}
	var needed []uint64
	var table segment
	for _, entry := range p.dynamicEntries(readBeginning(file, dynamic[0], dynamicMax)) {
		switch entry.tag {
		case elf.DT_NEEDED:
			needed = append(needed, entry.value)
		case elf.DT_STRTAB:
			table.address = entry.value
		case elf.DT_STRSZ:
			table.bytes = entry.value
		}
	}
	var mapped bool
	if table.offset, mapped = p.offsetOf(table.address); !mapped {
		return imports
	}
	imports.names = readBeginning(file, table, namesMax)
	for _, at := range needed {
		if at < uint64(len(imports.names)) {
			name, _, _ := bytes.Cut(imports.names[at:], []byte{0})
			imports.Libraries = append(imports.Libraries, string(name))
		}
	}
	return imports
}

type dynamicEntry struct {
	tag   elf.DynTag
	value uint64
}

func (p *Program) dynamicEntries(raw []byte) []dynamicEntry {
	var entries []dynamicEntry
	word, read := 8, func(at []byte) uint64 { return p.order().Uint64(at) }
	if p.Class == elf.ELFCLASS32 {
		word, read = 4, func(at []byte) uint64 { return uint64(p.order().Uint32(at)) }
	}
	for ; len(raw) >= 2*word; raw = raw[2*word:] {
		entry := dynamicEntry{elf.DynTag(read(raw)), read(raw[word:])} //nolint:gosec // compared only
		if entry.tag == elf.DT_NULL {
			break
		}
		entries = append(entries, entry)
	}
	return entries
}

// offsetOf returns the offset in the file of the byte that is loaded to an address.
func (p *Program) offsetOf(address uint64) (uint64, bool) {
	for _, s := range p.segments {
		if s.kind == elf.PT_LOAD && address >= s.address && address-s.address < s.bytes {
			return s.offset + (address - s.address), true
		}
	}
	return 0, false
}
