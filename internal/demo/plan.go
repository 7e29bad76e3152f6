// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

// workloadKeepAwake marks the runs in which ktsnd keeps its core from sleeping. Talker and ktsnd share
// that core, so it helps all paths alike.
const workloadKeepAwake = "keep-awake"

const (
	// keepAwakeMessages and keepAwakePayload are the size of the keep-awake runs.
	keepAwakeMessages = 1000
	keepAwakePayload  = 64
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
	// idle asks for ktsnd to be watched with nothing to send, after the runs.
	idle bool
	runs []run
}

// plan puts the runs in order: paths innermost, so that the same minute hits all of them.
func plan(config *Config) []block {
	daemon := slices.Contains(config.Paths, PathDirect)
	plain := block{idle: daemon, runs: interleave(config.Paths, config.Payloads, results.WorkloadPlain,
		config.perAlternation(), config.Alternations)}
	if !config.KeepAwake || !daemon {
		return []block{plain}
	}
	awake := block{keepAwake: true, runs: interleave(config.Paths, []int{keepAwakePayload}, workloadKeepAwake,
		max(keepAwakeMessages/config.Alternations, 2), config.Alternations)}
	return []block{plain, awake}
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
