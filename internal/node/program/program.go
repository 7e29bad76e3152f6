// SPDX-License-Identifier: Apache-2.0

// Package program reads the program headers of an executable file: whether a loader loads libraries for it, and whether Go's
// toolchain built it. The file may be hostile. The reader bounds every size and offset from it, allocates at most some kilobytes,
// and never reads sections, which a program does not need to run and which may claim to be gigabytes long.
//
// Its limits are those of the kernel's loader (fs/binfmt_elf.c): the kernel does not start files beyond them.
package program

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits of the parts that are read, in bytes. headersMax and interpreterMax are the kernel's.
const (
	headersMax     = 64 << 10
	interpreterMax = 4096
	noteMax        = 4 << 10
	dataMax        = 64 << 10
	dynamicMax     = 16 << 10
	namesMax       = 1 << 20
)

// segmentsMax is the number of segments of a kind that are read.
const segmentsMax = 4

// ErrNoProgram means that the kernel would not start the file as an ELF program.
var ErrNoProgram = errors.New("no ELF program")

// Program has information from program headers.
type Program struct {
	Machine elf.Machine
	Class   elf.Class
	Data    elf.Data
	// Static: it has no interpreter, which would load libraries.
	Static bool
	// Go: Go's toolchain built it.
	Go bool

	segments []segment
}

// segment is a program header.
type segment struct {
	kind                   elf.ProgType
	flags                  elf.ProgFlag
	offset, address, bytes uint64
}

// Read reads an executable file, at most some 400 KiB of it.
func Read(file io.ReaderAt) (*Program, error) {
	p, table, err := readHeader(file)
	if err != nil {
		return nil, err
	}
	raw, err := readPart(file, table.offset, table.bytes)
	if err != nil {
		return nil, fmt.Errorf("program headers: %w", err)
	}
	form := formOf(p.Class)
	for ; len(raw) >= form.headerBytes; raw = raw[form.headerBytes:] {
		p.segments = append(p.segments, form.segment(p.order(), raw))
	}
	p.Static = true
	for _, s := range p.segments {
		if s.kind == elf.PT_INTERP {
			if s.bytes < 2 || s.bytes > interpreterMax {
				return nil, fmt.Errorf("its loader's name has %d bytes: %w", s.bytes, ErrNoProgram)
			}
			p.Static = false
		}
	}
	p.Go = p.hasGoNote(file) || p.hasGoData(file)
	return p, nil
}

// form has the sizes and offsets in headers of a class, in bytes.
type form struct {
	fileBytes, headerBytes, tableAt, entryBytesAt, countAt int
	segment                                                func(binary.ByteOrder, []byte) segment
}

func formOf(class elf.Class) form {
	if class == elf.ELFCLASS32 {
		return form{52, 32, 28, 42, 44, func(order binary.ByteOrder, raw []byte) segment {
			word := func(at int) uint64 { return uint64(order.Uint32(raw[at:])) }
			return segment{elf.ProgType(word(0)), elf.ProgFlag(word(24)), word(4), word(8), word(16)}
		}}
	}
	return form{64, 56, 32, 54, 56, func(order binary.ByteOrder, raw []byte) segment {
		return segment{elf.ProgType(order.Uint32(raw)), elf.ProgFlag(order.Uint32(raw[4:])), order.Uint64(raw[8:]),
			order.Uint64(raw[16:]), order.Uint64(raw[32:])}
	}}
}

// order returns the program's byte order.
func (p *Program) order() binary.ByteOrder {
	if p.Data == elf.ELFDATA2MSB {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// readHeader reads the file header and returns the location of the program headers.
func readHeader(file io.ReaderAt) (*Program, segment, error) {
	var raw [64]byte
	if count, err := file.ReadAt(raw[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, segment{}, err
	} else if count < 52 || !bytes.HasPrefix(raw[:], []byte(elf.ELFMAG)) {
		return nil, segment{}, ErrNoProgram
	}
	p := &Program{Class: elf.Class(raw[elf.EI_CLASS]), Data: elf.Data(raw[elf.EI_DATA])}
	if p.Class != elf.ELFCLASS32 && p.Class != elf.ELFCLASS64 || p.Data != elf.ELFDATA2LSB && p.Data != elf.ELFDATA2MSB {
		return nil, segment{}, ErrNoProgram
	}
	form, order := formOf(p.Class), p.order()
	p.Machine = elf.Machine(order.Uint16(raw[18:]))
	table := segment{offset: uint64(order.Uint32(raw[form.tableAt:]))}
	if p.Class == elf.ELFCLASS64 {
		table.offset = order.Uint64(raw[form.tableAt:])
	}
	table.bytes = uint64(order.Uint16(raw[form.countAt:])) * uint64(form.headerBytes) //nolint:gosec // small
	if int(order.Uint16(raw[form.entryBytesAt:])) != form.headerBytes || table.bytes == 0 || table.bytes > headersMax {
		return nil, segment{}, fmt.Errorf("%d bytes of program headers: %w", table.bytes, ErrNoProgram)
	}
	return p, table, nil
}

// readPart reads a part of a file. It fails if the file is shorter.
func readPart(file io.ReaderAt, offset, size uint64) ([]byte, error) {
	if offset > math.MaxInt64-size {
		return nil, io.ErrUnexpectedEOF
	}
	part := make([]byte, size)
	if count, err := file.ReadAt(part, int64(offset)); uint64(count) < size { //nolint:gosec // it fits
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return part, nil
}

// readBeginning reads the beginning of a segment, up to a limit or the end of the file.
func readBeginning(file io.ReaderAt, s segment, limit uint64) []byte {
	size := min(s.bytes, limit)
	if s.offset > math.MaxInt64-size {
		return nil
	}
	part := make([]byte, size)
	count, _ := file.ReadAt(part, int64(s.offset)) //nolint:gosec // it fits
	return part[:count]
}

// choose returns the first segmentsMax chosen segments.
func (p *Program) choose(chooses func(segment) bool) []segment {
	var chosen []segment
	for _, s := range p.segments {
		if chooses(s) && len(chosen) < segmentsMax {
			chosen = append(chosen, s)
		}
	}
	return chosen
}
