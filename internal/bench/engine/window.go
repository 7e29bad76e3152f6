// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/bench/results"
)

// Window is when in each cycle the gate is open for the measured messages, and for nobody else. Zero: the schedule with
// three windows that there is otherwise.
type Window struct {
	Open  time.Duration `json:"open"`
	Close time.Duration `json:"close"`
	// Offset of the transmit times from Open.
	Offset time.Duration `json:"offset"`
}

// leastWindow is room for the longest frame at a Gbit/s, and for the guard band before the gate closes.
const leastWindow = 50 * time.Microsecond

// Transmit is when in the cycle messages are due.
func (w Window) Transmit() time.Duration { return w.Open + w.Offset }

// summary is nil for none.
func (w Window) summary() *results.Window {
	if w == (Window{}) {
		return nil
	}
	return &results.Window{OpenNs: w.Open.Nanoseconds(), CloseNs: w.Close.Nanoseconds(), OffsetNs: w.Offset.Nanoseconds()}
}

func readWindow(p *Profile, n *yaml.Node) error {
	return members(n, "a window", map[string]func(*yaml.Node) error{
		"open":   func(n *yaml.Node) (err error) { p.Window.Open, err = duration(n); return err },
		"close":  func(n *yaml.Node) (err error) { p.Window.Close, err = duration(n); return err },
		"offset": func(n *yaml.Node) (err error) { p.Window.Offset, err = duration(n); return err },
	})
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
		if w.Close > cycle || w.Close-w.Open == cycle {
			return fault("window", -1, "from %v to %v in a cycle of %v; give one that leaves some of the cycle to others", w.Open, w.Close, cycle)
		}
	}
	return nil
}

// LeaveVLAN has frames carry no tag, and says why.
func (p *Profile) LeaveVLAN(why string) {
	p.Lacking = append(p.Lacking, results.Gap{What: fmt.Sprintf("VLAN %d", p.VLAN), Why: why})
	p.VLAN = 0
}

// leaveWindow is for targets without schedules of their own.
func (p *Profile) leaveWindow() {
	if p.VLAN != 0 {
		p.LeaveVLAN(othersSchedule)
	}
	if p.Window != (Window{}) {
		p.Window = Window{}
		p.Lacking = append(p.Lacking, results.Gap{What: "a window of the schedule", Why: othersSchedule})
	}
}
