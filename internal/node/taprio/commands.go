// SPDX-License-Identifier: Apache-2.0

package taprio

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// fullOffload is TCA_TAPRIO_ATTR_FLAG_FULL_OFFLOAD of linux/pkt_sched.h.
const fullOffload = "0x2"

// rootHandle is the handle of taprio; its classes are 100:1, 100:2 and so on.
const rootHandle = "100:"

const nsPerSecond = 1_000_000_000

// Command is a program and its arguments.
type Command []string

func (c Command) String() string { return strings.Join(c, " ") }

// Commands returns, in order, the commands that make a device execute the schedule, which must be valid.
func Commands(table *control.GateParameterTable, o *Options) ([]Command, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if !table.GateEnabled {
		return nil, errors.New("gate-enabled is false: there is no control list that the kernel could execute")
	}
	gates := o.gates(table)
	commands := []Command{
		{"ethtool", "-L", o.Device, "combined", strconv.Itoa(o.classes())},
		// An existing taprio does not accept other classes. Any other root would do.
		{"tc", "qdisc", "replace", "dev", o.Device, "root", "pfifo"},
		o.taprio(o.mapping(), gates),
	}
	if o.ETF {
		commands = append(commands, o.etfs()...)
		// Each new child resets taprio and stops its schedule, so set the schedule again.
		commands = append(commands, o.taprio(nil, gates))
	}
	commands = append(commands, Command{"ip", "link", "set", "dev", o.Device, "up"})
	if o.VLAN > 0 {
		commands = append(commands, o.vlan(), Command{"ip", "link", "set", "dev", o.vlanDevice(), "up"})
	}
	return commands, nil
}

// taprio returns the command that sets the gates, and the mapping of priorities, classes and queues if it is new.
func (o *Options) taprio(mapping, gates Command) Command {
	command := Command{"tc", "qdisc", "replace", "dev", o.Device, "parent", "root", "handle", rootHandle, "taprio"}
	command = append(append(command, mapping...), gates...)
	if o.offloads(OffloadTaprio) {
		return append(command, "flags", fullOffload) // by the card's clock
	}
	return append(command, "clockid", "CLOCK_TAI")
}

// mapping assigns one queue to each class.
func (o *Options) mapping() Command {
	command := Command{"num_tc", strconv.Itoa(o.classes()), "map"}
	for _, class := range o.Classes {
		command = append(command, strconv.Itoa(int(class)))
	}
	command = append(command, "queues")
	for class := range o.classes() {
		command = append(command, "1@"+strconv.Itoa(class))
	}
	return command
}

func (o *Options) gates(table *control.GateParameterTable) Command {
	cycle := schedule.Cycle{TimeNs: table.AdminCycleTime.Nanoseconds(), Entries: table.AdminControlList.Entries}
	command := Command{"base-time", strconv.FormatInt(baseTimeNs(table), 10)}
	// taprio repeats its list at the end of the list, ktsnd at the end of the cycle.
	for _, entry := range cycle.Executed() {
		command = append(command, "sched-entry", "S", fmt.Sprintf("%02x", entry.GateStatesValue), strconv.FormatUint(uint64(entry.TimeIntervalValue), 10))
	}
	command = append(command, "cycle-time", strconv.FormatInt(cycle.TimeNs, 10))
	if table.AdminCycleTimeExtension > 0 {
		command = append(command, "cycle-time-extension", strconv.FormatUint(uint64(table.AdminCycleTimeExtension), 10))
	}
	return append(command, o.longestFrames(table)...)
}

func baseTimeNs(table *control.GateParameterTable) int64 {
	return int64(table.AdminBaseTime.Seconds)*nsPerSecond + int64(table.AdminBaseTime.Nanoseconds)
}

// longestFrames limits the payload of each class's frames in bytes; taprio, like ktsnd, does not count the header.
func (o *Options) longestFrames(table *control.GateParameterTable) Command {
	if len(table.QueueMaxSDUTable) == 0 {
		return nil
	}
	limits := [control.TrafficClasses]uint32{}
	for _, limit := range table.QueueMaxSDUTable {
		limits[limit.TrafficClass] = limit.QueueMaxSDU
	}
	command := Command{"max-sdu"}
	for _, limit := range limits[:o.classes()] {
		command = append(command, strconv.FormatUint(uint64(limit), 10))
	}
	return command
}

func (o *Options) etfs() (all []Command) {
	for class := range o.classes() {
		if !o.hasETF(class) {
			continue
		}
		command := Command{"tc", "qdisc", "replace", "dev", o.Device, "parent", rootHandle + strconv.Itoa(class+1), "etf",
			"clockid", "CLOCK_TAI", "delta", strconv.FormatInt(o.Delta.Nanoseconds(), 10)}
		if o.offloads(OffloadETF) {
			command = append(command, "offload")
		}
		all = append(all, command)
	}
	return all
}

// vlan returns the command that creates the VLAN device.
func (o *Options) vlan() Command {
	return append(Command{"ip", "link", "add", "link", o.Device, "name", o.vlanDevice()}, o.vlanType()...)
}

// vlanType maps each priority to the PCP of its class.
func (o *Options) vlanType() Command {
	command := Command{"type", "vlan", "id", strconv.Itoa(o.VLAN), "egress-qos-map"}
	for priority, class := range o.Classes {
		command = append(command, fmt.Sprintf("%d:%d", priority, o.CodePoints[class]))
	}
	return command
}
