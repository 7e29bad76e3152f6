// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// popTag is an eBPF program for the ingress of an interface: it removes the 802.1Q tag of a frame and passes the frame.
// Without a VLAN device the kernel drops tagged frames.
var popTag = []instruction{
	{code: unix.BPF_JMP | unix.BPF_CALL, immediate: skbVLANPop},           // with the frame, the program's argument
	{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, immediate: passes}, // r0 = passes
	{code: unix.BPF_JMP | unix.BPF_EXIT},
}

// skbVLANPop is the number of the kernel's function bpf_skb_vlan_pop.
const skbVLANPop = 19

// TakeTags makes the receiving node remove VLAN tags from arriving frames, after taps. It fails if the kernel lacks a
// feature. Destroy undoes it with the node.
func (t *Topology) TakeTags() error {
	if err := t.filterIngress("ktsn-tags", popTag); err != nil {
		return fmt.Errorf("take VLAN tags at %s: %w", PhysicalInterface, err)
	}
	return nil
}
