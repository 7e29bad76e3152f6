// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	// asideMessages and asidePayload are the size of runs of workloads keep-awake and pmd-sleep.
	asideMessages = 1000
	asidePayload  = 64
	// idleTime is how long ktsnd is watched with nothing to send.
	idleTime = 2 * time.Second
	// maxMessagesPerAlternation is below the number of departures that ktsnd stores.
	maxMessagesPerAlternation = 60_000
)

// AllWorkloads are the workloads of the demo in the order of measurement.
var AllWorkloads = []string{results.WorkloadPlain, results.WorkloadKeepAwake, results.WorkloadPMDSleep,
	results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated}

// ShortWorkloads are the workloads of a short run.
var ShortWorkloads = []string{results.WorkloadPlain, results.WorkloadGates, results.WorkloadGatesSaturated,
	results.WorkloadKernelSaturated}

// Config configures the demo.
type Config struct {
	// OutDir gets report.html, summary.json and messages.csv.
	OutDir string
	// BinDir contains ktsnd, libktsn.so, tsnperf and the network plugins.
	BinDir string
	// Messages are sent per path and payload, in Alternations pieces.
	Messages     int
	Alternations int
	// Payloads are bytes of UDP payload.
	Payloads []int
	Cycle    time.Duration
	Paths    []string
	// Workloads are the conditions of measurement. All but the plain one need path direct, and workload pmd-sleep needs
	// path ovs; they are left out without it.
	Workloads []string
	// Report gets the table, Progress a line from time to time. ProgressColumns is the width of Progress's terminal, on
	// which that line is overwritten; 0 if there is none.
	Report          io.Writer
	Progress        io.Writer
	ProgressColumns int
	// Now is the clock for the date and for durations; no message is measured with it.
	Now func() time.Time
}

// perAlternation is the number of messages in one run.
func (c *Config) perAlternation() int {
	return c.Messages / c.Alternations
}

// check returns an error for a configuration that cannot be measured.
func (c *Config) check() error {
	switch {
	case c.Alternations < 1:
		return fmt.Errorf("%d alternations; give at least 1", c.Alternations)
	case c.perAlternation() < 2:
		return fmt.Errorf("%d messages in %d alternations are too few; give at least two for each",
			c.Messages, c.Alternations)
	case c.perAlternation() > maxMessagesPerAlternation:
		return fmt.Errorf("%d messages in %d alternations are too many; give at most %d for each",
			c.Messages, c.Alternations, maxMessagesPerAlternation)
	}
	for _, workload := range c.Workloads {
		if workload == results.WorkloadUnsampled || workload == results.WorkloadTalkers || workload == results.WorkloadCompeting ||
			workload == results.WorkloadSaturated || workload == results.WorkloadGatesIperf3 {
			return fmt.Errorf("workload %s is not the demo's, which has %v; `ktsn bench` measures it", workload, AllWorkloads)
		}
	}
	if at := slices.IndexFunc(c.Paths, results.InGuest); at >= 0 {
		return fmt.Errorf("path %s is not the demo's, which has %v; `ktsn bench run vm` measures it", c.Paths[at], engine.PodPaths)
	}
	if fault := c.profile().Check(); fault != nil {
		return fault
	}
	return nil
}

// profile returns the demo's profile.
func (c *Config) profile() *engine.Profile {
	profile := engine.Defaults()
	profile.Name, profile.About = "demo", "What `ktsn demo` measures."
	profile.Paths, profile.Payloads, profile.Cycles = c.Paths, c.Payloads, []time.Duration{c.Cycle}
	profile.Messages, profile.Repetitions = c.perAlternation(), c.Alternations
	profile.Workloads, profile.Samplers = nil, engine.SamplersOn // messages.csv has the wire's time of each message
	for _, name := range c.Workloads {
		workload := engine.Workload{Name: name}
		switch {
		case engine.HasGates(name):
			workload.Payloads = []int{engine.GatesPayload}
		case name == results.WorkloadKeepAwake, name == results.WorkloadPMDSleep:
			workload.Payloads, workload.Messages = []int{asidePayload}, min(c.perAlternation(), max(asideMessages/c.Alternations, 2))
		case name == results.WorkloadPlain && c.hasDirect():
			profile.Idle = idleTime
		}
		profile.Workloads = append(profile.Workloads, workload)
	}
	return &profile
}

func (c *Config) hasDirect() bool {
	for _, path := range c.Paths {
		if path == results.PathDirect {
			return true
		}
	}
	return false
}
