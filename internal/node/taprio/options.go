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
	// OffloadETF has the card send frames at their transmit times (LaunchTime).
	OffloadETF = "etf"
	// OffloadTaprio has the card execute the gates.
	OffloadTaprio = "taprio"
)

// Offloads are all that can be asked for.
var Offloads = []string{OffloadETF, OffloadTaprio}

const (
	maxVLAN = 4094
	// ifNameSize is IFNAMSIZ of linux/if.h, with a zero behind the name.
	ifNameSize = 16
	maxDelta   = time.Second
)

// deviceForm is what a shell and tc take as one word; the kernel allows more.
var deviceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Options say for which device, and what besides the gates.
type Options struct {
	// Device is the interface whose root taprio becomes.
	Device string
	// Classes give each SO_PRIORITY its traffic class. The device needs a queue for each class up to the highest one.
	Classes control.TrafficClassMap
	// CodePoints give each class the PCP of its frames on the VLAN device.
	CodePoints control.PriorityCodePoints
	// ETF puts etf below each class, for frames with a transmit time: what has none is dropped there.
	ETF bool
	// ETFClasses are those that get it; all when it is empty.
	ETFClasses []int
	// Delta is how long before its transmit time etf gives a frame to the device.
	Delta time.Duration
	// VLAN is the number of the VLAN device; 0: none.
	VLAN int
	// Offload are some of Offloads.
	Offload []string
}

// Check says what of the options cannot be.
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
		return fmt.Errorf("classes %v are to have etf, and etf is not asked for", o.ETFClasses)
	case !o.ETF && o.offloads(OffloadETF):
		return errors.New("the card is to do the work of etf, and etf is not asked for")
	}
	for _, offload := range o.Offload {
		if !slices.Contains(Offloads, offload) {
			return fmt.Errorf("%q is nothing that a card does; give some of %v", offload, Offloads)
		}
	}
	for _, class := range o.ETFClasses {
		if class < 0 || class >= o.classes() {
			return fmt.Errorf("class %d is to have etf; there are classes 0 to %d", class, o.classes()-1)
		}
	}
	return nil
}

func (o *Options) offloads(what string) bool { return slices.Contains(o.Offload, what) }

// classes is how many there are: up to the highest to which a priority leads.
func (o *Options) classes() int { return int(slices.Max(o.Classes[:])) + 1 }

func (o *Options) hasETF(class int) bool {
	return o.ETF && (len(o.ETFClasses) == 0 || slices.Contains(o.ETFClasses, class))
}

func (o *Options) vlanDevice() string { return fmt.Sprintf("%s.%d", o.Device, o.VLAN) }
