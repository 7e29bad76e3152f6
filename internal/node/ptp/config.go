// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Config is a configuration of ptp4l.
type Config struct {
	Global []Setting
	Ports  []Port
}

// Port is the section of an interface.
type Port struct {
	Name     string
	Settings []Setting
}

// gptpDestination is the group address of IEEE 802.1AS, which no bridge forwards.
const gptpDestination = "01:80:C2:00:00:0E"

// applicationClass is the clockClass of IEEE 1588 (table 4) of a clock with an application-specific time: with RoleGrandmaster the
// domain gets this node's time, whichever program keeps it. Classes 6 and 7 would claim a primary reference such as GNSS, 193 the loss of
// one, and 248 is the default, which does not distinguish a grandmaster from a node that has lost its own. The accuracy is known only to
// the program that keeps the clock, so clockAccuracy stays unknown.
const applicationClass = 13

// Config returns the configuration of ptp4l, without values that are ptp4l's defaults.
func (o *Options) Config(stamping Stamping) *Config {
	config := &Config{}
	if o.Profile == ProfileGPTP {
		config.Global = o.gptp(stamping)
	} else {
		config.Global = o.default1588()
	}
	set := func(when bool, name, value string) {
		if when {
			config.Global = append(config.Global, Setting{name, value})
		}
	}
	set(o.Servo != "pi", "clock_servo", o.Servo)
	set(!stamping.Hardware, "time_stamping", StampSoftware)
	set(stamping.Hardware && len(stamping.oneOfEachClock()) > 1, "boundary_clock_jbod", "1")
	// Another program keeps a grandmaster's clock. With software stamps ptp4l would set it if it became a follower.
	set(o.FreeRunning || (o.Role == RoleGrandmaster && !stamping.Hardware), "free_running", "1")
	set(o.Role == RoleGrandmaster, "clockClass", strconv.Itoa(applicationClass))
	set(o.UTCOffset != 0 && o.UTCOffset != CurrentUTCOffset, "utc_offset", strconv.Itoa(o.UTCOffset))
	for _, setting := range o.Extra {
		if at := slices.IndexFunc(config.Global, func(s Setting) bool { return s.Name == setting.Name }); at >= 0 {
			config.Global[at].Value = setting.Value
		} else {
			config.Global = append(config.Global, setting)
		}
	}
	for _, name := range o.Devices {
		config.Ports = append(config.Ports, Port{name, o.port()})
	}
	return config
}

// default1588 returns the options that differ from the default profile, whose values are ptp4l's defaults.
func (o *Options) default1588() []Setting {
	var global []Setting
	set := func(when bool, name, value string) {
		if when {
			global = append(global, Setting{name, value})
		}
	}
	set(o.onlyFollows(), "slaveOnly", "1")
	// Better than end stations with priority 128, and worse than a clock with an explicit lower value.
	first := 128
	if o.Role == RoleSwitch {
		first = 127
	}
	set(o.Priority1 != nil || first != 128, "priority1", number(o.Priority1, first))
	set(o.Priority2 != nil, "priority2", number(o.Priority2, 128))
	set(o.Domain != 0, "domainNumber", strconv.Itoa(o.Domain))
	set(o.LogAnnounce != nil, "logAnnounceInterval", number(o.LogAnnounce, 1))
	set(o.LogSync != nil, "logSyncInterval", number(o.LogSync, 0))
	set(o.LogDelay != nil, o.delayInterval(), number(o.LogDelay, 0))
	set(true, "network_transport", either(o.Transport, TransportUDP4))
	set(true, "delay_mechanism", either(o.Delay, "E2E"))
	return global
}

// delayInterval returns the name of the option for the interval of delay measurements.
func (o *Options) delayInterval() string {
	if o.Delay == "P2P" || o.Profile == ProfileGPTP {
		return "logMinPdelayReqInterval"
	}
	return "logMinDelayReqInterval"
}

// gptp returns the options of IEEE 802.1AS.
func (o *Options) gptp(stamping Stamping) []Setting {
	// IEEE 802.1AS-2020, 8.6.2.1: 246 for infrastructure, 248 for fixed end stations, 255 for stations that are not grandmaster-capable.
	capable, first := "1", 248
	switch {
	case o.onlyFollows():
		capable, first = "0", 255
	case o.Role == RoleSwitch:
		first = 246
	}
	global := []Setting{{"gmCapable", capable}, {"priority1", number(o.Priority1, first)}, {"priority2", number(o.Priority2, 248)}}
	if o.Domain != 0 {
		global = append(global, Setting{"domainNumber", strconv.Itoa(o.Domain)})
	}
	global = append(global, Setting{"logAnnounceInterval", number(o.LogAnnounce, 0)}, Setting{"logSyncInterval", number(o.LogSync, -3)})
	if o.LogDelay != nil {
		global = append(global, Setting{o.delayInterval(), number(o.LogDelay, 0)})
	}
	global = append(global, Setting{"syncReceiptTimeout", "3"})
	// Software measures delays above 800 ns, with which a neighbour would not count as capable of 802.1AS.
	if stamping.Hardware {
		global = append(global, Setting{"neighborPropDelayThresh", "800"})
	}
	return append(global, Setting{"min_neighbor_prop_delay", "-20000000"}, Setting{"assume_two_step", "1"},
		Setting{"path_trace_enabled", "1"}, Setting{"follow_up_info", "1"}, Setting{"ptp_dst_mac", gptpDestination},
		Setting{"network_transport", TransportL2}, Setting{"delay_mechanism", "P2P"})
}

// port returns the options of each interface. transportSpecific is not a global option: then ptp4l's management socket would require
// it in requests as well.
func (o *Options) port() []Setting {
	var settings []Setting
	if o.Profile == ProfileGPTP {
		settings = append(settings, Setting{"transportSpecific", "0x1"})
	}
	if o.Role == RoleGrandmaster {
		settings = append(settings, Setting{"masterOnly", "1"})
	}
	return settings
}

func number(given *int, otherwise int) string {
	if given != nil {
		return strconv.Itoa(*given)
	}
	return strconv.Itoa(otherwise)
}

func either(given, otherwise string) string {
	if given != "" {
		return given
	}
	return otherwise
}

// Write writes the configuration in ptp4l's format.
func (c *Config) Write(to io.Writer) error {
	var text strings.Builder
	section(&text, "global", c.Global)
	for _, port := range c.Ports {
		text.WriteString("\n")
		section(&text, port.Name, port.Settings)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

func section(text *strings.Builder, name string, settings []Setting) {
	fmt.Fprintf(text, "[%s]\n", name)
	for _, setting := range settings {
		fmt.Fprintf(text, "%-23s %s\n", setting.Name, setting.Value)
	}
}
