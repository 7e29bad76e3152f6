// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// guestHook is the place of the program in a virtual machine, the same as in a pod.
var guestHook = hook{netdev.Filter{Side: netdev.Egress, Priority: filterPriority, Name: guestProgram}}

// GuestClock relates the host's clock to the guest's clocks: struct ktsn_guest_clock of datapath/capture/record.h.
type GuestClock struct {
	// UntilNs is the guest's CLOCK_MONOTONIC until which the values are good enough. After it, frames with a transmit time are dropped.
	UntilNs uint64
	// AheadNs are CLOCK_TAI of the host less the guest's CLOCK_TAI, CLOCK_MONOTONIC and CLOCK_REALTIME.
	AheadNs [3]int64
	// BoundNs bounds the error of AheadNs at AtNs, the guest's CLOCK_MONOTONIC. It grows by DriftPPB billionths of the time
	// that passes.
	BoundNs, AtNs, DriftPPB uint64
}

// BoundAt returns the bound at a later CLOCK_MONOTONIC of the guest, in nanoseconds.
func (c *GuestClock) BoundAt(monotonicNs uint64) uint64 {
	if monotonicNs <= c.AtNs {
		return c.BoundNs
	}
	high, low := bits.Mul64(monotonicNs-c.AtNs, c.DriftPPB)
	if high >= 1e9 {
		return math.MaxUint64
	}
	grown, _ := bits.Div64(high, low, 1e9)
	return c.BoundNs + grown + 1
}

// AttachGuest attaches the program to the egress of an interface of this virtual machine. Frames with a transmit time get a
// record with the host's time while the clock given to Guest.Set is valid, and are dropped otherwise. It replaces an existing
// program; counters restart at 0.
func AttachGuest(interfaceName string) error {
	err := divideSegments(interfaceName)
	if err == nil {
		err = guestHook.attach(interfaceName, Timed, ClassByRecord, AllGated)
	}
	if err != nil {
		return fmt.Errorf("have frames with a transmit time carry it out of %s: %w", interfaceName, err)
	}
	return nil
}

// DetachGuest removes the program. A missing program is not an error.
func DetachGuest(interfaceName string) error {
	filter, err := guestHook.find(interfaceName)
	if err == nil && filter != nil {
		err = netlink.FilterDel(filter)
	}
	if err != nil {
		return fmt.Errorf("take the program off %s: %w", interfaceName, err)
	}
	return nil
}

// Guest gives the program the host's clock.
type Guest struct{ clock *ebpf.Map }

// OpenGuest opens the clock of the program at an interface. It fails with ErrUnattached if there is no program.
func OpenGuest(interfaceName string) (*Guest, error) {
	maps, err := guestHook.open(interfaceName)
	if err != nil {
		return nil, err
	}
	defer maps.close()
	return &Guest{maps.take(guestMap)}, nil
}

// Close closes the map. The program keeps the last clock.
func (g *Guest) Close() error { return g.clock.Close() }

// Set replaces the program's clock.
func (g *Guest) Set(clock GuestClock) error { return g.clock.Put(uint32(0), &clock) }

// WidestBound returns the largest error bound, in nanoseconds, of a transmit time that left the interface since the last clear; 0: none left.
func WidestBound(interfaceName string, clearIt bool) (uint64, error) {
	maps, err := guestHook.open(interfaceName)
	if err != nil {
		return 0, err
	}
	defer maps.close()
	var widest uint64
	err = maps[widestMap].Lookup(uint32(0), &widest)
	if err == nil && clearIt {
		err = maps[widestMap].Put(uint32(0), uint64(0))
	}
	if err != nil {
		return 0, fmt.Errorf("read the widest bound of %s: %w", interfaceName, err)
	}
	return widest, nil
}

// ReadGuest reads the counters of a guest's interface and the host's clock that its program has.
func ReadGuest(interfaceName string) (Count, GuestClock, error) {
	var clock GuestClock
	maps, err := guestHook.open(interfaceName)
	if err != nil {
		return Count{}, clock, err
	}
	defer maps.close()
	count, err := maps.readPod()
	if err == nil {
		err = maps[guestMap].Lookup(uint32(0), &clock)
	}
	if err != nil {
		return Count{}, clock, fmt.Errorf("read the counters of %s: %w", interfaceName, err)
	}
	return count, clock, nil
}
