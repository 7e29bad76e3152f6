// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Window is when the gate is open in each cycle for the measured messages only. Zero: the default schedule with three
// windows.
type Window struct {
	Open  time.Duration `json:"open"`
	Close time.Duration `json:"close"`
	// Offset is the time from Open to the transmit times.
	Offset time.Duration `json:"offset"`
	// Stretch multiplies cycle, window and offset where an emulated machine's kernel executes the schedule; 0: once.
	Stretch int `json:"stretch,omitempty"`
	// GuestEarly is how much earlier messages are due where a virtual machine's host executes the schedule, to allow
	// for the error of the machine's knowledge of the host's time. The gate then holds them until it opens.
	GuestEarly time.Duration `json:"guest-early,omitempty"`
}

// maxStretch is far more than any machine needs.
const maxStretch = 100

// stretchOn returns the factor of a cycle on a path.
func (w Window) stretchOn(path string) int {
	if path == results.PathGuestTaprio {
		return max(w.Stretch, 1)
	}
	return 1
}

// On returns the window of a path's messages.
func (w Window) On(path string) Window {
	by := time.Duration(w.stretchOn(path))
	on := Window{Open: w.Open * by, Close: w.Close * by, Offset: w.Offset * by}
	if path == results.PathGuestTap {
		on.Offset -= w.GuestEarly
	}
	return on
}

// leastLead is the minimum time between the wake-up of a talker at the beginning of a cycle and its messages.
const leastLead = 500 * time.Microsecond

// GuestLead is the minimum in a virtual machine, whose processors may stall for that long.
const GuestLead = 100 * time.Millisecond

// Lead is how long before its transmit time a message of the window is handed over: at the beginning of its cycle, or
// of an earlier one if that is too close.
func (w Window) Lead(cycle time.Duration, path string) time.Duration {
	ahead, least := w.Transmit(), leastLead
	if results.InGuest(path) {
		least = GuestLead
	}
	if ahead >= least {
		return ahead
	}
	return ahead + (least-ahead+cycle-1)/cycle*cycle
}

// due returns how long after the beginning of a cycle the run's messages are due.
func (r *Run) due() time.Duration {
	if HasGates(r.Workload) {
		return r.Window.Transmit()
	}
	return 0
}

// ahead returns how long before they are due the run's talker hands messages over: at the beginning of a cycle.
func (r *Run) ahead() time.Duration {
	if HasGates(r.Workload) {
		return r.Window.Lead(r.Cycle(), r.Path)
	}
	return 0
}

// leastWindow is the time for the longest frame at 1 Gbit/s and the guard band.
const leastWindow = 50 * time.Microsecond

// Transmit returns when in the cycle messages are due.
func (w Window) Transmit() time.Duration { return w.Open + w.Offset }

// summary is nil for none.
func (w Window) summary() *results.Window {
	if w == (Window{}) {
		return nil
	}
	return &results.Window{OpenNs: w.Open.Nanoseconds(), CloseNs: w.Close.Nanoseconds(), OffsetNs: w.Offset.Nanoseconds(), Stretch: w.Stretch,
		GuestEarlyNs: w.GuestEarly.Nanoseconds()}
}

func (p *Profile) checkWindow() *Fault {
	w := p.Window
	if p.VLAN != 0 && !slices.ContainsFunc(p.workloadNames(), HasGates) {
		return fault("vlan", -1, "given, and no workload with a schedule; add some of %v, or leave it out", GateWorkloads)
	}
	if w == (Window{}) {
		return nil
	}
	switch {
	case w.Open < 0 || w.Close-w.Open < leastWindow:
		return fault("window", -1, "from %v to %v; give one of at least %v within the cycle", w.Open, w.Close, leastWindow)
	case w.Offset < 0 || w.Offset >= w.Close-w.Open:
		return fault("window", -1, "an offset of %v in a window of %v; give less", w.Offset, w.Close-w.Open)
	case !slices.ContainsFunc(p.workloadNames(), HasGates):
		return fault("window", -1, "given, and no workload with a schedule; add some of %v, or leave it out", GateWorkloads)
	}
	for _, cycle := range p.Cycles {
		if stretched := cycle * time.Duration(max(w.Stretch, 1)); stretched > maxGatesCycle {
			return fault("window", -1, "stretched to a cycle of %v; give a stretch with which it is at most %v", stretched, maxGatesCycle)
		}
		if w.GuestEarly < 0 || w.GuestEarly > min(cycle/2, w.Transmit()) {
			return fault("window", -1, "messages of virtual machines %v earlier in a cycle of %v; give 0s to %v", w.GuestEarly, cycle, min(cycle/2, w.Transmit()))
		}
		if w.Close > cycle || w.Close-w.Open == cycle {
			return fault("window", -1, "from %v to %v in a cycle of %v; give one that leaves some of the cycle to others", w.Open, w.Close, cycle)
		}
	}
	return nil
}

// LeaveVLAN makes frames untagged, and records why.
func (p *Profile) LeaveVLAN(why string) {
	p.Lacking = append(p.Lacking, results.Gap{What: fmt.Sprintf("VLAN %d", p.VLAN), Why: why})
	p.VLAN = 0
}

// leaveWindow is for targets without their own schedules.
func (p *Profile) leaveWindow() {
	if p.VLAN != 0 {
		p.LeaveVLAN(othersSchedule)
	}
	if p.Window != (Window{}) {
		p.Window = Window{}
		p.Lacking = append(p.Lacking, results.Gap{What: "a window of the schedule", Why: othersSchedule})
	}
}
