// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// guestHook is the place of the program in a virtual machine: where that of a pod is.
var guestHook = hook{guestProgram, netlink.HANDLE_MIN_EGRESS}

// GuestClock says what time the host has: struct ktsn_guest_clock of datapath/capture/record.h.
type GuestClock struct {
	// UntilNs is CLOCK_MONOTONIC of the guest until which the rest is good enough. Behind it frames with a time are dropped.
	UntilNs uint64
	// AheadNs are CLOCK_TAI of the host less the guest's CLOCK_TAI, CLOCK_MONOTONIC and CLOCK_REALTIME.
	AheadNs [3]int64
	// BoundNs is how far that may be from the truth at AtNs, CLOCK_MONOTONIC of the guest. It grows by DriftPPB billionths of the time
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

// AttachGuest has the program look at all that leaves by an interface of this virtual machine. What has a transmit time gets a
// record with the host's time, as long as one was given by Guest.Set, and is dropped otherwise. A program that is there is
// replaced, and counts anew.
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

// DetachGuest takes the program off. Where there is none, nothing is done.
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

// Guest is the program's knowledge of the host's time.
type Guest struct{ clock *ebpf.Map }

// OpenGuest opens it. An interface without the program is ErrUnattached.
func OpenGuest(interfaceName string) (*Guest, error) {
	maps, err := guestHook.open(interfaceName)
	if err != nil {
		return nil, err
	}
	defer maps.close()
	return &Guest{maps.take(guestMap)}, nil
}

// Close forgets it. The program goes on with what it knows.
func (g *Guest) Close() error { return g.clock.Close() }

// Set tells the program.
func (g *Guest) Set(clock GuestClock) error { return g.clock.Put(uint32(0), &clock) }

// WidestBound returns the widest bound with which a transmit time left the interface since it was cleared, in nanoseconds; 0: none left.
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

// ReadGuest reads the count of a guest's interface, and what its program knows of the host's time.
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
		return Count{}, clock, fmt.Errorf("read what %s let out: %w", interfaceName, err)
	}
	return count, clock, nil
}
