// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// errOverruns means that a reader of a ring buffer could make the kernel overwrite record headers that the kernel trusts
// (CVE-2024-41009): Linux before 6.1.97, 6.6.37, 6.9.8 and 6.10, unless the distribution has fixed it.
var errOverruns = errors.New("the kernel lets a reader of a ring buffer have records overlap (CVE-2024-41009), so no pod may have one; " +
	"update it to Linux 6.1.97, 6.6.37, 6.9.8, 6.10 or later")

// Sizes with which two records of one ring overlap if the kernel trusts the reader's position.
const (
	probedRing   = 16 << 10
	probedRecord = 12 << 10
)

// Return values of the program of checkOverruns.
const (
	probeRefused  = 0
	probeOverlaps = 1
	probeNoSpace  = 2
)

// checkOverruns probes the kernel: with a forged reader's position, a program reserves two records that do not both fit. It
// writes into neither. Version numbers do not suffice, because distributions fix older kernels.
func checkOverruns() error {
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ktsn_probe", Type: ebpf.RingBuf, MaxEntries: probedRing})
	if err != nil {
		return fmt.Errorf("make a ring buffer: %w", err)
	}
	defer ring.Close()
	if err := forgePosition(ring, probedRecord); err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "ktsn_probe", Type: ebpf.SocketFilter, Instructions: reserveTwice(ring), License: "Dual BSD/GPL",
	})
	if err != nil {
		return fmt.Errorf("load a program that probes ring buffers: %w", err)
	}
	defer program.Close()
	result, _, err := program.Test(make([]byte, 64))
	switch {
	case err != nil:
		return fmt.Errorf("run a program that probes ring buffers: %w", err)
	case result == probeRefused:
		return nil
	case result == probeOverlaps:
		return errOverruns
	default:
		return fmt.Errorf("a ring buffer of %d bytes takes no record of %d", probedRing, probedRecord)
	}
}

// forgePosition writes the reader's position, the first word of the first page, as a reader can.
func forgePosition(ring *ebpf.Map, position uint64) error {
	page, err := unix.Mmap(ring.FD(), 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the reader's position of a ring buffer: %w", err)
	}
	binary.NativeEndian.PutUint64(page, position)
	if err := unix.Munmap(page); err != nil {
		return fmt.Errorf("unmap the reader's position of a ring buffer: %w", err)
	}
	return nil
}

// reserveTwice reserves two records, discards both, and returns whether the second reservation succeeded.
func reserveTwice(ring *ebpf.Map) asm.Instructions {
	reserve := asm.Instructions{
		asm.LoadMapPtr(asm.R1, ring.FD()), asm.Mov.Imm(asm.R2, probedRecord), asm.Mov.Imm(asm.R3, 0), asm.FnRingbufReserve.Call(),
	}
	discard := func(record asm.Register) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(asm.R1, record), asm.Mov.Imm(asm.R2, 0), asm.FnRingbufDiscard.Call()}
	}
	all := append(asm.Instructions{}, reserve...)
	all = append(all, asm.Mov.Imm(asm.R8, probeNoSpace), asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(asm.R6, asm.R0), asm.Mov.Imm(asm.R8, probeRefused))
	all = append(all, reserve...)
	all = append(all, asm.JEq.Imm(asm.R0, 0, "first"), asm.Mov.Reg(asm.R7, asm.R0), asm.Mov.Imm(asm.R8, probeOverlaps))
	all = append(all, discard(asm.R7)...)
	first := discard(asm.R6)
	first[0] = first[0].WithSymbol("first")
	all = append(all, first...)
	return append(all, asm.Mov.Reg(asm.R0, asm.R8).WithSymbol("end"), asm.Return())
}
