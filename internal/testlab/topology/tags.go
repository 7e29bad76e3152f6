// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// popTag is a program for the ingress of an interface (eBPF): it takes the 802.1Q tag from a frame, if it has one, and lets
// it pass. Without a VLAN device the kernel drops frames with a tag.
var popTag = []instruction{
	{code: unix.BPF_JMP | unix.BPF_CALL, immediate: skbVLANPop},           // with the frame, as the program was called
	{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, immediate: passes}, // r0 = passes
	{code: unix.BPF_JMP | unix.BPF_EXIT},
}

// skbVLANPop is the number of the kernel's function bpf_skb_vlan_pop.
const skbVLANPop = 19

// TakeTags has the receiving node take VLAN tags from frames as they come off the link, behind whoever taps it. The error
// says what the kernel lacks. Destroy undoes it, with the node.
func (t *Topology) TakeTags() error {
	if err := t.filterIngress("ktsn-tags", popTag); err != nil {
		return fmt.Errorf("take VLAN tags at %s: %w", PhysicalInterface, err)
	}
	return nil
}
