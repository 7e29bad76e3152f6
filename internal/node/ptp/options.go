// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Profiles of PTP.
const (
	ProfileDefault = "1588" // the default profile of IEEE 1588
	ProfileGPTP    = "gptp" // IEEE 802.1AS
)

// Transports of PTP messages.
const (
	TransportL2   = "L2"
	TransportUDP4 = "UDPv4"
)

// Roles of a node.
const (
	// RoleSender follows the best clock, and may become grandmaster.
	RoleSender = "sender"
	// RoleReceiver only follows.
	RoleReceiver = "receiver"
	// RoleSwitch is like RoleSender with a higher priority among equal clocks.
	RoleSwitch = "switch"
	// RoleGuest is a virtual machine with its own network card. It only follows.
	RoleGuest = "guest"
	// RoleGrandmaster only serves. Another program, such as chronyd, keeps its clock.
	RoleGrandmaster = "grandmaster"
)

// Kinds of time stamps.
const (
	StampAuto     = "auto"
	StampHardware = "hardware"
	StampSoftware = "software"
)

// CurrentUTCOffset is TAI - UTC in seconds since 2017.
const CurrentUTCOffset = 37

// Setting is an option of ptp4l.
type Setting struct{ Name, Value string }

// Options configure how a node's clock is kept.
type Options struct {
	Devices                  []string
	Profile, Role, Transport string
	Delay, Servo, Stamping   string
	Domain                   int
	// UTCOffset is TAI - UTC in seconds that this node announces as grandmaster; 0: unknown.
	UTCOffset int
	// FreeRunning: offsets are only measured; no program sets the clock.
	FreeRunning bool
	// Nil stands for the default of the profile or role.
	Priority1, Priority2, LogSync, LogAnnounce, LogDelay *int
	// Extra are further options of ptp4l, which override those of profile and role.
	Extra []Setting
}

// Register adds the options to a command line.
func (o *Options) Register(flags *flag.FlagSet) {
	flags.Func("device", "`INTERFACE` on which PTP is spoken; can be repeated", func(text string) error {
		o.Devices = append(o.Devices, strings.Split(text, ",")...)
		return nil
	})
	flags.StringVar(&o.Profile, "profile", ProfileDefault, "`PROFILE` of PTP: 1588 (the default profile) or gptp (IEEE 802.1AS)")
	flags.StringVar(&o.Role, "role", RoleSender, "`ROLE` of this node: sender (follows, may become grandmaster), receiver (only follows), switch (as sender, "+
		"but goes before), guest (a virtual machine with a network card of its own; only follows) or grandmaster (only serves; another program keeps its clock)")
	flags.StringVar(&o.Transport, "transport", "", "`TRANSPORT`, L2 or UDPv4 (default: UDPv4, with gptp L2)")
	flags.IntVar(&o.Domain, "domain", 0, "`NUMBER` of the PTP domain, 0 to 127")
	flags.StringVar(&o.Delay, "delay-mechanism", "", "`MECHANISM`, E2E or P2P (default: E2E, with gptp P2P)")
	flags.StringVar(&o.Servo, "servo", "pi", "`SERVO`, pi or linreg")
	flags.StringVar(&o.Stamping, "time-stamping", StampAuto, "`KIND` of time stamps: hardware, software, or auto: hardware where all devices have it")
	for _, option := range []struct {
		name, about string
		to          **int
	}{
		{"priority1", "`NUMBER` that decides first who is grandmaster, 0 to 255, the smallest wins (default: the role's)", &o.Priority1},
		{"priority2", "`NUMBER` that decides among equal clocks, 0 to 255 (default: the profile's)", &o.Priority2},
		{"log-sync-interval", "`EXPONENT` of 2: seconds between two Sync messages (default: 0, with gptp -3)", &o.LogSync},
		{"log-announce-interval", "`EXPONENT` of 2: seconds between two Announce messages (default: 1, with gptp 0)", &o.LogAnnounce},
		{"log-delay-interval", "`EXPONENT` of 2: seconds between two measurements of the delay (default: 0)", &o.LogDelay},
	} {
		flags.Func(option.name, option.about, func(text string) error {
			number, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("%q is no whole number", text)
			}
			*option.to = &number
			return nil
		})
	}
	flags.IntVar(&o.UTCOffset, "utc-offset", CurrentUTCOffset, "`SECONDS` of TAI - UTC that this node announces as grandmaster; 0: it does not know them")
	flags.BoolVar(&o.FreeRunning, "free-running", false, "measure only, and set no clock")
	flags.Func("set", "`NAME=VALUE`: a further option of ptp4l; can be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q: give NAME=VALUE", text)
		}
		o.Extra = append(o.Extra, Setting{name, value})
		return nil
	})
}

// reserved are options of ptp4l that follow from options of this program.
var reserved = map[string]string{
	"domainNumber": "--domain", "network_transport": "--transport", "delay_mechanism": "--delay-mechanism", "clock_servo": "--servo",
	"time_stamping": "--time-stamping", "free_running": "--free-running", "utc_offset": "--utc-offset", "priority1": "--priority1",
	"priority2": "--priority2", "logSyncInterval": "--log-sync-interval", "logAnnounceInterval": "--log-announce-interval",
	"logMinDelayReqInterval": "--log-delay-interval", "logMinPdelayReqInterval": "--log-delay-interval",
	"slaveOnly": "--role", "masterOnly": "--role", "gmCapable": "--role", "transportSpecific": "--profile",
	"uds_address": "--run-dir", "verbose": "", "use_syslog": "", "message_tag": "", "logging_level": "",
}

var (
	settingName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`)
	// settingValue matches printable ASCII without surrounding spaces.
	settingValue = regexp.MustCompile(`^[[:graph:]]([[:print:]]*[[:graph:]])?$`)
	// deviceName matches names that the kernel allows, without characters that end a section's name.
	deviceName = regexp.MustCompile(`^[^\s/:\]\[]{1,15}$`)
)

// Check returns an error if the options are invalid. It does not examine the node.
func (o *Options) Check() error {
	for _, check := range []func() error{o.checkDevices, o.checkChoices, o.checkNumbers, o.checkExtra} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) checkDevices() error {
	if len(o.Devices) == 0 {
		return fmt.Errorf("--device is missing: name the interface on which PTP is spoken")
	}
	for i, name := range o.Devices {
		if !deviceName.MatchString(name) {
			return fmt.Errorf("--device %q is no name of an interface", name)
		}
		if slices.Contains(o.Devices[:i], name) {
			return fmt.Errorf("--device %s is given twice", name)
		}
	}
	return nil
}

func (o *Options) checkChoices() error {
	for _, choice := range []struct {
		option, value string
		accepted      []string
	}{
		{"--profile", o.Profile, []string{ProfileDefault, ProfileGPTP}},
		{"--role", o.Role, []string{RoleSender, RoleReceiver, RoleSwitch, RoleGuest, RoleGrandmaster}},
		{"--transport", o.Transport, []string{"", TransportL2, TransportUDP4}},
		{"--delay-mechanism", o.Delay, []string{"", "E2E", "P2P"}},
		{"--servo", o.Servo, []string{"pi", "linreg"}},
		{"--time-stamping", o.Stamping, []string{StampAuto, StampHardware, StampSoftware}},
	} {
		if !slices.Contains(choice.accepted, choice.value) {
			names := slices.DeleteFunc(slices.Clone(choice.accepted), func(name string) bool { return name == "" })
			last := len(names) - 1
			return fmt.Errorf("%s %q: give %s or %s", choice.option, choice.value, strings.Join(names[:last], ", "), names[last])
		}
	}
	switch {
	case o.Profile == ProfileGPTP && o.Transport == TransportUDP4:
		return fmt.Errorf("--transport UDPv4 with --profile gptp: IEEE 802.1AS has no messages over IP; give L2, or the profile 1588")
	case o.Profile == ProfileGPTP && o.Delay == "E2E":
		return fmt.Errorf("--delay-mechanism E2E with --profile gptp: IEEE 802.1AS measures the delay to the neighbour only; give P2P, or the profile 1588")
	}
	return nil
}

// TAI - UTC was 10 s when leap seconds began; they rarely come twice a year.
const (
	minUTCOffset = 10
	maxUTCOffset = 255
)

func (o *Options) checkNumbers() error {
	for _, limit := range []struct {
		option   string
		value    *int
		min, max int
	}{
		{"--domain", &o.Domain, 0, 127},
		{"--priority1", o.Priority1, 0, 255},
		{"--priority2", o.Priority2, 0, 255},
		{"--log-sync-interval", o.LogSync, -7, 7},
		{"--log-announce-interval", o.LogAnnounce, -7, 7},
		{"--log-delay-interval", o.LogDelay, -7, 7},
	} {
		if limit.value != nil && (*limit.value < limit.min || *limit.value > limit.max) {
			return fmt.Errorf("%s %d: give %d to %d", limit.option, *limit.value, limit.min, limit.max)
		}
	}
	if o.UTCOffset != 0 && (o.UTCOffset < minUTCOffset || o.UTCOffset > maxUTCOffset) {
		return fmt.Errorf("--utc-offset %d: give the seconds of TAI - UTC, %d since 2017, or 0 where they are not known", o.UTCOffset, CurrentUTCOffset)
	}
	return nil
}

func (o *Options) checkExtra() error {
	for i, setting := range o.Extra {
		option, known := reserved[setting.Name]
		switch {
		case !settingName.MatchString(setting.Name):
			return fmt.Errorf("--set %q is no name of an option of ptp4l", setting.Name)
		case !settingValue.MatchString(setting.Value):
			return fmt.Errorf("--set %s: %q is no value: give one line without spaces around it", setting.Name, setting.Value)
		case known && option == "":
			return fmt.Errorf("--set %s: ktsn-ptp needs that option of ptp4l itself", setting.Name)
		case known:
			return fmt.Errorf("--set %s: give %s instead", setting.Name, option)
		case slices.ContainsFunc(o.Extra[:i], func(other Setting) bool { return other.Name == setting.Name }):
			return fmt.Errorf("--set %s is given twice", setting.Name)
		}
	}
	return nil
}

// onlyFollows tells a node that never becomes grandmaster.
func (o *Options) onlyFollows() bool { return o.Role == RoleReceiver || o.Role == RoleGuest }
