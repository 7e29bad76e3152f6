// SPDX-License-Identifier: Apache-2.0

package scenario

// Report is what the guest tells of one scenario. Times are nanoseconds relative to the scenario's start.
type Report struct {
	Name string `json:"name"`
	// Failure is why there is nothing to compare.
	Failure string `json:"failure,omitempty"`
	// Departures are the frames that left the qdisc, in their order.
	Departures []Departure `json:"departures"`
	// Sent are the messages as they were handed over.
	Sent []Sent `json:"sent"`
	// Reported are the messages that the kernel gave back through the error queue.
	Reported []Reported `json:"reported"`
	// Configured is when each schedule was in place.
	Configured []int64 `json:"configured"`
	// Held is the number of frames that are in the qdiscs at the end.
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
	// Refused tells that the send call said that the qdisc dropped it (ENOBUFS).
	Refused bool `json:"refused"`
}

// Reported is a message in the error queue.
type Reported struct {
	ID     uint32 `json:"id"`
	Reason Reason `json:"reason"`
}

// Reason is why a message was dropped, as ktsnd's counters name it.
type Reason string

// The reasons. NoReason is the kernel's when it says no more than that.
const (
	Missed   Reason = "missed"
	TxTime   Reason = "txtime"
	MaxSDU   Reason = "max-sdu"
	NoWindow Reason = "no-window"
	NoReason Reason = ""
)
