// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Modes that ptp4l requires from a device for each kind of time stamps.
const (
	hardwareModes = unix.SOF_TIMESTAMPING_TX_HARDWARE | unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE
	softwareModes = unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
)

// Device has the time stamping capabilities of an interface.
type Device struct {
	Name               string
	Hardware, Software bool
	// Clock is the number N of its PTP clock /dev/ptpN, -1 for none.
	Clock int
}

// Stamping is the chosen kind of time stamps.
type Stamping struct {
	Hardware bool
	Devices  []Device
}

// oneOfEachClock returns one device for each PTP clock, because ports of one card may share it.
func (s *Stamping) oneOfEachClock() []string {
	var numbers []int
	var names []string
	for _, device := range s.Devices {
		if !slices.Contains(numbers, device.Clock) {
			numbers, names = append(numbers, device.Clock), append(names, device.Name)
		}
	}
	return names
}

// Inspect returns the capabilities of an interface in this network namespace.
func Inspect(name string) (Device, error) {
	device := Device{Name: name, Clock: -1}
	if _, err := net.InterfaceByName(name); err != nil {
		return device, fmt.Errorf("there is no interface %s on this node; it has %s", name, strings.Join(interfaces(), ", "))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return device, fmt.Errorf("open a socket for ethtool requests: %w", err)
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolTsInfo(fd, name)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return device, nil
	}
	if err != nil {
		return device, fmt.Errorf("get the time stamping modes of interface %s: %w", name, err)
	}
	device.Hardware, device.Software = info.So_timestamping&hardwareModes == hardwareModes, info.So_timestamping&softwareModes == softwareModes
	device.Clock = int(info.Phc_index)
	return device, nil
}

func interfaces() []string {
	all, err := net.Interfaces()
	var names []string
	for _, iface := range all {
		if iface.Flags&net.FlagLoopback == 0 {
			names = append(names, iface.Name)
		}
	}
	if err != nil || len(names) == 0 {
		return []string{"none"}
	}
	return names
}

// ChooseStamping chooses the kind of time stamps, which ptp4l uses for all devices. try opens a PTP clock. ChooseStamping calls note with
// the reason why it chooses software time stamps.
func (o *Options) ChooseStamping(inspect func(name string) (Device, error), try func(clock int) error, note func(string)) (Stamping, error) {
	chosen := Stamping{Hardware: o.Stamping != StampSoftware}
	for _, name := range o.Devices {
		device, err := inspect(name)
		if err != nil {
			return chosen, err
		}
		if !device.Hardware && !device.Software {
			return chosen, fmt.Errorf("interface %s stamps messages neither in hardware nor in software, so PTP cannot be spoken on it; "+
				"name another one", name)
		}
		chosen.Devices = append(chosen.Devices, device)
	}
	if chosen.Hardware {
		if reason := withoutHardware(chosen.Devices, try); reason != "" {
			if o.Stamping == StampHardware {
				return chosen, fmt.Errorf("hardware time stamps: %s; with --time-stamping auto software stamps them", reason)
			}
			note("software stamps messages: " + reason)
			chosen.Hardware = false
		}
	}
	if !chosen.Hardware {
		for _, device := range chosen.Devices {
			if !device.Software {
				return chosen, fmt.Errorf("interface %s stamps messages in hardware only, and others, or its clock, do not allow that; "+
					"leave it out, or name only interfaces with clocks", device.Name)
			}
		}
	}
	return chosen, nil
}

// withoutHardware returns why not all devices have hardware time stamps, "" if all have.
func withoutHardware(devices []Device, try func(clock int) error) string {
	for _, device := range devices {
		if !device.Hardware || device.Clock < 0 {
			return fmt.Sprintf("interface %s has no clock", device.Name)
		}
		if err := try(device.Clock); err != nil {
			return fmt.Sprintf("the clock of interface %s cannot be used: %v", device.Name, err)
		}
	}
	return ""
}

// TryClock opens a PTP clock as ptp4l does.
func TryClock(number int) error {
	file, err := os.OpenFile(fmt.Sprintf("/dev/ptp%d", number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return file.Close()
}
