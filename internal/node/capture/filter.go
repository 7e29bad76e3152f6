// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/ethtool"
)

// The place of our filter among those of the interface: before all others.
const (
	filterPriority = 1
	filterHandle   = 1
)

// hook is a place where a program can be attached.
type hook struct {
	program string
	parent  uint32
}

var (
	podHook  = hook{captureProgram, netlink.HANDLE_MIN_EGRESS}
	portHook = hook{divertProgram, netlink.HANDLE_MIN_INGRESS}
)

// AttachPod attaches the program to the egress of a pod's interface. It replaces an existing program; counters restart at 0.
func AttachPod(interfaceName string, mode Mode) error {
	if err := attachPod(interfaceName, mode); err != nil {
		return fmt.Errorf("keep datagrams that libktsn.so does not see from leaving %s early: %w", interfaceName, err)
	}
	return nil
}

func attachPod(interfaceName string, mode Mode) error {
	if mode == None {
		return podHook.attach(interfaceName, mode, ClassByRecord, AllGated)
	}
	if err := divideSegments(interfaceName); err != nil {
		return err
	}
	return podHook.attach(interfaceName, mode, ClassByRecord, AllGated)
}

// divideSegments makes the kernel segment datagrams of UDP_SEGMENT at the pod's interface, after the program, so that each
// segment has the record. No later place could add it.
func divideSegments(interfaceName string) error {
	err := ethtool.SetFeature(interfaceName, "tx-udp-segmentation", false)
	if errors.Is(err, unix.ENODEV) {
		return nil // attaching the program fails next, with a better message
	}
	return err
}

// AttachPort attaches the program that diverts frames to the ingress of the node's end of a pod's interface. It replaces an
// existing program; counters restart at 0 and the relay is unset. Other filters stay. gated has a bit for each priority whose
// gate the node's schedule closes at times, AllGated if the schedule is unknown; the relay's heartbeats and SetGated replace it.
func AttachPort(portName string, mode Mode, by ClassBy, gated uint64) error {
	if err := portHook.attach(portName, mode, by, gated); err != nil {
		return fmt.Errorf("divert frames that come in at %s to the pod's relay: %w", portName, err)
	}
	return nil
}

func (h hook) attach(interfaceName string, mode Mode, by ClassBy, gated uint64) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return err
	}
	loaded, err := load(h.program, mode, by)
	if err != nil {
		return err
	}
	// The filter keeps the program, and the program its maps.
	defer loaded.Close()
	if last := loaded.Maps[heartbeatMap]; last != nil {
		if err := last.Put(uint32(0), &heartbeat{Gated: gated}); err != nil {
			return fmt.Errorf("set the gated priorities: %w", err)
		}
	}
	if err := netlink.QdiscAdd(classAct(link)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add the queueing discipline clsact: %w", explain(err, "sch_ingress"))
	}
	filter := h.filter(link)
	filter.Fd = loaded.Programs[h.program].FD()
	if err := netlink.FilterReplace(filter); err != nil {
		return fmt.Errorf("add the filter: %w", explain(err, "cls_bpf"))
	}
	return nil
}

func (h hook) filter(link netlink.Link) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: link.Attrs().Index, Parent: h.parent, Handle: filterHandle, Priority: filterPriority,
			Protocol: unix.ETH_P_ALL,
		},
		Name: h.program, DirectAction: true,
	}
}

func classAct(link netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

// explain names the part of the kernel that is missing.
func explain(err error, module string) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: the kernel has no %s", err, module)
	}
	return err
}

// find returns our filter, nil if there is none.
func (h hook) find(interfaceName string) (*netlink.BpfFilter, error) {
	return findFilter(interfaceName, h.parent, h.program)
}

// HasFilter reports whether one side of an interface has a filter of that name.
func HasFilter(interfaceName string, parent uint32, name string) (bool, error) {
	filter, err := findFilter(interfaceName, parent, name)
	return filter != nil, err
}

func findFilter(interfaceName string, parent uint32, name string) (*netlink.BpfFilter, error) {
	link, err := netlink.LinkByName(interfaceName)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, fmt.Errorf("%w: there is no %s", ErrGone, interfaceName)
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", interfaceName, err)
	}
	filters, err := netlink.FilterList(link, parent)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, nil // no clsact
	}
	if err != nil {
		return nil, fmt.Errorf("list the filters of %s: %w", interfaceName, err)
	}
	for _, filter := range filters {
		if program, ok := filter.(*netlink.BpfFilter); ok && program.Name == name {
			return program, nil
		}
	}
	return nil, nil
}
