// SPDX-License-Identifier: Apache-2.0

package scenario

import "fmt"

// Report is the guest's report of a scenario. Times are nanoseconds relative to the scenario's start.
type Report struct {
	Name string `json:"name"`
	// Failure is why there is nothing to compare.
	Failure string `json:"failure,omitempty"`
	// Departures are the frames that left the qdisc, in order.
	Departures []Departure `json:"departures"`
	// Sent are the messages in the order of sending.
	Sent []Sent `json:"sent"`
	// Reported are the messages that the kernel returned through the error queue.
	Reported []Reported `json:"reported"`
	// Latest is the guest's largest lateness, measured every few milliseconds, in nanoseconds.
	Latest int64 `json:"latest-ns"`
	// Configured is when each schedule was in place.
	Configured []int64 `json:"configured"`
	// Held is the number of frames in the qdiscs at the end.
	Held int `json:"held"`
}

// Departure is a frame that left the qdisc.
type Departure struct {
	ID uint32 `json:"id"`
	At int64  `json:"at-ns"`
}

// Sent is a message that was handed over.
type Sent struct {
	ID uint32 `json:"id"`
	At int64  `json:"at-ns"`
	// Refused reports whether the send call failed because the qdisc dropped the message (ENOBUFS).
	Refused bool `json:"refused"`
}

// Reported is a message in the error queue.
type Reported struct {
	ID     uint32 `json:"id"`
	Reason Reason `json:"reason"`
}

// Reason is why a message was dropped, with the names of ktsnd's counters.
type Reason string

// NoReason is the kernel's, if it reports nothing else.
const (
	Missed   Reason = "missed"
	TxTime   Reason = "txtime"
	MaxSDU   Reason = "max-sdu"
	NoWindow Reason = "no-window"
	NoReason Reason = ""
)

const (
	// mostLate is the guest's tolerated lateness, in nanoseconds. Windows are many times longer.
	mostLate = 10_000_000
	// longestSetUp is how long tc may take.
	longestSetUp = 150_000_000
)

// Disturbed returns an error if the guest was so slow that the report proves nothing. It ignores the outcome of the
// messages.
func (r *Report) Disturbed(what *Scenario) error {
	handedOver := map[uint32]int64{}
	for _, message := range what.Messages {
		handedOver[message.ID] = message.HandedOver
	}
	if len(r.Sent) != len(what.Messages) || len(r.Configured) != max(len(what.Schedules), 1) {
		return fmt.Errorf("the guest sent %d of %d messages and asked for %d schedules", len(r.Sent), len(what.Messages),
			len(r.Configured))
	}
	if r.Latest > mostLate {
		return fmt.Errorf("the guest was %d ns late", r.Latest)
	}
	for _, sent := range r.Sent {
		if late := sent.At - handedOver[sent.ID]; late > mostLate {
			return fmt.Errorf("the guest sent message %d %d ns late", sent.ID, late)
		}
	}
	for i, configured := range r.Configured {
		if took := configured - what.askedFor(i); took > longestSetUp {
			return fmt.Errorf("the guest needed %d ns for schedule %d", took, i)
		}
	}
	return nil
}
