// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// samples are measurements of each message in nanoseconds. Every time counts from the requested transmit time, which is
// the talker's plan: when a talker or a path stalls, all messages due meanwhile are late, and each of them is a sample.
// Counted from the actual sending, the same stall would be one sample, or none (coordinated omission).
type samples struct {
	latency, jitter, launch, departure, port, call []int64
	// request is launch relative to the application's requested time, where that differs.
	request []int64
	// scheduled is the time from the beginning of a cycle, by the clock at the wire, until a message was there;
	// application the time from the beginning of the cycle of the planned hand-over to the send call. For profiles with
	// a window.
	scheduled, application []int64
}

// samplesOf measures the messages of a run; failed send calls do not count.
func samplesOf(messages []results.Message, run *Run) samples {
	var s samples
	var arrivals [][]stats.Event // by talker
	for i := range messages {
		message := &messages[i]
		if message.Errno != 0 {
			continue
		}
		s.call = append(s.call, message.SendEnd-message.SendStart)
		if run.Window != (Window{}) {
			s.application = append(s.application, message.SendStart-cmp.Or(message.Asked, message.Txtime)+run.ahead().Nanoseconds())
		}
		if message.Departed != 0 && message.InTime() {
			s.departure = append(s.departure, message.Departed-message.Txtime)
		}
		if message.Wire != 0 && message.InTime() {
			s.launch = append(s.launch, message.Wire-message.Txtime)
			if run.Window != (Window{}) {
				s.scheduled = append(s.scheduled, message.Wire-cycleOf(message.Txtime-run.due().Nanoseconds(), run.CycleNs))
			}
			if message.Asked != 0 {
				s.request = append(s.request, message.Wire-message.Asked)
			}
			if message.Departed != 0 {
				s.port = append(s.port, message.Wire-message.Departed)
			}
		}
		if message.Arrival != 0 {
			s.latency = append(s.latency, message.Arrival-message.Txtime)
			for message.Talker >= len(arrivals) {
				arrivals = append(arrivals, nil)
			}
			arrivals[message.Talker] = append(arrivals[message.Talker], stats.Event{Sequence: message.Sequence, At: message.Arrival})
		}
	}
	for _, arrival := range arrivals {
		s.jitter = append(s.jitter, stats.JitterOf(arrival, run.CycleNs)...)
	}
	return s
}

// cycleOf returns the beginning of the cycle that is nearest to a time: the clocks of a virtual machine and its host
// always differ slightly.
func cycleOf(tai, cycleNs int64) int64 { return (tai + cycleNs/2) / cycleNs * cycleNs }

func (s *samples) add(more *samples) {
	s.latency = append(s.latency, more.latency...)
	s.jitter = append(s.jitter, more.jitter...)
	s.launch = append(s.launch, more.launch...)
	s.request = append(s.request, more.request...)
	s.departure = append(s.departure, more.departure...)
	s.port = append(s.port, more.port...)
	s.call = append(s.call, more.call...)
	s.scheduled = append(s.scheduled, more.scheduled...)
	s.application = append(s.application, more.application...)
}

// describe adds the distributions of times to a target's observations.
func (s *samples) describe(d *results.Distributions) {
	d.Latency = stats.Summarize(s.latency)
	d.Jitter = stats.SummarizeJitter(s.jitter)
	d.LaunchError = stats.Summarize(s.launch)
	d.RequestError = stats.SummarizeJitter(s.request)
	d.Scheduled = stats.SummarizeSpread(s.scheduled)
	d.DepartureError = stats.Summarize(s.departure)
	d.Port = stats.Summarize(s.port)
	d.SendCall = stats.Summarize(s.call)
}
