// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"

	"github.com/kubernetsn/kubernetsn/internal/report"
	"github.com/kubernetsn/kubernetsn/internal/results"
	"github.com/kubernetsn/kubernetsn/internal/stats"
)

// recorder collects the outcomes of runs.
type recorder struct {
	cycleNs  int64
	csv      *results.MessageWriter
	entries  []*entry
	problems []string
}

// entry is one run of the results while it grows.
type entry struct {
	run results.Run
	// The samples of all alternations, for percentiles over them together.
	samples samples
}

func newRecorder(cycleNs int64, csv io.Writer) *recorder {
	return &recorder{cycleNs: cycleNs, csv: results.NewMessageWriter(csv)}
}

// add takes the outcome of one run.
func (r *recorder) add(made run, result *outcome) error {
	for _, problem := range result.problems {
		r.problems = append(r.problems, fmt.Sprintf("%s, %d B, %s, alternation %d: %s",
			made.path, made.payloadBytes, made.workload, made.alternation, problem))
	}
	entry := r.entry(made)
	entry.run.Alternations = append(entry.run.Alternations, result.alternation)
	entry.samples.add(&result.samples)
	err := r.csv.Write(made.path, made.workload, made.payloadBytes, made.alternation, result.messages)
	if err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	return nil
}

func (r *recorder) entry(made run) *entry {
	for _, entry := range r.entries {
		if entry.run.Path == made.path && entry.run.PayloadBytes == made.payloadBytes &&
			entry.run.Workload == made.workload {
			return entry
		}
	}
	added := &entry{run: results.Run{
		Path:         made.path,
		Workload:     made.workload,
		PayloadBytes: made.payloadBytes,
		CycleNs:      r.cycleNs,
	}}
	r.entries = append(r.entries, added)
	return added
}

// finish flushes the messages and returns the runs with the figures over all their alternations.
func (r *recorder) finish() ([]*results.Run, error) {
	if err := r.csv.Flush(); err != nil {
		return nil, fmt.Errorf("write messages: %w", err)
	}
	var runs []*results.Run
	for _, entry := range r.entries {
		run := &entry.run
		run.Counts = results.PoolCounts(run.Alternations)
		run.Distributions = entry.samples.distributions()
		run.CPUCores = results.MeanCores(run.Alternations)
		run.MedianOfAlternations = results.MedianOf(run.Alternations)
		runs = append(runs, run)
	}
	return runs, nil
}

// series are the samples behind the runs, for the report's drawings.
func (r *recorder) series() []report.Series {
	all := make([]report.Series, len(r.entries))
	for i, entry := range r.entries {
		all[i] = report.Series{
			Path:         entry.run.Path,
			Workload:     entry.run.Workload,
			PayloadBytes: entry.run.PayloadBytes,
			LatencyNs:    entry.samples.latency,
			JitterNs:     entry.samples.jitter,
		}
	}
	return all
}

// samples are what was measured of each message, in nanoseconds.
type samples struct {
	latency, jitter, launch, departure, call []int64
}

// samplesOf measures messages; those whose send call failed do not count.
func samplesOf(messages []results.Message, cycleNs int64) samples {
	var s samples
	var arrivals []stats.Event
	for _, message := range messages {
		if message.Errno != 0 {
			continue
		}
		s.call = append(s.call, message.SendEnd-message.SendStart)
		if message.Departed != 0 {
			s.departure = append(s.departure, message.Departed-message.Txtime)
		}
		if message.Wire != 0 {
			s.launch = append(s.launch, message.Wire-message.Txtime)
		}
		if message.Arrival != 0 {
			s.latency = append(s.latency, message.Arrival-message.Txtime)
			arrivals = append(arrivals, stats.Event{Sequence: message.Sequence, At: message.Arrival})
		}
	}
	s.jitter = stats.JitterOf(arrivals, cycleNs)
	return s
}

func (s *samples) add(more *samples) {
	s.latency = append(s.latency, more.latency...)
	s.jitter = append(s.jitter, more.jitter...)
	s.launch = append(s.launch, more.launch...)
	s.departure = append(s.departure, more.departure...)
	s.call = append(s.call, more.call...)
}

func (s *samples) distributions() results.Distributions {
	return results.Distributions{
		Latency:        stats.Summarize(s.latency),
		Jitter:         stats.SummarizeJitter(s.jitter),
		LaunchError:    stats.Summarize(s.launch),
		DepartureError: stats.Summarize(s.departure),
		SendCall:       stats.Summarize(s.call),
	}
}
