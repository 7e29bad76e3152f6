// SPDX-License-Identifier: Apache-2.0

package scenario

import "encoding/json"

// Classes is the number of traffic classes.
const Classes = 8

// LinkSpeed is the speed, in bit/s, of every link in a scenario. taprio assumes it for a device that reports none, and
// it is slow enough that a frame can be as long as a window.
const LinkSpeed = 10_000_000

// Strategy is a strategy of ktsnd.
type Strategy string

// These strategies have a counterpart in the kernel.
const (
	TAS            Strategy = "tas"
	StrictPriority Strategy = "strict-priority"
	ETF            Strategy = "etf"
	ETFDeadline    Strategy = "etf-deadline"
)

// Scenario is one comparison.
type Scenario struct {
	// Name is the file's name without its ending.
	Name string `json:"name"`
	// Title is a short description.
	Title string `json:"title"`
	// Short scenarios are part of `make test`.
	Short    bool     `json:"short"`
	Strategy Strategy `json:"strategy"`
	// Schedules are the gates of the strategy tas. All but the first are changes at run time.
	Schedules []Schedule `json:"schedules,omitempty"`
	// Grid is the length of the windows for comparing the other strategies.
	Grid int64 `json:"grid-ns,omitempty"`
	// ETFDelta is the delta of the kernel's etf qdiscs. The guest wakes up late, so it must not be small, unless that
	// is the purpose.
	ETFDelta int64     `json:"kernel-etf-delta-ns,omitempty"`
	Messages []Message `json:"messages"`
	// Until is the end of the scenario; messages that have not left by then are held.
	Until      int64       `json:"until-ns"`
	Deviations []Deviation `json:"deviations,omitempty"`
}

// Schedule is a gate control list and the time at which it is requested.
type Schedule struct {
	At    int64 `json:"at-ns"`
	Table Table `json:"gate-parameter-table"`
}

// Table is gate-parameter-table of ktsnd's control socket. The base time may be negative, as it is relative to the
// start.
type Table struct {
	GateEnabled        bool          `json:"gate-enabled"`
	AdminGateStates    uint8         `json:"admin-gate-states"`
	ControlList        ControlList   `json:"admin-control-list"`
	CycleTime          CycleTime     `json:"admin-cycle-time"`
	CycleTimeExtension int64         `json:"admin-cycle-time-extension"`
	BaseTime           BaseTime      `json:"admin-base-time"`
	QueueMaxSDUTable   []QueueMaxSDU `json:"queue-max-sdu-table"`
}

// ControlList is admin-control-list.
type ControlList struct {
	Entries []GateEntry `json:"gate-control-entry"`
}

// GateEntry is gate-control-entry. TimeInterval is in nanoseconds, bit c of GateStates is the gate of class c.
type GateEntry struct {
	Index        int    `json:"index"`
	Operation    string `json:"operation-name"`
	TimeInterval int64  `json:"time-interval-value"`
	GateStates   uint8  `json:"gate-states-value"`
}

// CycleTime is admin-cycle-time, in seconds.
type CycleTime struct {
	Numerator   int64 `json:"numerator"`
	Denominator int64 `json:"denominator"`
}

// Nanoseconds returns the cycle time in nanoseconds.
func (c CycleTime) Nanoseconds() int64 { return c.Numerator * 1e9 / c.Denominator }

// BaseTime is admin-base-time, relative to the scenario's start.
type BaseTime struct {
	Seconds     int64 `json:"seconds"`
	Nanoseconds int64 `json:"nanoseconds"`
}

// Offset returns the offset of the base time from the scenario's start, in nanoseconds.
func (b BaseTime) Offset() int64 { return b.Seconds*1e9 + b.Nanoseconds }

// QueueMaxSDU is an element of queue-max-sdu-table.
type QueueMaxSDU struct {
	TrafficClass int `json:"traffic-class"`
	Bytes        int `json:"queue-max-sdu"`
}

// Message is a UDP datagram.
type Message struct {
	ID uint32 `json:"id"`
	// Priority is SO_PRIORITY of its socket, which selects its class.
	Priority     int `json:"priority"`
	PayloadBytes int `json:"payload-bytes"`
	// HandedOver is when the application sends it. Messages with equal times are sent in the order of the list.
	HandedOver int64 `json:"handed-over-ns"`
	// TransmitTime is its SCM_TXTIME; without one it is due when it is sent. Either all messages of a scenario have one
	// or none.
	TransmitTime *int64 `json:"txtime-ns,omitempty"`
}

// Deviation describes how and why the sides treat some messages differently.
type Deviation struct {
	Messages []uint32 `json:"messages"`
	// Shaper and Kernel are the outcomes of the messages: a window as Scenario.Window names it, "held", "dropped", or
	// "dropped: " and a reason.
	Shaper string `json:"shaper"`
	Kernel string `json:"kernel"`
	// Kind is the heading in docs/internals/conformance.md that explains the rule; Reason is its effect here.
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// classOfPriority is ktsnd's default, IEEE Std 802.1Q-2022 Table 8-5 for eight classes.
var classOfPriority = [16]int{1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7}

// Class returns the message's class.
func (m Message) Class() int { return classOfPriority[m.Priority] }

// DueAt returns its transmit time, or when it is sent without one.
func (m Message) DueAt() int64 {
	if m.TransmitTime != nil {
		return *m.TransmitTime
	}
	return m.HandedOver
}

// Sizes of an Ethernet frame without tag around a UDP datagram over IPv4.
const (
	ipAndUDPBytes    = 20 + 8
	ethernetBytes    = 14
	fcsBytes         = 4
	preambleGapBytes = 8 + 12
	// overheadBytes is what a frame occupies on the link beyond the length that the kernel counts.
	overheadBytes = fcsBytes + preambleGapBytes
)

// SDUBytes returns the length of its MAC client data.
func (m Message) SDUBytes() int { return m.PayloadBytes + ipAndUDPBytes }

// WireBytes is what its frame occupies of the link.
func (m Message) WireBytes() int { return m.SDUBytes() + ethernetBytes + overheadBytes }

// Timed tells whether the messages have transmit times.
func (s *Scenario) Timed() bool {
	return len(s.Messages) > 0 && s.Messages[0].TransmitTime != nil
}

// Marshal returns scenarios in the form in which the guest gets them.
func Marshal(scenarios []Scenario) ([]byte, error) { return json.Marshal(scenarios) }
