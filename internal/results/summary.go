// SPDX-License-Identifier: Apache-2.0

package results

import (
	"github.com/kubernetsn/kubernetsn/internal/stats"
)

// Schema is the version of summary.json.
const Schema = 1

// WorkloadPlain is a run without competing traffic, schedule or special setting.
const WorkloadPlain = "plain"

// Summary is a whole measurement.
type Summary struct {
	Schema int   `json:"schema"`
	Host   Host  `json:"host"`
	Setup  Setup `json:"setup"`
	// StolenCores is what the hypervisor gave to others meanwhile, of all this machine's cores together:
	// noise that no path is to blame for. 0 on bare metal.
	StolenCores float64 `json:"stolen_cores"`
	Runs        []*Run  `json:"runs"`
	// Idle is ktsnd with nothing to send; null when that was not measured.
	Idle *Idle `json:"idle"`
	// Figures compares with what the project wants to reach.
	Figures []Figure `json:"figures"`
	// Warnings are what ktsnd had to say.
	Warnings []string `json:"warnings"`
	// Problems says in sentences what makes the measurement invalid or a failure; empty when nothing does.
	Problems []string `json:"problems"`
}

// Setup is how it was measured.
type Setup struct {
	// Messages were sent per path and payload, in so many alternations.
	Messages     int `json:"messages"`
	Alternations int `json:"alternations"`
	// SenderCPU is where talker and ktsnd ran, ListenerCPU where the polling listener did; -1: not pinned.
	SenderCPU   int `json:"sender_cpu"`
	ListenerCPU int `json:"listener_cpu"`
	// LeadNs is how long before its transmit time the application hands a timed message over.
	LeadNs int64 `json:"lead_ns"`
}

// Run is one path with one payload under one workload.
type Run struct {
	Path         string `json:"path"`
	Workload     string `json:"workload"`
	PayloadBytes int    `json:"payload_bytes"`
	CycleNs      int64  `json:"cycle_ns"`
	// Over the messages of all alternations together.
	Counts
	Distributions
	// Each alternation by itself, and the median of each of their figures.
	Alternations         []Alternation `json:"alternations"`
	MedianOfAlternations Distributions `json:"median_of_alternations"`
}

// Alternation is one uninterrupted piece of a run.
type Alternation struct {
	Counts
	Distributions
}

// Counts are numbers of messages.
type Counts struct {
	// Sent were accepted by the send call; SendErrors were not.
	Sent       int `json:"sent"`
	SendErrors int `json:"send_errors"`
	// Received is the number of different messages that arrived with every byte intact; Lost is the rest
	// of those sent.
	Received int `json:"received"`
	Lost     int `json:"lost"`
	// Corrupt arrived with a byte changed, Duplicated arrived once more.
	Corrupt    int `json:"corrupt"`
	Duplicated int `json:"duplicated"`
	// Early were on the wire before the time asked for.
	Early int `json:"early"`
	// Late is how many ktsnd counted as having left after their time, for any reason; null for paths
	// without ktsnd, which count nothing.
	Late *uint64 `json:"late"`
}

// Distributions are what was measured per message; null where a path has no such measurement.
type Distributions struct {
	// Latency is arrival at the listener - requested transmit time.
	Latency *stats.Summary `json:"latency_ns"`
	// Jitter is t(i) - (t(i-1) + cycle) of arrivals with consecutive sequence numbers.
	Jitter *stats.Jitter `json:"jitter_ns"`
	// LaunchError is time on the wire, seen by a tap on the receiving end of the link, - requested
	// transmit time.
	LaunchError *stats.Summary `json:"launch_error_ns"`
	// DepartureError is ktsnd's clock read that released the frame - requested transmit time.
	DepartureError *stats.Summary `json:"departure_error_ns"`
	// SendCall is how long the application's send call took.
	SendCall *stats.Summary `json:"send_call_ns"`
	// CPUCores is the processor time of programs as a share of one core, by program.
	CPUCores map[string]float64 `json:"cpu_cores"`
}

// Idle is a daemon with nothing to send.
type Idle struct {
	DurationNs int64              `json:"duration_ns"`
	CPUCores   map[string]float64 `json:"cpu_cores"`
}

// Figure is a value that the project wants below a limit.
type Figure struct {
	Name string `json:"name"`
	// Unit is "ns", "cores", "messages" or "ratio".
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit"`
	// Values by payload in bytes; "-" when the figure does not depend on it.
	Values  map[string]float64 `json:"values"`
	Reached bool               `json:"reached"`
}

// PoolCounts adds up the counts of alternations.
func PoolCounts(alternations []Alternation) Counts {
	var sum Counts
	for _, alternation := range alternations {
		sum.Sent += alternation.Sent
		sum.SendErrors += alternation.SendErrors
		sum.Received += alternation.Received
		sum.Lost += alternation.Lost
		sum.Corrupt += alternation.Corrupt
		sum.Duplicated += alternation.Duplicated
		sum.Early += alternation.Early
		if alternation.Late != nil {
			if sum.Late == nil {
				sum.Late = new(uint64)
			}
			*sum.Late += *alternation.Late
		}
	}
	return sum
}

// MedianOf takes the median of each figure over the alternations.
func MedianOf(alternations []Alternation) Distributions {
	summaries := func(of func(Alternation) *stats.Summary) *stats.Summary {
		all := make([]*stats.Summary, len(alternations))
		for i, alternation := range alternations {
			all[i] = of(alternation)
		}
		return stats.MedianSummary(all)
	}
	jitters := make([]*stats.Jitter, len(alternations))
	for i, alternation := range alternations {
		jitters[i] = alternation.Jitter
	}
	return Distributions{
		Latency:        summaries(func(a Alternation) *stats.Summary { return a.Latency }),
		Jitter:         stats.MedianJitter(jitters),
		LaunchError:    summaries(func(a Alternation) *stats.Summary { return a.LaunchError }),
		DepartureError: summaries(func(a Alternation) *stats.Summary { return a.DepartureError }),
		SendCall:       summaries(func(a Alternation) *stats.Summary { return a.SendCall }),
		CPUCores:       medianCores(alternations),
	}
}

// MeanCores is the mean of each program's share over alternations of equal length.
func MeanCores(alternations []Alternation) map[string]float64 {
	means := map[string]float64{}
	for program, shares := range coresByProgram(alternations) {
		for _, share := range shares {
			means[program] += share / float64(len(shares))
		}
	}
	return means
}

func medianCores(alternations []Alternation) map[string]float64 {
	medians := map[string]float64{}
	for program, shares := range coresByProgram(alternations) {
		medians[program] = stats.Median(shares)
	}
	return medians
}

func coresByProgram(alternations []Alternation) map[string][]float64 {
	byProgram := map[string][]float64{}
	for _, alternation := range alternations {
		for program, share := range alternation.CPUCores {
			byProgram[program] = append(byProgram[program], share)
		}
	}
	return byProgram
}
