// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// samples are what was measured of each message, in nanoseconds. Every time counts from the requested transmit time,
// which is the talker's plan: a talker or a path that stands still for a while makes all messages late that were due
// meanwhile, and each of them is a sample. Counted from when a message was really sent, the same pause would be one
// sample, or none (coordinated omission).
type samples struct {
	latency, jitter, launch, departure, port, call []int64
	// request is launch by what the application asked for, where that is another time.
	request []int64
	// scheduled is from the beginning of a cycle, by the clock of who sees the wire, until a message was there; application from the
	// beginning of the cycle in which it was to be handed over to the send call. Of profiles with a window.
	scheduled, application []int64
}

// samplesOf measures the messages of a run; those whose send call failed do not count.
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

// cycleOf is the beginning of a cycle that is nearest to a time: clocks of a virtual machine and its host are never quite the same.
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

// describe adds the distributions of times to what a target observed.
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
