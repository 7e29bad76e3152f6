// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// popTag is a program for the ingress of an interface (eBPF): it takes the 802.1Q tag from a frame, if it has one, and lets
// it pass. Without a VLAN device the kernel drops frames with a tag.
var popTag = []instruction{
	{code: unix.BPF_JMP | unix.BPF_CALL, immediate: skbVLANPop},           // with the frame, as the program was called
	{code: unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K, immediate: passes}, // r0 = passes
	{code: unix.BPF_JMP | unix.BPF_EXIT},
}

const (
	// skbVLANPop is the number of the kernel's function bpf_skb_vlan_pop.
	skbVLANPop = 19
	// passes is TC_ACT_OK.
	passes = 0
)

// instruction is one of eBPF.
type instruction struct {
	code, registers uint8
	offset          int16
	immediate       int32
}

// TakeTags has the receiving node take VLAN tags from frames as they come off the link, behind whoever taps it. The error
// says what the kernel lacks. Destroy undoes it, with the node.
func (t *Topology) TakeTags() error {
	program, err := loadForIngress(popTag)
	if err != nil {
		return fmt.Errorf("load a program that takes VLAN tags: %w", err)
	}
	defer unix.Close(program)
	return t.NodeB.Do(func() error {
		link, err := netlink.LinkByName(PhysicalInterface)
		if err != nil {
			return fmt.Errorf("find %s: %w", PhysicalInterface, err)
		}
		index := link.Attrs().Index
		clsact := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index,
			Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
		if err := netlink.QdiscReplace(clsact); err != nil {
			return fmt.Errorf("have frames classified at %s: %w", PhysicalInterface, err)
		}
		filter := &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1,
			Protocol: unix.ETH_P_ALL, Priority: 1}, Fd: program, Name: "ktsn-tags", DirectAction: true}
		if err := netlink.FilterReplace(filter); err != nil {
			return fmt.Errorf("take VLAN tags at %s: %w", PhysicalInterface, err)
		}
		return nil
	})
}

// loadForIngress returns the descriptor of a program that a filter can use.
func loadForIngress(program []instruction) (int, error) {
	license := []byte("Apache-2.0\x00")
	attributes := struct {
		kind, count           uint32
		instructions, license uint64
		logLevel, logSize     uint32
		log                   uint64
		kernelVersion, flags  uint32
	}{kind: unix.BPF_PROG_TYPE_SCHED_CLS, count: uint32(len(program)),
		instructions: uint64(uintptr(unsafe.Pointer(&program[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0])))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes))
	runtime.KeepAlive(program)
	runtime.KeepAlive(license)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
