// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Setting is one that was read.
type Setting struct {
	Name string `json:"name"`
	// Found is what is there.
	Found string `json:"found"`
	// Cost is what it costs; empty where nothing is to be won.
	Cost string `json:"cost,omitempty"`
	// Mend is how to change it; docs/host-settings.md has the files of each distribution.
	Mend string `json:"mend,omitempty"`
}

// Ktsnd is what matters of the ktsnd for which the machine is set up.
type Ktsnd struct {
	// CPU is the processor of its sending thread; negative: any.
	CPU int
	// FIFOPriority of that thread; 0: it has ordinary scheduling.
	FIFOPriority int
	// KeepsAwake tells whether it keeps its processor from sleeping.
	KeepsAwake bool
	// Interface is its uplink; empty: unknown.
	Interface string
	// PID as /proc numbers it; 0: unknown.
	PID int
}

// Machine is where settings are read.
type Machine struct {
	// Files is the root folder.
	Files fs.FS
	// ClockResolution is that of CLOCK_MONOTONIC; 0: unknown.
	ClockResolution time.Duration
	// Card asks the driver of an interface.
	Card func(name string) *Card
}

// This is the machine on which the program runs.
func This() *Machine {
	machine := &Machine{Files: os.DirFS("/"), Card: ReadCard}
	var resolution unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC, &resolution) == nil {
		machine.ClockResolution = time.Duration(resolution.Nano())
	}
	return machine
}

// Read reads all settings, those first that win most on most machines.
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

// good is a setting with which nothing is to be won.
func (r *reader) good(name, found string) { r.all = append(r.all, Setting{Name: name, Found: found}) }

func (r *reader) costs(name, found, cost, mend string) {
	r.all = append(r.all, Setting{Name: name, Found: found, Cost: cost, Mend: mend})
}
