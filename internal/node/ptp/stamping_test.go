// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"strings"
	"testing"
)

// card is a device that stamps in hardware, with a clock.
func card(name string, clock int) Device {
	return Device{Name: name, Hardware: true, Software: true, Clock: clock}
}

func TestStampingIsChosenByWhatAllDevicesCan(t *testing.T) {
	cards := map[string]Device{
		"eth0": card("eth0", 0), "eth1": card("eth1", 1), "eth2": card("eth2", 2), "veth": {Name: "veth", Software: true, Clock: -1},
		"only": {Name: "only", Hardware: true, Clock: 0}, "wg0": {Name: "wg0", Clock: -1}, "late": {Name: "late", Hardware: true, Software: true, Clock: -1},
	}
	inspect := func(name string) (Device, error) {
		if device, there := cards[name]; there {
			return device, nil
		}
		return Device{}, errors.New("there is no interface " + name)
	}
	try := func(clock int) error {
		if clock == 2 {
			return errors.New("permission denied")
		}
		return nil
	}
	for name, test := range map[string]struct {
		devices, stamping string
		hardware          bool
		clocks            int
		note, refusal     string
	}{
		"a card":                            {devices: "eth0", stamping: "auto", hardware: true, clocks: 1},
		"two cards":                         {devices: "eth0,eth1", stamping: "auto", hardware: true, clocks: 2},
		"a card as if it were none":         {devices: "eth0", stamping: "software", clocks: 1},
		"an interface without a clock":      {devices: "veth", stamping: "auto", clocks: 1, note: "interface veth has no clock"},
		"a card beside one without a clock": {devices: "eth0,veth", stamping: "auto", clocks: 2, note: "interface veth has no clock"},
		"a driver without a clock":          {devices: "late", stamping: "auto", clocks: 1, note: "interface late has no clock"},
		"a clock out of reach":              {devices: "eth2", stamping: "auto", clocks: 1, note: "the clock of interface eth2 cannot be used: permission denied"},
		"a clock that was asked for":        {devices: "eth2", stamping: "hardware", refusal: "with --time-stamping auto software stamps them"},
		"no clock where one was asked for":  {devices: "veth", stamping: "hardware", refusal: "interface veth has no clock"},
		"neither":                           {devices: "wg0", stamping: "auto", refusal: "interface wg0 stamps messages neither in hardware nor in software"},
		"hardware alone beside software":    {devices: "only,veth", stamping: "auto", note: "veth", refusal: "interface only stamps messages in hardware only"},
		"no interface":                      {devices: "eth9", stamping: "auto", refusal: "there is no interface eth9"},
	} {
		t.Run(name, func(t *testing.T) {
			options := &Options{Devices: strings.Split(test.devices, ","), Stamping: test.stamping}
			var noted string
			got, err := options.ChooseStamping(inspect, try, func(note string) { noted += note })
			if !strings.Contains(noted, test.note) || test.note == "" && noted != "" {
				t.Errorf("it says %q, want %q in it", noted, test.note)
			}
			if test.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), test.refusal) {
					t.Errorf("got %v, want %q in it", err, test.refusal)
				}
				return
			}
			if err != nil || got.Hardware != test.hardware || len(got.oneOfEachClock()) != test.clocks {
				t.Errorf("got %+v with %d clocks, %v", got, len(got.oneOfEachClock()), err)
			}
		})
	}
}

func TestTheKernelIsAskedForTimeStamps(t *testing.T) {
	if _, err := Inspect("nowhere0"); err == nil || !strings.Contains(err.Error(), "there is no interface nowhere0") {
		t.Errorf("of an interface that there is not: %v", err)
	}
	// Each kernel stamps what the loopback sends and receives, in software.
	if device, err := Inspect("lo"); err != nil || device.Hardware || !device.Software || device.Clock != -1 {
		t.Errorf("the loopback is %+v, %v", device, err)
	}
}
