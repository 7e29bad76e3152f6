// SPDX-License-Identifier: Apache-2.0

// Package program reads what can be told of an executable file from its program headers: who loads libraries for it, and
// whether Go's toolchain built it. Whoever wrote the file may be hostile. So the reader takes no size and no place from it
// without a bound, allocates no more than some kilobytes, and never looks at sections, which are not needed to run a
// program and may claim to be gigabytes long.
//
// Its limits are those of the kernel's own loader (fs/binfmt_elf.c): what is beyond them cannot be started.
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

// Limits of what is read, in bytes. The kernel's are headersMax and interpreterMax.
const (
	headersMax     = 64 << 10
	interpreterMax = 4096
	noteMax        = 4 << 10
	dataMax        = 64 << 10
	dynamicMax     = 16 << 10
	namesMax       = 1 << 20
)

// segmentsMax is how many segments of a kind are looked into.
const segmentsMax = 4

// ErrNoProgram is the error of a file that the kernel would not start as a program of its own.
var ErrNoProgram = errors.New("no ELF program")

// Program is what program headers tell.
type Program struct {
	Machine elf.Machine
	Class   elf.Class
	Data    elf.Data
	// Static tells that nobody loads libraries for it: it names no interpreter.
	Static bool
	// Go tells that Go's toolchain built it.
	Go bool

	segments []segment
}

// segment is a program header.
type segment struct {
	kind                   elf.ProgType
	flags                  elf.ProgFlag
	offset, address, bytes uint64
}

// Read reads an executable file. It asks for at most some 400 KiB of it, wherever its headers point.
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

// form is where things stand in headers of a class.
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

// order is that of the program's bytes.
func (p *Program) order() binary.ByteOrder {
	if p.Data == elf.ELFDATA2MSB {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// readHeader reads what kind of program it is, and where its program headers are.
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

// readPart reads a part of a file that is there as a whole.
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

// readBeginning reads what there is of a part, up to a limit.
func readBeginning(file io.ReaderAt, s segment, limit uint64) []byte {
	size := min(s.bytes, limit)
	if s.offset > math.MaxInt64-size {
		return nil
	}
	part := make([]byte, size)
	count, _ := file.ReadAt(part, int64(s.offset)) //nolint:gosec // it fits
	return part[:count]
}

// choose returns the first segments of some kind.
func (p *Program) choose(is func(segment) bool) []segment {
	var chosen []segment
	for _, s := range p.segments {
		if is(s) && len(chosen) < segmentsMax {
			chosen = append(chosen, s)
		}
	}
	return chosen
}
