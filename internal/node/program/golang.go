// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"debug/elf"
	"io"
)

const (
	// goNoteType is that of the note with the build ID, whose owner is "Go".
	goNoteType  = 4
	goNoteOwner = "Go\x00\x00"
	// goMagic begins what debug/buildinfo reads; it is aligned, and near the beginning of the program's data.
	goMagic      = "\xff Go buildinf:"
	goMagicAlign = 16
)

// hasGoNote looks for the note that Go's linker writes, with cgo and without.
func (p *Program) hasGoNote(file io.ReaderAt) bool {
	for _, s := range p.choose(func(s segment) bool { return s.kind == elf.PT_NOTE }) {
		if p.isAmongNotes(readBeginning(file, s, noteMax)) {
			return true
		}
	}
	return false
}

func (p *Program) isAmongNotes(notes []byte) bool {
	const headBytes = 12
	for len(notes) >= headBytes {
		owner, content := uint64(p.order().Uint32(notes)), uint64(p.order().Uint32(notes[4:]))
		if p.order().Uint32(notes[8:]) == goNoteType && owner == uint64(len(goNoteOwner)) &&
			bytes.HasPrefix(notes[headBytes:], []byte(goNoteOwner)) {
			return true
		}
		size := headBytes + aligned(owner) + aligned(content)
		if size > uint64(len(notes)) {
			return false
		}
		notes = notes[size:]
	}
	return false
}

// aligned is the space that the parts of a note take.
func aligned(size uint64) uint64 { return (size + 3) &^ 3 }

// hasGoData looks for what Go's linker says of a program that was built without an ID.
func (p *Program) hasGoData(file io.ReaderAt) bool {
	for _, s := range p.choose(func(s segment) bool { return s.kind == elf.PT_LOAD && s.flags&(elf.PF_W|elf.PF_X) == elf.PF_W }) {
		data := readBeginning(file, s, dataMax)
		for at := 0; at+len(goMagic) <= len(data); at += goMagicAlign {
			if string(data[at:at+len(goMagic)]) == goMagic {
				return true
			}
		}
	}
	return false
}
