// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Sides of a device at which the queueing discipline clsact has filters.
const (
	Ingress uint32 = netlink.HANDLE_MIN_INGRESS
	Egress  uint32 = netlink.HANDLE_MIN_EGRESS
)

// Here makes requests in the network namespace of the calling thread.
var Here = &netlink.Handle{}

// Filter is the place of a BPF program at a device. A device has one filter of a priority on each side; the kernel runs the lowest
// priority first.
type Filter struct {
	Side     uint32
	Priority uint16
	Name     string
}

// Clsact returns the queueing discipline to which filters are attached.
func Clsact(link netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// Attach attaches a program, which the filter then holds, and adds clsact if it is missing. It replaces the program of this priority.
func (f Filter) Attach(kernel *netlink.Handle, link netlink.Link, program *ebpf.Program) error {
	if err := kernel.QdiscAdd(Clsact(link)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add the queueing discipline clsact to %s: %w", link.Attrs().Name, Explain(err, "sch_ingress"))
	}
	filter := f.Place(link)
	filter.Fd = program.FD()
	if err := kernel.FilterReplace(filter); err != nil {
		return fmt.Errorf("add the filter %s to %s: %w", f.Name, link.Attrs().Name, Explain(err, "cls_bpf"))
	}
	return nil
}

// Place returns the filter without a program.
func (f Filter) Place(link netlink.Link) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: f.Side, Handle: 1, Priority: f.Priority, Protocol: unix.ETH_P_ALL,
		},
		Name: f.Name, DirectAction: true,
	}
}

// Find returns the filter of this side and name, nil if there is none.
func (f Filter) Find(kernel *netlink.Handle, link netlink.Link) (*netlink.BpfFilter, error) {
	return FindFilter(kernel, link, f.Side, func(name string) bool { return name == f.Name })
}

// FindFilter returns the first filter with a matching name, nil if there is none.
func FindFilter(kernel *netlink.Handle, link netlink.Link, side uint32, matches func(name string) bool) (*netlink.BpfFilter, error) {
	filters, err := Filters(kernel, link, side)
	for _, filter := range filters {
		if program, ok := filter.(*netlink.BpfFilter); ok && matches(program.Name) {
			return program, nil
		}
	}
	return nil, err
}

// Filters lists the filters of one side; none without clsact, or if the device is gone.
func Filters(kernel *netlink.Handle, link netlink.Link, side uint32) ([]netlink.Filter, error) {
	filters, err := kernel.FilterList(link, side)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the filters of %s: %w", link.Attrs().Name, err)
	}
	return filters, nil
}

// TCXPrograms returns the tcx programs of one side in the order in which they run, before all filters. Kernels before Linux 6.6 have none.
func TCXPrograms(link netlink.Link, side uint32) ([]ebpf.ProgramID, error) {
	attach := ebpf.AttachTCXIngress
	if side == Egress {
		attach = ebpf.AttachTCXEgress
	}
	result, err := bpflink.QueryPrograms(bpflink.QueryOptions{Target: link.Attrs().Index, Attach: attach})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the tcx programs of %s: %w", link.Attrs().Name, err)
	}
	var programs []ebpf.ProgramID
	for _, program := range result.Programs {
		programs = append(programs, program.ID)
	}
	return programs, nil
}

// RemoveEmptyClsact removes clsact from a device that has no filter.
func RemoveEmptyClsact(link netlink.Link) (removed bool, err error) {
	for _, side := range []uint32{Ingress, Egress} {
		if left, err := Filters(Here, link, side); err != nil || len(left) > 0 {
			return false, err
		}
	}
	err = netlink.QdiscDel(Clsact(link))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return false, fmt.Errorf("remove the queueing discipline clsact from %s: %w", link.Attrs().Name, err)
	}
	return true, nil
}

// Explain names the part of the kernel that is missing.
func Explain(err error, part string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: the kernel has no %s", err, part)
	}
	return err
}
