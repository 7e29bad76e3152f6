// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// filterPriority places our filter before all others of the interface.
const filterPriority = 1

// hook is the place of a program, whose name is that of its filter.
type hook struct{ netdev.Filter }

var (
	podHook  = hook{netdev.Filter{Side: netdev.Egress, Priority: filterPriority, Name: captureProgram}}
	portHook = hook{netdev.Filter{Side: netdev.Ingress, Priority: filterPriority, Name: divertProgram}}
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

// AttachOther makes an interface that is not on a network drop datagrams with a transmit time, which would leave early. Filters of others
// stay, and so does our program. It fails with ErrGone if there is no such interface any more.
func AttachOther(interfaceName string) error {
	return orGone(interfaceName, attachOther(interfaceName))
}

func attachOther(interfaceName string) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return err
	}
	others, err := netdev.Filters(netdev.Here, link, netdev.Egress)
	if err != nil {
		return err
	}
	place := podHook
	if slices.ContainsFunc(others, func(other netlink.Filter) bool {
		program, ok := other.(*netlink.BpfFilter)
		return ok && program.Name == place.Name
	}) {
		return nil
	}
	for slices.ContainsFunc(others, func(other netlink.Filter) bool { return other.Attrs().Priority == place.Priority }) {
		place.Priority++
	}
	if err := place.attach(interfaceName, None, ClassByRecord, AllGated); err != nil {
		return fmt.Errorf("keep messages with a transmit time from leaving through %s: %w", interfaceName, err)
	}
	return nil
}

// orGone returns ErrGone for an error of an interface that does not exist any more.
func orGone(interfaceName string, err error) error {
	if err == nil || errors.Is(err, ErrGone) {
		return err
	}
	if link, errFind := netdev.Find(interfaceName); errFind == nil && link == nil {
		return fmt.Errorf("%w: there is no %s: %w", ErrGone, interfaceName, err)
	}
	return err
}

// divideSegments makes the kernel segment datagrams of UDP_SEGMENT at the pod's interface, after the program, so that each
// segment has the record. No later place could add it.
func divideSegments(interfaceName string) error {
	err := netdev.SetFeature(interfaceName, "tx-udp-segmentation", false)
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
	loaded, err := load(h.Name, mode, by)
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
	return h.Attach(netdev.Here, link, loaded.Programs[h.Name])
}

// find returns our filter, nil if there is none.
func (h hook) find(interfaceName string) (*netlink.BpfFilter, error) {
	link, err := netdev.Find(interfaceName)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return nil, fmt.Errorf("%w: there is no %s", ErrGone, interfaceName)
	}
	return h.Find(netdev.Here, link)
}

// isBehindOthers reports whether filters of others run before ours, or tcx programs, which are others'.
func (h hook) isBehindOthers(link netlink.Link) (bool, error) {
	if programs, err := netdev.TCXPrograms(link, h.Side); err != nil || len(programs) > 0 {
		return err == nil, err
	}
	filters, err := netdev.Filters(netdev.Here, link, h.Side)
	if err != nil || len(filters) == 0 {
		return false, err
	}
	first, ok := filters[0].(*netlink.BpfFilter) // the kernel lists them in the order in which they run
	return !ok || first.Name != h.Name, nil
}

// HasFilter reports whether one side of an interface has a filter of that name.
func HasFilter(interfaceName string, side uint32, name string) (bool, error) {
	filter, err := hook{netdev.Filter{Side: side, Name: name}}.find(interfaceName)
	return filter != nil, err
}
