// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	tableName = "gate-parameter-table"
	// moduleName is the YANG module that defines the operations, and, with "-bridge" behind, one that places the
	// table.
	moduleName = "ieee802-dot1q-sched"

	maxBaseSeconds = 9_000_000_000
	nsPerSecond    = 1_000_000_000
	minQueueMaxSDU = 46
	maxQueueMaxSDU = 65535
)

// place is a value and its place in the file, for messages.
type place struct {
	parent *place
	// name is empty for an entry of a list.
	name  string
	index int
	value *yaml.Node
}

func (p place) String() string {
	switch {
	case p.parent == nil:
		return p.name
	case p.name == "":
		return fmt.Sprintf("%v[%d]", p.parent, p.index)
	default:
		return fmt.Sprintf("%v.%s", p.parent, p.name)
	}
}

// line returns the line of the place, or of the nearest place around it that the file has.
func (p place) line() int {
	for at := &p; at != nil; at = at.parent {
		if at.parent != nil && at.name != "" && at.parent.value != nil {
			for name := range fields(at.parent.value) {
				if name.Value == at.name {
					return name.Line
				}
			}
		}
		if at.value != nil {
			return at.value.Line
		}
	}
	return 0
}

// member returns a field of an object, which may be missing.
func (p *place) member(name string) place {
	inner := place{parent: p, name: name}
	if p.value == nil {
		return inner
	}
	for key, value := range fields(p.value) {
		if key.Value == name {
			inner.value = value
		}
	}
	return inner
}

func (p *place) entry(index int) place {
	inner := place{parent: p, index: index}
	if p.value != nil && index < len(p.value.Content) {
		inner.value = p.value.Content[index]
	}
	return inner
}

func (p place) fault(format string, arguments ...any) *Error {
	return &Error{Line: p.line(), Field: p.String(), Message: fmt.Sprintf(format, arguments...)}
}

// unwrap finds the table: the file's value itself, or its only field when that is called so, with or without the
// name of a module.
func unwrap(tree *yaml.Node) (place, *Error) {
	root := place{name: tableName, value: tree}
	for key, value := range fields(tree) {
		table := key.Value
		if table != tableName && table != moduleName+":"+tableName && table != moduleName+"-bridge:"+tableName {
			continue
		}
		for other := range fields(tree) {
			if other.Value != table {
				return root, &Error{Line: other.Line, Message: fmt.Sprintf("has an unknown field %s; there is only %s", quote(other.Value), table)}
			}
		}
		root.value = value
	}
	return root, nil
}

// decoder reads values until one is at fault; after that it returns zeros.
type decoder struct {
	fault *Error
}

func (d *decoder) refuse(p place, format string, arguments ...any) {
	if d.fault == nil {
		d.fault = p.fault(format, arguments...)
	}
}

func (d *decoder) refuseValue(p place, wanted string, arguments ...any) {
	d.refuse(p, "is %s; must be %s", describe(p.value), fmt.Sprintf(wanted, arguments...))
}

// object checks that a value is an object without other fields than these.
func (d *decoder) object(p place, known ...string) {
	list := strings.Join(known, ", ")
	if p.value.Kind != yaml.MappingNode {
		d.refuseValue(p, "an object with %s", list)
		return
	}
	for name := range fields(p.value) {
		if !slices.Contains(known, name.Value) {
			if d.fault == nil {
				d.fault = &Error{Line: name.Line, Field: p.String(),
					Message: fmt.Sprintf("has an unknown field %s; there are only %s", quote(name.Value), list)}
			}
			return
		}
	}
}

func (d *decoder) list(p place, limit int) {
	switch {
	case p.value.Kind != yaml.SequenceNode:
		d.refuseValue(p, "a list of 0 to %d entries", limit)
	case len(p.value.Content) > limit:
		d.refuse(p, "has %d entries; must have 0 to %d", len(p.value.Content), limit)
	}
}

func (d *decoder) required(object *place, name string) place {
	p := object.member(name)
	if p.value == nil {
		d.refuse(p, "is missing; it is required")
	}
	return p
}

// ambiguous matches numbers that are octal in YAML 1.1 and decimal in YAML 1.2.
var ambiguous = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// whole reads a whole number that is not negative.
func (d *decoder) whole(p place) (uint64, bool) {
	if p.value.ShortTag() != "!!int" {
		return 0, false
	}
	integer := integerOf(p.value.Value)
	if integer != nil && ambiguous.MatchString(p.value.Value) {
		d.refuse(p, "is %s; must be written without a 0 in front", p.value.Value)
	}
	switch number := integer.(type) {
	case uint64:
		return number, true
	case int64:
		return uint64(number), number >= 0
	default:
		return 0, false
	}
}

func (d *decoder) integer(p place, minimum, maximum uint64) uint64 {
	if d.fault != nil {
		return 0
	}
	number, whole := d.whole(p)
	if !whole || number < minimum || number > maximum {
		d.refuseValue(p, "a whole number from %d to %d", minimum, maximum)
		return 0
	}
	return number
}

func (d *decoder) requiredInteger(object *place, name string, minimum, maximum uint64) uint64 {
	return d.integer(d.required(object, name), minimum, maximum)
}

func (d *decoder) optionalInteger(object *place, name string, maximum, defaultValue uint64) uint64 {
	p := object.member(name)
	if p.value == nil {
		return defaultValue
	}
	return d.integer(p, 0, maximum)
}

func (d *decoder) table(root place) *control.GateParameterTable {
	d.object(root, "gate-enabled", "admin-gate-states", "admin-control-list", "admin-cycle-time",
		"admin-cycle-time-extension", "admin-base-time", "queue-max-sdu-table")
	if d.fault != nil {
		return nil
	}
	table := &control.GateParameterTable{}
	if enabled := root.member("gate-enabled"); enabled.value != nil {
		if enabled.value.ShortTag() != "!!bool" {
			d.refuseValue(enabled, "true or false")
		}
		table.GateEnabled = strings.EqualFold(enabled.value.Value, "true")
	}
	table.AdminGateStates = uint8(d.optionalInteger(&root, "admin-gate-states", math.MaxUint8, math.MaxUint8))
	table.AdminCycleTimeExtension = uint32(d.optionalInteger(&root, "admin-cycle-time-extension", math.MaxUint32, 0))
	table.AdminCycleTime = d.cycleTime(&root, table.GateEnabled)
	table.AdminBaseTime = d.baseTime(&root)
	table.AdminControlList.Entries = d.controlList(&root)
	table.QueueMaxSDUTable = d.queueMaxSDUs(&root)
	return table
}

// cycleTime may be missing while gates are not enabled; it is 1 s then.
func (d *decoder) cycleTime(table *place, needed bool) control.CycleTime {
	if !needed && table.member("admin-cycle-time").value == nil {
		return control.CycleTime{Numerator: 1, Denominator: 1}
	}
	cycle := d.required(table, "admin-cycle-time")
	if d.fault != nil {
		return control.CycleTime{}
	}
	d.object(cycle, "numerator", "denominator")
	numerator := d.requiredInteger(&cycle, "numerator", 1, math.MaxUint32)
	denominator := d.requiredInteger(&cycle, "denominator", 1, math.MaxUint32)
	if d.fault == nil && numerator*nsPerSecond%denominator != 0 {
		d.refuse(cycle, "is %d/%d s; must be a whole number of nanoseconds", numerator, denominator)
	}
	return control.CycleTime{Numerator: uint32(numerator), Denominator: uint32(denominator)}
}

func (d *decoder) baseTime(table *place) control.PTPTime {
	base := table.member("admin-base-time")
	if base.value == nil || d.fault != nil {
		return control.PTPTime{}
	}
	d.object(base, "seconds", "nanoseconds")
	return control.PTPTime{
		Seconds:     d.seconds(base.member("seconds")),
		Nanoseconds: uint32(d.optionalInteger(&base, "nanoseconds", nsPerSecond-1, 0)),
	}
}

// seconds is the one number of 64 bits, which RFC 7951 writes as a string.
func (d *decoder) seconds(p place) uint64 {
	if p.value == nil || d.fault != nil {
		return 0
	}
	if p.value.ShortTag() == "!!str" {
		if number, err := strconv.ParseUint(p.value.Value, 10, 64); err == nil && number <= maxBaseSeconds {
			return number
		}
	}
	return d.integer(p, 0, maxBaseSeconds)
}

func (d *decoder) controlList(table *place) []control.GateControlEntry {
	container := table.member("admin-control-list")
	if container.value == nil || d.fault != nil {
		return nil
	}
	if d.object(container, "gate-control-entry"); d.fault != nil {
		return nil
	}
	list := container.member("gate-control-entry")
	if list.value == nil {
		return nil
	}
	d.list(list, control.MaxControlListLength)
	var entries []control.GateControlEntry
	for i := range list.value.Content {
		if d.fault != nil {
			return nil
		}
		entries = append(entries, d.controlEntry(list.entry(i)))
	}
	return entries
}

func (d *decoder) controlEntry(p place) control.GateControlEntry {
	if d.object(p, "index", "operation-name", "time-interval-value", "gate-states-value"); d.fault != nil {
		return control.GateControlEntry{}
	}
	index := d.requiredInteger(&p, "index", 0, math.MaxUint32)
	if index != uint64(p.index) {
		d.refuse(p.member("index"), "is %d; must be %d: entries are numbered from 0 in order", index, p.index)
	}
	d.operation(d.required(&p, "operation-name"))
	return control.GateControlEntry{
		Index:             uint32(index),
		OperationName:     control.SetGateStates,
		TimeIntervalValue: uint32(d.requiredInteger(&p, "time-interval-value", 0, math.MaxUint32)),
		GateStatesValue:   uint8(d.requiredInteger(&p, "gate-states-value", 0, math.MaxUint8)),
	}
}

// operation may be prefixed with the name of its module, like an identity in RFC 7951.
func (d *decoder) operation(p place) {
	if d.fault == nil && (p.value.ShortTag() != "!!str" ||
		strings.TrimPrefix(p.value.Value, moduleName+":") != control.SetGateStates) {
		d.refuseValue(p, `"%s", because frames are not preempted here`, control.SetGateStates)
	}
}

func (d *decoder) queueMaxSDUs(table *place) []control.QueueMaxSDU {
	list := table.member("queue-max-sdu-table")
	if list.value == nil || d.fault != nil {
		return nil
	}
	d.list(list, control.TrafficClasses)
	var sdus []control.QueueMaxSDU
	for i := range list.value.Content {
		if d.fault != nil {
			return nil
		}
		sdus = append(sdus, d.queueMaxSDU(list.entry(i), sdus))
	}
	return sdus
}

// queueMaxSDU reads an entry that follows others.
func (d *decoder) queueMaxSDU(p place, others []control.QueueMaxSDU) control.QueueMaxSDU {
	if d.object(p, "traffic-class", "queue-max-sdu"); d.fault != nil {
		return control.QueueMaxSDU{}
	}
	sdu := control.QueueMaxSDU{
		TrafficClass: uint8(d.requiredInteger(&p, "traffic-class", 0, control.TrafficClasses-1)),
	}
	if slices.ContainsFunc(others, func(other control.QueueMaxSDU) bool { return other.TrafficClass == sdu.TrafficClass }) {
		d.refuse(p.member("traffic-class"), "is %d, which an entry before it is too; must be there once", sdu.TrafficClass)
	}
	limit := p.member("queue-max-sdu")
	if limit.value == nil || d.fault != nil {
		return sdu
	}
	number, whole := d.whole(limit)
	if !whole || number != 0 && (number < minQueueMaxSDU || number > maxQueueMaxSDU) {
		d.refuseValue(limit, "0 for no limit, or a whole number from %d to %d", minQueueMaxSDU, maxQueueMaxSDU)
	}
	sdu.QueueMaxSDU = uint32(number)
	return sdu
}
