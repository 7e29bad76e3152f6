// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const clockMend = "docs/guide/clocks.md says how clocks are kept; `ktsn node clock` on the node shows the state of this one"

// clock reports the state of a node's clock. Faults are notes: the condition of a network that needs a better clock has its own finding.
func (d *Doctor) clock(node *v1alpha1.TSNNode) {
	const about = "clock"
	clock := node.Status.Clock
	if clock == nil {
		return // the agent has just started
	}
	text := clock.State
	if !clock.Since.IsZero() {
		text += " since " + clock.Since.UTC().Format(time.RFC3339)
	}
	if clock.ErrorBoundNanoseconds != nil {
		text += fmt.Sprintf(", error at most %v", time.Duration(*clock.ErrorBoundNanoseconds))
	}
	if clock.Grandmaster != "" {
		text += fmt.Sprintf(", by %s of %s", clock.Source, clock.Grandmaster)
	}
	if clock.Steps > 0 {
		text += fmt.Sprintf(", set %d times", clock.Steps)
	}
	if clock.State == "Synchronized" && clock.Message == "" {
		d.ok(about, "%s", text)
		return
	}
	d.report(Note, about, clockMend, "%s: %s", text, cmp.Or(clock.Message, "no reason was reported"))
}

// ktsndsClock reports the state of the clock in ktsnd. The agent's reports expire after a while.
func (d *Doctor) ktsndsClock(about string, state *State) {
	clock := &state.Status.Clock
	if !clock.Synchronized && (clock.State == "" || clock.State == control.ClockUnknown) {
		d.report(Note, about, "run ptp4l and phc2sys, or chrony, on all nodes (clock.mode of the chart)",
			"no program disciplines the node's clock: schedules of nodes drift apart")
	}
	if clock.Steps > 0 {
		d.report(Note, about, "do not set the clock while ktsnd runs; the Events of the node have the times", "the clock was set %d times since ktsnd "+
			"began, the last time by %v", clock.Steps, time.Duration(clock.LastStepNs))
	}
	for i := range state.Clocks {
		if clock := &state.Clocks[i]; clock.Lost && clock.Good {
			d.report(Bad, about, "check that ktsn-agent runs on the node, and its log",
				"ktsnd has had no report about the clock for so long that the clock is lost to network %d (%s)", clock.VNI, clock.OnLoss)
		}
	}
	if lost := state.Status.Counters.ClockLost; lost > 0 {
		d.report(Note, about, "", "%d messages left by a clock that was not good enough for their network", lost)
	}
	if dropped := state.Status.Counters.DropClock; dropped > 0 {
		d.report(Note, about, "", "%d messages were not sent because the clock was not good enough for their network", dropped)
	}
}
