// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Verdicts of a program for the ingress of an interface: TC_ACT_OK and TC_ACT_SHOT.
const (
	passes = 0
	drops  = 2
)

// instruction is an eBPF instruction.
type instruction struct {
	code, registers uint8
	offset          int16
	immediate       int32
}

// filterIngress attaches a program to all frames that the receiving node gets from the link, after taps.
func (t *Topology) filterIngress(name string, code []instruction) error {
	program, err := loadForIngress(code)
	if err != nil {
		return fmt.Errorf("load a program for frames: %w", err)
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
			return fmt.Errorf("have frames classified: %w", err)
		}
		filter := &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1,
			Protocol: unix.ETH_P_ALL, Priority: 1}, Fd: program, Name: name, DirectAction: true}
		return netlink.FilterReplace(filter)
	})
}

// loadForIngress returns the descriptor of a program for a filter.
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
