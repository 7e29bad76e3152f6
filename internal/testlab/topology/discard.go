// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// discardMessages is a program for the ingress of an interface (eBPF): it drops frames of the tunnel that carry UDP over IPv4, and
// lets all others pass, such as those that ask for addresses.
var discardMessages = dropWhere([]match{
	{unix.BPF_H, 12, unix.ETH_P_IP},
	{unix.BPF_B, 23, unix.IPPROTO_UDP},
	{unix.BPF_H, 36, VXLANPort},
	{unix.BPF_H, 62, unix.ETH_P_IP}, // of the frame in the tunnel
	{unix.BPF_B, 73, unix.IPPROTO_UDP},
})

// match is what a frame has at an offset, in so many bytes.
type match struct {
	size   uint8
	offset int32
	value  int32
}

// dropWhere drops frames that match all; those that are too short pass.
func dropWhere(all []match) []instruction {
	const context, frame = 1, 6 // registers: what the program is called with, and where loads from the frame look for it
	program := []instruction{{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, registers: context<<4 | frame}}
	for i, one := range all {
		otherwise := 2*(len(all)-1-i) + 2 // over the other matches, and the end that drops
		program = append(program, instruction{code: unix.BPF_LD | unix.BPF_ABS | one.size, immediate: one.offset},
			instruction{code: unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K, offset: int16(otherwise), immediate: one.value})
	}
	for _, decision := range []int32{drops, passes} {
		program = append(program, instruction{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, immediate: decision},
			instruction{code: unix.BPF_JMP | unix.BPF_EXIT})
	}
	return program
}

// DiscardMessages has the receiving node drop the pods' messages as they come off the link, where they still count as received. On
// a pair of interfaces without a wire the processor that sends a frame receives it as well, and would deliver each to a pod. The
// error says what the kernel lacks. Destroy undoes it, with the node.
func (t *Topology) DiscardMessages() error {
	if err := t.filterIngress("ktsn-discard", discardMessages); err != nil {
		return fmt.Errorf("discard messages at %s: %w", PhysicalInterface, err)
	}
	return nil
}
