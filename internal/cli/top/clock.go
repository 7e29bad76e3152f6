// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"time"
)

// Clock is how good the node's clock is, by which messages leave.
type Clock struct {
	// State is "" of a ktsnd that knows nothing of that. ErrorBoundNs is below zero where nobody knows.
	State        string `json:"state"`
	ErrorBoundNs int64  `json:"error-bound-ns"`
	// Steps are those of the interval, LastStepNs the last one.
	Steps      uint64 `json:"steps"`
	LastStepNs int64  `json:"last-step-ns"`
	// MessagesLost left in the interval by a clock that was not good enough for their network.
	MessagesLost uint64 `json:"clock-lost"`
}

func compareClocks(before, after *Sample) Clock {
	return Clock{
		State: string(after.Clock.State), ErrorBoundNs: after.Clock.ErrorBoundNs, Steps: since(before.Clock.Steps, after.Clock.Steps),
		LastStepNs: after.Clock.LastStepNs, MessagesLost: since(before.Counters.ClockLost, after.Counters.ClockLost),
	}
}

// String is a line for people.
func (c Clock) String() string {
	line := "clock " + c.State
	if c.ErrorBoundNs >= 0 {
		line += fmt.Sprintf(", error at most %v", time.Duration(c.ErrorBoundNs))
	} else {
		line += ", error unknown"
	}
	if c.Steps > 0 {
		line += fmt.Sprintf("; set %d times, last by %v", c.Steps, time.Duration(c.LastStepNs))
	}
	if c.MessagesLost > 0 {
		line += fmt.Sprintf("; %d messages left by a clock that is lost to their network", c.MessagesLost)
	}
	return line
}
