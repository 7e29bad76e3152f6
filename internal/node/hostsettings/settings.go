// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Setting is a setting of the machine.
type Setting struct {
	Name string `json:"name"`
	// Found is its state.
	Found string `json:"found"`
	// Cost is its cost for ktsnd; empty if no change would help.
	Cost string `json:"cost,omitempty"`
	// Mend is how to change it; docs/guide/tuning.md has the files of each distribution.
	Mend string `json:"mend,omitempty"`
}

// Ktsnd describes the ktsnd for which the machine is set up.
type Ktsnd struct {
	// CPU is the processor of its sending thread; negative: any.
	CPU int
	// FIFOPriority is the priority of that thread; 0: it has ordinary scheduling.
	FIFOPriority int
	// KeepsAwake: it keeps its processor from sleeping.
	KeepsAwake bool
	// Interface is its uplink; empty: unknown.
	Interface string
	// PID is its process in /proc; 0: unknown.
	PID int
}

// Machine gives access to the machine's settings.
type Machine struct {
	// Files is the root folder.
	Files fs.FS
	// ClockResolution is the resolution of CLOCK_MONOTONIC; 0: unknown.
	ClockResolution time.Duration
	// Card reads the settings of an interface's card.
	Card func(name string) *Card
}

// This returns the machine on which the program runs.
func This() *Machine {
	machine := &Machine{Files: os.DirFS("/"), Card: ReadCard}
	var resolution unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC, &resolution) == nil {
		machine.ClockResolution = time.Duration(resolution.Nano())
	}
	return machine
}

// Read reads all settings. The settings that matter most on most machines come first.
func (m *Machine) Read(ktsnd Ktsnd) []Setting {
	r := reader{Machine: m, ktsnd: ktsnd, isVirtual: m.virtual()}
	for _, read := range []func(){
		r.virtualMachine, r.powerStates, r.frequency, r.isolation, r.interrupts, r.irqbalance, r.tick, r.callbacks, r.preemption,
		r.throttling, r.siblings, r.timers, r.clockSource, r.cardNode, r.numaBalancing, r.hugePages, r.swap, r.link, r.energyEfficient, r.coalescing,
		r.offloads,
	} {
		read()
	}
	return r.all
}

// reader collects the settings of a machine for one ktsnd.
type reader struct {
	*Machine
	ktsnd     Ktsnd
	isVirtual bool
	all       []Setting
}

// good adds a setting without a cost.
func (r *reader) good(name, state string) { r.all = append(r.all, Setting{Name: name, Found: state}) }

func (r *reader) costs(name, state, cost, mend string) {
	r.all = append(r.all, Setting{Name: name, Found: state, Cost: cost, Mend: mend})
}
