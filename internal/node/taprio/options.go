// SPDX-License-Identifier: Apache-2.0

package taprio

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Offloads that a network card may have.
const (
	// OffloadETF makes the card send frames at their transmit times (LaunchTime).
	OffloadETF = "etf"
	// OffloadTaprio makes the card execute the gates.
	OffloadTaprio = "taprio"
)

// Offloads are the known offloads.
var Offloads = []string{OffloadETF, OffloadTaprio}

const (
	maxVLAN = 4094
	// ifNameSize is IFNAMSIZ of linux/if.h, including the terminating zero.
	ifNameSize = 16
	maxDelta   = time.Second
)

// deviceForm matches names that a shell and tc take as one word; the kernel allows more.
var deviceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Options describe the device and the settings other than the gates.
type Options struct {
	// Device is the interface that gets taprio as its root queueing discipline.
	Device string
	// Classes maps each SO_PRIORITY to its traffic class. The device needs a queue for each class up to the highest one.
	Classes control.TrafficClassMap
	// CodePoints maps each class to the PCP of its frames on the VLAN device.
	CodePoints control.PriorityCodePoints
	// ETF adds etf below each class of ETFClasses. etf drops frames without a transmit time.
	ETF bool
	// ETFClasses are the classes with etf; empty: all.
	ETFClasses []int
	// Delta is how long before its transmit time etf gives a frame to the device.
	Delta time.Duration
	// VLAN is the VLAN ID of the VLAN device; 0: none.
	VLAN int
	// Offload lists the offloads to use.
	Offload []string
}

// Check returns an error if the options are invalid.
func (o *Options) Check() error {
	switch {
	case !deviceForm.MatchString(o.Device) || len(o.Device) >= ifNameSize:
		return fmt.Errorf("%q is no name of a network device", o.Device)
	case o.VLAN < 0 || o.VLAN > maxVLAN:
		return fmt.Errorf("VLAN %d; give a number from 1 to %d", o.VLAN, maxVLAN)
	case o.VLAN > 0 && len(o.vlanDevice()) >= ifNameSize:
		return fmt.Errorf("the VLAN device would be called %s, which is longer than the kernel's %d characters; give %s a shorter name", o.vlanDevice(),
			ifNameSize-1, o.Device)
	case o.ETF && (o.Delta <= 0 || o.Delta > maxDelta):
		return fmt.Errorf("delta %v of etf; give a duration up to %v", o.Delta, maxDelta)
	case !o.ETF && len(o.ETFClasses) > 0:
		return fmt.Errorf("classes %v shall have etf, but etf is not enabled", o.ETFClasses)
	case !o.ETF && o.offloads(OffloadETF):
		return errors.New("etf shall be offloaded, but etf is not enabled")
	}
	for _, offload := range o.Offload {
		if !slices.Contains(Offloads, offload) {
			return fmt.Errorf("%q is not an offload; give some of %v", offload, Offloads)
		}
	}
	for _, class := range o.ETFClasses {
		if class < 0 || class >= o.classes() {
			return fmt.Errorf("class %d shall have etf, but there are only classes 0 to %d", class, o.classes()-1)
		}
	}
	return nil
}

func (o *Options) offloads(what string) bool { return slices.Contains(o.Offload, what) }

// classes returns the number of classes: one more than the highest in Classes.
func (o *Options) classes() int { return int(slices.Max(o.Classes[:])) + 1 }

func (o *Options) hasETF(class int) bool {
	return o.ETF && (len(o.ETFClasses) == 0 || slices.Contains(o.ETFClasses, class))
}

func (o *Options) vlanDevice() string { return fmt.Sprintf("%s.%d", o.Device, o.VLAN) }
