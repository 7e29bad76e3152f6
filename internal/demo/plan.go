// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"time"
)

const (
	// keepAwakeMessages and keepAwakePayload are the size of the keep-awake runs.
	keepAwakeMessages = 1000
	keepAwakePayload  = 64
	// gatesRunTime bounds a run with gates: while one class saturates its window, ktsnd remembers the departures
	// of little more than a second.
	gatesRunTime = 500 * time.Millisecond
	// warmUpMessages precede the measured runs of a path: address resolution, caches, page faults.
	warmUpMessages = 50
	// idleTime is how long ktsnd is watched with nothing to send.
	idleTime = 2 * time.Second
	// runOverhead is about what a run takes besides its messages; only the time left depends on it.
	runOverhead = 200 * time.Millisecond
)

// run is one uninterrupted piece of traffic.
type run struct {
	path         string
	workload     string
	payloadBytes int
	messages     int
	// alternation counts from 1; 0 is a warm-up, which is not recorded.
	alternation int
}

// duration is about how long the run takes.
func (r run) duration(cycle time.Duration) time.Duration {
	return time.Duration(r.messages)*cycle + runOverhead
}

// block is a series of runs under one ktsnd.
type block struct {
	keepAwake bool
	// gates asks for a schedule.
	gates bool
	// idle asks for ktsnd to be watched with nothing to send, after the runs.
	idle bool
	runs []run
}

// plan puts the runs in order: paths innermost, so that the same minute hits all of them.
func plan(config *Config) []block {
	daemon := slices.Contains(config.Paths, PathDirect)
	var blocks []block
	if slices.Contains(config.Workloads, WorkloadPlain) {
		blocks = append(blocks, block{idle: daemon, runs: interleave(config.Paths, config.Payloads, WorkloadPlain,
			config.perAlternation(), config.Alternations)})
	}
	if daemon && slices.Contains(config.Workloads, WorkloadKeepAwake) {
		blocks = append(blocks, block{keepAwake: true, runs: interleave(config.Paths, []int{keepAwakePayload}, WorkloadKeepAwake,
			max(keepAwakeMessages/config.Alternations, 2), config.Alternations)})
	}
	if daemon && slices.ContainsFunc(config.Workloads, hasGates) {
		blocks = append(blocks, block{gates: true, runs: gateRuns(config)})
	}
	return blocks
}

// gateRuns has the workloads with gates take turns, in shorter and so more alternations than the others.
func gateRuns(config *Config) []run {
	total := config.perAlternation() * config.Alternations
	messages := min(max(int(gatesRunTime/config.Cycle), 2), config.perAlternation())
	alternations := (total + messages - 1) / messages
	var runs []run
	for alternation := range alternations + 1 {
		for _, workload := range gateWorkloads {
			if !slices.Contains(config.Workloads, workload) {
				continue
			}
			r := run{PathDirect, workload, gatesPayload, messages, alternation}
			if alternation == 0 {
				r.messages = warmUpMessages
			}
			runs = append(runs, r)
		}
	}
	return runs
}

func interleave(paths []string, payloads []int, workload string, messages, alternations int) []run {
	var runs []run
	for _, path := range paths {
		runs = append(runs, run{path, workload, payloads[0], warmUpMessages, 0})
	}
	for alternation := 1; alternation <= alternations; alternation++ {
		for _, payload := range payloads {
			for _, path := range paths {
				runs = append(runs, run{path, workload, payload, messages, alternation})
			}
		}
	}
	return runs
}
