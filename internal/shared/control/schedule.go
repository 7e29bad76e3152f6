// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
)

// TrafficClasses is the number of traffic classes; class 7 is the most important one.
const TrafficClasses = 8

// Priorities is the number of values of SO_PRIORITY with a traffic class of their own.
const Priorities = 16

// MaxControlListLength is the maximum number of entries of a gate control list.
const MaxControlListLength = 256

// SetGateStates is the only operation that ktsnd executes.
const SetGateStates = "set-gate-states"

// GateParameterTable is a schedule as users write it: the writable part of the container of that name in the
// YANG module ieee802-dot1q-sched.
type GateParameterTable struct {
	// GateEnabled false keeps the gates in AdminGateStates.
	GateEnabled bool `json:"gate-enabled"`
	// AdminGateStates is in force until the control list is executed for the first time; bit c is the gate of class c.
	AdminGateStates         uint8           `json:"admin-gate-states"`
	AdminControlList        GateControlList `json:"admin-control-list"`
	AdminCycleTime          CycleTime       `json:"admin-cycle-time"`
	AdminCycleTimeExtension uint32          `json:"admin-cycle-time-extension"`
	AdminBaseTime           PTPTime         `json:"admin-base-time"`
	// QueueMaxSDUTable has no entry for classes without a limit.
	QueueMaxSDUTable []QueueMaxSDU `json:"queue-max-sdu-table"`
}

// GateControlList is executed entry by entry, once a cycle.
type GateControlList struct {
	Entries []GateControlEntry `json:"gate-control-entry"`
}

// MarshalJSON writes a list without entries as [] instead of null.
func (l GateControlList) MarshalJSON() ([]byte, error) {
	type plain GateControlList
	if l.Entries == nil {
		l.Entries = []GateControlEntry{}
	}
	return json.Marshal(plain(l))
}

// GateControlEntry keeps the gates in a state for an interval.
type GateControlEntry struct {
	// Index counts the entries from 0.
	Index         uint32 `json:"index"`
	OperationName string `json:"operation-name"`
	// TimeIntervalValue is in nanoseconds.
	TimeIntervalValue uint32 `json:"time-interval-value"`
	// GateStatesValue has bit c set when the gate of class c is open.
	GateStatesValue uint8 `json:"gate-states-value"`
}

// CycleTime is a fraction of a second.
type CycleTime struct {
	Numerator   uint32 `json:"numerator"`
	Denominator uint32 `json:"denominator"`
}

// Nanoseconds returns the cycle time, 0 when there is none.
func (t CycleTime) Nanoseconds() int64 {
	if t.Denominator == 0 {
		return 0
	}
	return int64(t.Numerator) * 1e9 / int64(t.Denominator)
}

// PTPTime is a time in seconds and nanoseconds since 1970-01-01T00:00:00 TAI.
type PTPTime struct {
	Seconds     uint64 `json:"seconds"`
	Nanoseconds uint32 `json:"nanoseconds"`
}

// QueueMaxSDU bounds the frames of one class.
type QueueMaxSDU struct {
	TrafficClass uint8 `json:"traffic-class"`
	// QueueMaxSDU is in bytes of MAC client data; 0 is no limit.
	QueueMaxSDU uint32 `json:"queue-max-sdu"`
}

// GateSchedule is a GateParameterTable as ktsnd takes it: times in nanoseconds, and a maximum SDU for each class.
type GateSchedule struct {
	GateEnabled          bool                   `json:"gate-enabled"`
	GateStates           uint8                  `json:"gate-states"`
	Entries              []GateScheduleEntry    `json:"entries"`
	CycleTimeNs          int64                  `json:"cycle-time-ns"`
	CycleTimeExtensionNs uint32                 `json:"cycle-time-extension-ns"`
	BaseTimeTAINs        int64                  `json:"base-time-tai-ns"`
	QueueMaxSDUBytes     [TrafficClasses]uint32 `json:"queue-max-sdu-bytes"`
}

// GateScheduleEntry keeps the gates in a state for an interval.
type GateScheduleEntry struct {
	IntervalNs uint32 `json:"interval-ns"`
	GateStates uint8  `json:"gate-states"`
}

// NewGateSchedule converts a valid table.
func NewGateSchedule(table *GateParameterTable) GateSchedule {
	schedule := GateSchedule{
		GateEnabled:          table.GateEnabled,
		GateStates:           table.AdminGateStates,
		Entries:              []GateScheduleEntry{}, // not null
		CycleTimeNs:          table.AdminCycleTime.Nanoseconds(),
		CycleTimeExtensionNs: table.AdminCycleTimeExtension,
		BaseTimeTAINs:        int64(table.AdminBaseTime.Seconds)*1e9 + int64(table.AdminBaseTime.Nanoseconds),
	}
	for _, entry := range table.AdminControlList.Entries {
		schedule.Entries = append(schedule.Entries, GateScheduleEntry{entry.TimeIntervalValue, entry.GateStatesValue})
	}
	for _, limit := range table.QueueMaxSDUTable {
		schedule.QueueMaxSDUBytes[limit.TrafficClass%TrafficClasses] = limit.QueueMaxSDU
	}
	return schedule
}

// QueueState is a QueueMaxSDU in force, with its counter.
type QueueState struct {
	QueueMaxSDU
	// TransmissionOverrun counts frames that were still on their way when the gate of the class closed.
	TransmissionOverrun uint64 `json:"transmission-overrun"`
}

// GateParameterState is the whole gate-parameter-table: the last request (Admin) and the schedule in force (Oper).
type GateParameterState struct {
	GateEnabled      bool            `json:"gate-enabled"`
	AdminGateStates  uint8           `json:"admin-gate-states"`
	OperGateStates   uint8           `json:"oper-gate-states"`
	AdminControlList GateControlList `json:"admin-control-list"`
	// OperControlList is empty while no list is executed.
	OperControlList         GateControlList `json:"oper-control-list"`
	AdminCycleTime          CycleTime       `json:"admin-cycle-time"`
	OperCycleTime           CycleTime       `json:"oper-cycle-time"`
	AdminCycleTimeExtension uint32          `json:"admin-cycle-time-extension"`
	OperCycleTimeExtension  uint32          `json:"oper-cycle-time-extension"`
	AdminBaseTime           PTPTime         `json:"admin-base-time"`
	OperBaseTime            PTPTime         `json:"oper-base-time"`
	ConfigChangeTime        PTPTime         `json:"config-change-time"`
	// ConfigPending reports that Admin comes into force at ConfigChangeTime.
	ConfigPending     bool   `json:"config-pending"`
	ConfigChangeError uint64 `json:"config-change-error"`
	// TickGranularity is in tenths of a nanosecond.
	TickGranularity      uint32       `json:"tick-granularity"`
	CurrentTime          PTPTime      `json:"current-time"`
	SupportedListMax     uint32       `json:"supported-list-max"`
	SupportedCycleMax    CycleTime    `json:"supported-cycle-max"`
	SupportedIntervalMax uint32       `json:"supported-interval-max"`
	QueueMaxSDUTable     []QueueState `json:"queue-max-sdu-table"`
}

// Schedule is the state of ktsnd's gates and of its link.
type Schedule struct {
	Table        GateParameterState `json:"gate-parameter-table"`
	LinkSpeedBps int64              `json:"link-speed-bps"`
	// GuardBandNs is how long before its gate closes a frame must have left.
	GuardBandNs int64 `json:"guard-band-ns"`
}

// TrafficClassMap gives each value of SO_PRIORITY & 15 its class.
type TrafficClassMap [Priorities]uint8

// UnmarshalJSON accepts lists of exactly this length.
func (m *TrafficClassMap) UnmarshalJSON(data []byte) error {
	return decodeNumbers(data, m[:])
}

// PriorityCodePoints gives each class its PCP.
type PriorityCodePoints [TrafficClasses]uint8

// UnmarshalJSON accepts lists of exactly this length.
func (p *PriorityCodePoints) UnmarshalJSON(data []byte) error {
	return decodeNumbers(data, p[:])
}

func decodeNumbers(data []byte, to []uint8) error {
	var numbers []int // a list of uint8 would be base64
	if err := json.Unmarshal(data, &numbers); err != nil {
		return err
	}
	if len(numbers) != len(to) {
		return fmt.Errorf("list has %d numbers instead of %d", len(numbers), len(to))
	}
	for i, number := range numbers {
		if number < 0 || number > 255 {
			return fmt.Errorf("number %d is %d, out of range", i, number)
		}
		to[i] = uint8(number)
	}
	return nil
}

// ClassStatus counts the messages of one class by their outcome.
type ClassStatus struct {
	TrafficClass        uint8  `json:"traffic-class"`
	Pending             uint64 `json:"pending"`
	Sent                uint64 `json:"sent"`
	Late                uint64 `json:"late"`
	Dropped             uint64 `json:"dropped"`
	TransmissionOverrun uint64 `json:"transmission-overrun"`
}

// GatedPriorities returns a bit for each priority whose gate the schedule closes at times, now or after a change that is pending.
// Only the strategy "tas" has gates. ktsnd tells relays the same (gated_priorities in datapath/daemon/loop/watch.c).
func GatedPriorities(status *Status, schedule *Schedule) (gated uint64) {
	if status.Strategy != "tas" {
		return 0
	}
	closing := schedule.Table.closingGates()
	for priority, class := range status.TrafficClassMap {
		gated |= uint64(closing>>class&1) << priority
	}
	return gated
}

// closingGates returns a bit for each class.
func (s *GateParameterState) closingGates() uint8 {
	open := s.OperGateStates & s.OperControlList.alwaysOpen()
	if s.ConfigPending {
		open &= s.AdminControlList.alwaysOpen()
	}
	if s.ConfigPending && !s.GateEnabled {
		open &= s.AdminGateStates
	}
	return ^open
}

func (l GateControlList) alwaysOpen() uint8 {
	open := uint8(0xff)
	for _, entry := range l.Entries {
		open &= entry.GateStatesValue
	}
	return open
}
