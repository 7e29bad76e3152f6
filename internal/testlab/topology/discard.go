// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// discardMessages is an eBPF program for the ingress of an interface: it drops frames of the tunnel that carry UDP over
// IPv4, and passes all others, such as ARP.
var discardMessages = dropWhere([]match{
	{unix.BPF_H, 12, unix.ETH_P_IP},
	{unix.BPF_B, 23, unix.IPPROTO_UDP},
	{unix.BPF_H, 36, VXLANPort},
	{unix.BPF_H, 62, unix.ETH_P_IP}, // of the frame in the tunnel
	{unix.BPF_B, 73, unix.IPPROTO_UDP},
})

// match is the expected content of a frame at an offset.
type match struct {
	size   uint8
	offset int32
	value  int32
}

// dropWhere drops frames that match all conditions. Frames that are too short pass.
func dropWhere(all []match) []instruction {
	const context, frame = 1, 6 // registers: the argument of the program, and the frame for loads
	program := []instruction{{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X, registers: context<<4 | frame}}
	for i, condition := range all {
		otherwise := 2*(len(all)-1-i) + 2 // over the other conditions, and the exit that drops
		program = append(program, instruction{code: unix.BPF_LD | unix.BPF_ABS | condition.size, immediate: condition.offset},
			instruction{code: unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K, offset: int16(otherwise), immediate: condition.value})
	}
	for _, decision := range []int32{drops, passes} {
		program = append(program, instruction{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, immediate: decision},
			instruction{code: unix.BPF_JMP | unix.BPF_EXIT})
	}
	return program
}

// DiscardMessages makes the receiving node drop the pods' messages as they arrive; they still count as received. On a
// veth pair the processor that sends a frame receives it as well, and would deliver each to a pod. It fails if the
// kernel lacks a feature. Destroy undoes it with the node.
func (t *Topology) DiscardMessages() error {
	if err := t.filterIngress("ktsn-discard", discardMessages); err != nil {
		return fmt.Errorf("discard messages at %s: %w", PhysicalInterface, err)
	}
	return nil
}
