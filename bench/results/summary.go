// SPDX-License-Identifier: Apache-2.0

// Package results defines the format of measurements: summary.json, and one CSV line per message. The demo and every
// bench write the same format.
package results

import (
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Schema is the version of summary.json.
const Schema = 1

// Summary is a whole measurement.
type Summary struct {
	Schema int   `json:"schema"`
	Host   Host  `json:"host"`
	Setup  Setup `json:"setup"`
	// Profile is null in a measurement without its own profile.
	Profile *ProfileSummary `json:"profile"`
	// Clock describes the clocks of the times.
	Clock *Clock `json:"clock"`
	// StolenCores is the time of all this machine's cores that the hypervisor gave to others: noise that no path
	// causes. 0 on bare metal.
	StolenCores float64 `json:"stolen_cores"`
	Runs        []*Run  `json:"runs"`
	// Sections are an experiment's; empty if the profile names none.
	Sections []Section `json:"sections,omitempty"`
	// Cases are an experiment's figures; empty if the profile names none.
	Cases []*Case `json:"cases,omitempty"`
	// Idle is ktsnd with nothing to send; null if that was not measured.
	Idle *Idle `json:"idle"`
	// Usage is the usage of nodes and pods over the whole measurement; empty if it is unknown.
	Usage []Usage `json:"usage"`
	// Ratios compare runs with each other, with the range of the ratio.
	Ratios []Ratio `json:"ratios"`
	// Assertions are the assertions about the figures and their results.
	Assertions []Assertion `json:"assertions"`
	// NotMeasured lists what could not be measured here, and why.
	NotMeasured []Gap `json:"not_measured"`
	// Figures are compared with the project's targets.
	Figures []Figure `json:"figures"`
	// Emulated describes the virtual machines; empty if there were none.
	Emulated string `json:"emulated,omitempty"`
	// Warnings are ktsnd's.
	Warnings []string `json:"warnings"`
	// Problems lists why the measurement is invalid or a failure; empty if it is neither.
	Problems []string `json:"problems"`
}

// Setup describes the conditions of the measurement.
type Setup struct {
	// Messages were sent per path and payload, in this many alternations.
	Messages     int `json:"messages"`
	Alternations int `json:"alternations"`
	// SenderCPU is the processor of talker and ktsnd, ListenerCPU that of the polling listener; -1: not pinned.
	SenderCPU   int `json:"sender_cpu"`
	ListenerCPU int `json:"listener_cpu"`
	// LeadNs is how long before its transmit time the application hands over a timed message.
	LeadNs int64 `json:"lead_ns"`
	// SpinNs is how long the talkers of spinning paths busy-wait before each send, like ktsnd before a departure, and
	// FIFOPriority their SCHED_FIFO priority, like ktsnd's; 0: none.
	SpinNs       int64 `json:"spin_ns"`
	FIFOPriority int   `json:"fifo_priority"`
	// Gates is ktsnd's setting in the runs under a schedule; null when there were none.
	Gates *GateSetup `json:"gates"`
}

// GateSetup is how runs under a schedule differ.
type GateSetup struct {
	// LeadNs takes the place of Setup.LeadNs.
	LeadNs int64 `json:"lead_ns"`
	// LinkSpeedBps is the link speed in ktsnd's configuration.
	LinkSpeedBps int64 `json:"link_speed_bps"`
	// GuardBandNs is how long before its gate closes a frame must have left.
	GuardBandNs int64 `json:"guard_band_ns"`
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
	// Each alternation by itself, and the median of each figure.
	Alternations         []Alternation `json:"alternations"`
	MedianOfAlternations Distributions `json:"median_of_alternations"`
	// SwitchShare is Open vSwitch's part of the latency, by medians; null for other paths, and without observations of
	// the wire.
	SwitchShare *float64 `json:"ovs_share_of_latency,omitempty"`
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
	// Received is the number of different messages that arrived intact; Lost is the rest of those sent.
	Received int `json:"received"`
	Lost     int `json:"lost"`
	// Corrupt arrived with a byte changed, Duplicated arrived once more.
	Corrupt    int `json:"corrupt"`
	Duplicated int `json:"duplicated"`
	// Early were on the wire before the requested time.
	Early int `json:"early"`
	// Late is how many left after their time by ktsnd's counters, for any reason; null for paths without ktsnd.
	Late *uint64 `json:"late"`
	// HandedOverLate are messages between virtual machines that were handed over less than 50 ms before their times.
	// They are not in the errors of departure, launch and request.
	HandedOverLate int `json:"handed_over_late,omitempty"`
	// Gates has for each class that sent something how its frames kept to its window, the most important class first;
	// null in runs without a schedule.
	Gates []GateFrames `json:"gates"`
	// CompetingFrames were on the wire in the same run by the kernel's path; null if nothing was sent there.
	CompetingFrames *int `json:"beside_frames"`
}

// GateFrames is one traffic class on the wire.
type GateFrames struct {
	TrafficClass uint8 `json:"traffic_class"`
	// The window of the class is from OpenNs on, before CloseNs, counted from the beginning of each cycle.
	OpenNs  int64 `json:"open_ns"`
	CloseNs int64 `json:"close_ns"`
	// Sent are messages of the class that a send call accepted; Frames were seen on the wire.
	Sent   int `json:"sent"`
	Frames int `json:"frames"`
	// Cycles is the number of cycles from the first of the frames to the last, in each alternation.
	Cycles int `json:"cycles"`
	// OutsideWindow were there while the gate was closed.
	OutsideWindow int `json:"outside_window"`
	// TransmissionOverrun is ktsnd's count of frames that were given to its port too late for their window.
	TransmissionOverrun uint64 `json:"transmission_overrun"`
}

// Distributions are measurements per message; null where a path has none.
type Distributions struct {
	// Latency is arrival at the listener - requested transmit time.
	Latency *stats.Summary `json:"latency_ns"`
	// ClockError is the possible error of Latency's clocks; null if it is unknown.
	ClockError *ClockError `json:"clock_error_ns"`
	// Jitter is t(i) - (t(i-1) + cycle) of arrivals with consecutive sequence numbers.
	Jitter *stats.Jitter `json:"jitter_ns"`
	// LaunchError is time on the wire, seen by a tap on the receiving end of the link, - requested transmit time.
	LaunchError *stats.Summary `json:"launch_error_ns"`
	// RequestError is time on the wire - the transmit time that the application requested, by the true clock, where
	// that differs from ktsnd's, as in a virtual machine; null elsewhere. Its true time is known within ClockError.
	RequestError *stats.Jitter `json:"request_error_ns,omitempty"`
	// Scheduled is from the beginning of a cycle until a message was on the wire, by the clock of that end; null
	// without a window in the profile. SpanP99_9 is its width.
	Scheduled *stats.Spread `json:"scheduled_ns,omitempty"`
	// DepartureError is ktsnd's clock reading that released the frame - requested transmit time.
	DepartureError *stats.Summary `json:"departure_error_ns"`
	// Port is time on the wire - the clock reading that released the frame: the time in ktsnd's port, which includes
	// Open vSwitch on path ovs.
	Port *stats.Summary `json:"port_ns,omitempty"`
	// SendCall is the duration of the application's send call.
	SendCall *stats.Summary `json:"send_call_ns"`
	// CPUCores is the processor time of programs as a share of one core, by program.
	CPUCores map[string]float64 `json:"cpu_cores"`
	// SendingCores is the part of the whole sending side: the application, ktsnd, and Open vSwitch on path ovs. Null if
	// it is unknown, and in runs with a schedule, in which ktsnd sends other messages as well.
	SendingCores *float64 `json:"sending_cores,omitempty"`
	// MemoryBytes is the peak memory of programs; empty if it was not watched.
	MemoryBytes map[string]int64 `json:"memory_bytes,omitempty"`
	// MachineCores is the processor time of the whole machine as a number of cores; null if it was not watched.
	MachineCores *float64 `json:"machine_cores,omitempty"`
}

// ProfileSummary is the request.
type ProfileSummary struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Experiment was measured instead of messages; empty: none.
	Experiment string `json:"experiment,omitempty"`
	// Target is the kind of nodes: namespaces or cluster.
	Target string `json:"target"`
	// Runs were planned, of which Done were performed; fewer if the measurement was interrupted.
	Runs int `json:"runs"`
	Done int `json:"done"`
	// Window is the window of the measured messages in the schedule, if the profile has one.
	Window *Window `json:"window,omitempty"`
	// VLAN is the VLAN ID of ktsnd's frames under a schedule; 0: untagged.
	VLAN int `json:"vlan,omitempty"`
	// Seed is the seed of the random numbers for the ranges of Ratios.
	Seed uint64 `json:"seed"`
	// BudgetNs is the latency that the application tolerates; 0 if it is not set.
	BudgetNs int64 `json:"budget_ns"`
	// MoreBudgetsNs are further budgets.
	MoreBudgetsNs []int64 `json:"more_budgets_ns,omitempty"`
	// MeanOverNs is the interval of each point of the drawn means; 0: the report chooses.
	MeanOverNs int64 `json:"mean_over_ns"`
	// Samplers is during which runs the bench watched the link and the programs: on (all), off (none), or apart: during
	// short separate runs, which provide launch errors, machine and memory, while latencies are from the others.
	Samplers string `json:"samplers"`
	// Programs are the SHA-256 sums of the measured programs, by name.
	Programs map[string]string `json:"programs"`
}

// BudgetsNs returns all latencies that the application tolerates.
func (p *ProfileSummary) BudgetsNs() []int64 {
	if p == nil || p.BudgetNs == 0 {
		return nil
	}
	return append([]int64{p.BudgetNs}, p.MoreBudgetsNs...)
}

// Window is when in each cycle a gate is open, and when messages are due, counted from its opening. Where an emulated
// machine's kernel executes the schedule, all of it and the cycle is Stretch times as long; 0: once. Where the
// machine's host does, messages are due GuestEarlyNs earlier.
type Window struct {
	OpenNs       int64 `json:"open_ns"`
	CloseNs      int64 `json:"close_ns"`
	OffsetNs     int64 `json:"offset_ns"`
	Stretch      int   `json:"stretch,omitempty"`
	GuestEarlyNs int64 `json:"guest_early_ns,omitempty"`
}

// Clock describes the error between two times of one message.
type Clock struct {
	// ErrorNs bounds the difference between sending and receiving clock, as messages between them show: 0 if they are
	// one. The estimate for each clock is with each latency.
	ErrorNs int64 `json:"error_ns"`
	// ReadNs is the duration of a system call that reads the clock, the median and p99: a bound on the accuracy of a
	// stamp.
	ReadNs    int64 `json:"read_ns"`
	ReadP99Ns int64 `json:"read_p99_ns"`
	// About describes it.
	About string `json:"about"`
}

// Gap is something that was not measured.
type Gap struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Ratio is a figure of one run divided by that of another one.
type Ratio struct {
	// Figure is the name in a run, such as latency_ns.p99.
	Figure       string `json:"figure"`
	Path         string `json:"path"`
	Workload     string `json:"workload"`
	AgainstPath  string `json:"against_path"`
	AgainstLoad  string `json:"against_workload"`
	PayloadBytes int    `json:"payload_bytes"`
	CycleNs      int64  `json:"cycle_ns"`
	// Value is over all messages; with Confidence it lies between Low and High, including the error of the clocks.
	Value      float64 `json:"value"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
	// Doubt is why the latencies cannot be trusted, "" if they can.
	Doubt string `json:"doubt,omitempty"`
}

// Assertion is a condition on the figures.
type Assertion struct {
	Expression string `json:"expression"`
	Holds      bool   `json:"holds"`
	// Detail lists the payloads and cycles for which it does not hold, with the figures.
	Detail string `json:"detail"`
}

// Idle is a daemon with nothing to send.
type Idle struct {
	DurationNs int64              `json:"duration_ns"`
	CPUCores   map[string]float64 `json:"cpu_cores"`
}

// Figure is a value with a target of the project.
type Figure struct {
	Name string `json:"name"`
	// Unit is "ns", "cores", "messages", "ratio" or "share".
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit"`
	// Values by payload in bytes; "-" if the figure does not depend on it.
	Values  map[string]float64 `json:"values"`
	Reached bool               `json:"reached"`
	// NotJudged is why it is unknown whether the value is within the limit; empty if it is known. Then Reached is
	// false.
	NotJudged string `json:"not_judged,omitempty"`
}

// Verdict returns whether the figure is within its limit, as text.
func (f *Figure) Verdict() string {
	switch {
	case f.NotJudged != "":
		return "not judged"
	case f.Reached:
		return "reached"
	}
	return "not reached"
}

// Pool computes the figures of a run over its alternations, without the distributions of its messages.
func (r *Run) Pool() {
	r.Counts, r.ClockError = PoolCounts(r.Alternations), WorstClock(r.Alternations)
	r.CPUCores, r.SendingCores = coresOf(r.Alternations, mean), mean(known(r.Alternations, sendingCores))
	r.MachineCores = mean(known(r.Alternations, func(a *Alternation) *float64 { return a.MachineCores }))
	r.MemoryBytes, r.MedianOfAlternations = mostMemory(r.Alternations), MedianOf(r.Alternations)
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
		sum.HandedOverLate += alternation.HandedOverLate
		if alternation.Late != nil {
			if sum.Late == nil {
				sum.Late = new(uint64)
			}
			*sum.Late += *alternation.Late
		}
		if alternation.CompetingFrames != nil {
			if sum.CompetingFrames == nil {
				sum.CompetingFrames = new(int)
			}
			*sum.CompetingFrames += *alternation.CompetingFrames
		}
		sum.Gates = addGates(sum.Gates, alternation.Gates)
	}
	return sum
}

// addGates adds up the frames of each class.
func addGates(sums, more []GateFrames) []GateFrames {
	for _, class := range more {
		at := slices.IndexFunc(sums, func(sum GateFrames) bool { return sum.TrafficClass == class.TrafficClass })
		if at < 0 {
			sums = append(sums, class)
			continue
		}
		sums[at].Sent += class.Sent
		sums[at].Frames += class.Frames
		sums[at].Cycles += class.Cycles
		sums[at].OutsideWindow += class.OutsideWindow
		sums[at].TransmissionOverrun += class.TransmissionOverrun
	}
	return sums
}

// MedianOf returns the median of each figure over the alternations.
func MedianOf(alternations []Alternation) Distributions {
	summaries := func(figure func(Alternation) *stats.Summary) *stats.Summary {
		all := make([]*stats.Summary, len(alternations))
		for i, alternation := range alternations {
			all[i] = figure(alternation)
		}
		return stats.MedianSummary(all)
	}
	jitters, requests := make([]*stats.Jitter, len(alternations)), make([]*stats.Jitter, len(alternations))
	scheduled := make([]*stats.Spread, len(alternations))
	for i, alternation := range alternations {
		jitters[i], requests[i], scheduled[i] = alternation.Jitter, alternation.RequestError, alternation.Scheduled
	}
	return Distributions{
		Latency:        summaries(func(a Alternation) *stats.Summary { return a.Latency }),
		ClockError:     WorstClock(alternations),
		Jitter:         stats.MedianJitter(jitters),
		LaunchError:    summaries(func(a Alternation) *stats.Summary { return a.LaunchError }),
		RequestError:   stats.MedianJitter(requests),
		Scheduled:      stats.MedianSpread(scheduled),
		DepartureError: summaries(func(a Alternation) *stats.Summary { return a.DepartureError }),
		Port:           summaries(func(a Alternation) *stats.Summary { return a.Port }),
		SendCall:       summaries(func(a Alternation) *stats.Summary { return a.SendCall }),
		CPUCores:       coresOf(alternations, median),
		SendingCores:   median(known(alternations, sendingCores)),
	}
}

// mostMemory returns the largest memory of each program in any alternation.
func mostMemory(alternations []Alternation) map[string]int64 {
	most := map[string]int64{}
	for _, alternation := range alternations {
		for program, bytes := range alternation.MemoryBytes {
			most[program] = max(most[program], bytes)
		}
	}
	return most
}
