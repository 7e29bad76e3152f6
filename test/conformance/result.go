// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// Outcome is the outcome of a message: the window in which it left, or one of the values below.
type Outcome string

// Messages that did not leave. A colon and the reason follow, if it is known: for most drops the kernel reports none.
const (
	Held    Outcome = "held"
	Dropped Outcome = "dropped"
)

// Result is one side's result of a scenario.
type Result struct {
	// Outcomes has each message.
	Outcomes map[uint32]Outcome
	// Order has the messages that left, in the order of their departure.
	Order []uint32
}

func newResult() *Result { return &Result{Outcomes: map[uint32]Outcome{}} }

func (r *Result) depart(id uint32, window string) error {
	r.Order = append(r.Order, id)
	return r.set(id, Outcome(window))
}

func (r *Result) drop(id uint32, reason scenario.Reason) error {
	if reason == scenario.NoReason {
		return r.set(id, Dropped)
	}
	return r.set(id, Dropped+": "+Outcome(reason))
}

func (r *Result) set(id uint32, outcome Outcome) error {
	if before, ok := r.Outcomes[id]; ok {
		return fmt.Errorf("message %d: %s, and before that: %s", id, outcome, before)
	}
	r.Outcomes[id] = outcome
	return nil
}

// hold notes the messages that neither left nor were dropped.
func (r *Result) hold(what *scenario.Scenario) error {
	known := map[uint32]bool{}
	for _, message := range what.Messages {
		known[message.ID] = true
		if _, ok := r.Outcomes[message.ID]; !ok {
			r.Outcomes[message.ID] = Held
		}
	}
	for id := range r.Outcomes {
		if !known[id] {
			return fmt.Errorf("message %d was never handed over", id)
		}
	}
	return nil
}

// KernelResult converts the guest's report.
func KernelResult(what *scenario.Scenario, report *scenario.Report) (*Result, error) {
	if report.Failure != "" {
		return nil, fmt.Errorf("the guest reports: %s", report.Failure)
	}
	if err := report.Disturbed(what); err != nil {
		return nil, err
	}
	result := newResult()
	for _, departure := range report.Departures {
		if err := result.depart(departure.ID, what.Window(departure.At)); err != nil {
			return nil, err
		}
	}
	if err := addDropped(result, report); err != nil {
		return nil, err
	}
	if err := result.hold(what); err != nil {
		return nil, err
	}
	held := 0
	for _, outcome := range result.Outcomes {
		if outcome == Held {
			held++
		}
	}
	if held != report.Held {
		return nil, fmt.Errorf("%d messages neither left nor were dropped, but the qdiscs hold %d", held, report.Held)
	}
	return result, nil
}

// addDropped notes the messages that the qdiscs refused, with the reason if the error queue has one, and those that
// they dropped later.
func addDropped(result *Result, report *scenario.Report) error {
	reasons := map[uint32]scenario.Reason{}
	for _, reported := range report.Reported {
		reasons[reported.ID] = reported.Reason
	}
	for _, sent := range report.Sent {
		if reason, known := reasons[sent.ID]; sent.Refused || known {
			if err := result.drop(sent.ID, reason); err != nil {
				return err
			}
		}
	}
	return nil
}
