// SPDX-License-Identifier: Apache-2.0

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
	// Profile is null in a measurement that had none of its own.
	Profile *ProfileSummary `json:"profile"`
	// Clock is what is known of the clocks that the times come from.
	Clock *Clock `json:"clock"`
	// StolenCores is what the hypervisor gave to others meanwhile, of all this machine's cores together:
	// noise that no path is to blame for. 0 on bare metal.
	StolenCores float64 `json:"stolen_cores"`
	Runs        []*Run  `json:"runs"`
	// Sections are those of an experiment; empty where the profile names none.
	Sections []Section `json:"sections,omitempty"`
	// Cases are what an experiment measured, in figures; empty where the profile names none.
	Cases []*Case `json:"cases,omitempty"`
	// Idle is ktsnd with nothing to send; null when that was not measured.
	Idle *Idle `json:"idle"`
	// Usage is what nodes and pods used over the whole measurement; empty where nobody counts that.
	Usage []Usage `json:"usage"`
	// Ratios compare runs with each other, with the range in which the ratio lies.
	Ratios []Ratio `json:"ratios"`
	// Assertions are what was asked about the figures, and the answers.
	Assertions []Assertion `json:"assertions"`
	// NotMeasured says what could not be measured here, and why.
	NotMeasured []Gap `json:"not_measured"`
	// Figures compares with what the project wants to reach.
	Figures []Figure `json:"figures"`
	// Emulated says in a sentence what virtual machines the messages were between; empty where there were none.
	Emulated string `json:"emulated,omitempty"`
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
	// SpinNs is how long before each send the talkers of paths that spin were awake, as ktsnd is before a departure, and
	// FIFOPriority their priority of SCHED_FIFO, as ktsnd's; 0: none.
	SpinNs       int64 `json:"spin_ns"`
	FIFOPriority int   `json:"fifo_priority"`
	// Gates is ktsnd's setting in the runs under a schedule; null when there were none.
	Gates *GateSetup `json:"gates"`
}

// GateSetup is how runs under a schedule differ.
type GateSetup struct {
	// LeadNs takes the place of Setup.LeadNs.
	LeadNs int64 `json:"lead_ns"`
	// LinkSpeedBps is what ktsnd was told of the link.
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
	// Each alternation by itself, and the median of each of their figures.
	Alternations         []Alternation `json:"alternations"`
	MedianOfAlternations Distributions `json:"median_of_alternations"`
	// SwitchShare is what Open vSwitch takes of the latency, median by median; null for other paths, and where nobody
	// saw the wire.
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
	// HandedOverLate are messages between virtual machines that were handed over less than 50 ms before their times. They are not in
	// errors of departure, launch and request.
	HandedOverLate int `json:"handed_over_late,omitempty"`
	// Gates says of each class that had something to send how its frames kept to its window, the most important
	// class first; null in runs without a schedule.
	Gates []GateFrames `json:"gates"`
	// CompetingFrames were on the wire in the same run past ktsnd, through the kernel's path; null when nothing was
	// sent there.
	CompetingFrames *int `json:"beside_frames"`
}

// GateFrames is one traffic class on the wire.
type GateFrames struct {
	TrafficClass uint8 `json:"traffic_class"`
	// The window of the class is from OpenNs on, before CloseNs, counted from the beginning of each cycle.
	OpenNs  int64 `json:"open_ns"`
	CloseNs int64 `json:"close_ns"`
	// Sent are messages of the class that were accepted by a send call; Frames were seen on the wire.
	Sent   int `json:"sent"`
	Frames int `json:"frames"`
	// Cycles went by from the first of the frames to the last, in each alternation.
	Cycles int `json:"cycles"`
	// OutsideWindow were there while the gate was shut.
	OutsideWindow int `json:"outside_window"`
	// TransmissionOverrun is how many frames ktsnd counted that its port was given too late for their window.
	TransmissionOverrun uint64 `json:"transmission_overrun"`
}

// Distributions are what was measured per message; null where a path has no such measurement.
type Distributions struct {
	// Latency is arrival at the listener - requested transmit time.
	Latency *stats.Summary `json:"latency_ns"`
	// ClockError is how far the clocks behind Latency may be wrong; null where nobody said.
	ClockError *ClockError `json:"clock_error_ns"`
	// Jitter is t(i) - (t(i-1) + cycle) of arrivals with consecutive sequence numbers.
	Jitter *stats.Jitter `json:"jitter_ns"`
	// LaunchError is time on the wire, seen by a tap on the receiving end of the link, - requested
	// transmit time.
	LaunchError *stats.Summary `json:"launch_error_ns"`
	// RequestError is time on the wire - the transmit time that the application asked for, by the true clock, where that is not what
	// ktsnd was told, as in a virtual machine; null elsewhere. Its true time is known within ClockError.
	RequestError *stats.Jitter `json:"request_error_ns,omitempty"`
	// Scheduled is from the beginning of a cycle until a message was on the wire, by the clock of that end; null without a window of
	// the profile. SpanP99_9 says how wide it is.
	Scheduled *stats.Spread `json:"scheduled_ns,omitempty"`
	// DepartureError is ktsnd's clock read that released the frame - requested transmit time.
	DepartureError *stats.Summary `json:"departure_error_ns"`
	// Port is time on the wire - the clock read that released the frame: what ktsnd's port takes, which is all of Open
	// vSwitch on path ovs.
	Port *stats.Summary `json:"port_ns,omitempty"`
	// SendCall is how long the application's send call took.
	SendCall *stats.Summary `json:"send_call_ns"`
	// CPUCores is the processor time of programs as a share of one core, by program.
	CPUCores map[string]float64 `json:"cpu_cores"`
	// SendingCores is what the whole sending side takes of them: the application, ktsnd, and Open vSwitch on path ovs. Null
	// where that is not known, and in runs with a schedule, in which ktsnd has more to send than the messages.
	SendingCores *float64 `json:"sending_cores,omitempty"`
	// MemoryBytes is the most memory that programs had, by program; empty where nobody looked.
	MemoryBytes map[string]int64 `json:"memory_bytes,omitempty"`
	// MachineCores is the processor time of the whole machine, as a number of cores; null where nobody looked.
	MachineCores *float64 `json:"machine_cores,omitempty"`
}

// ProfileSummary is what was asked for.
type ProfileSummary struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Experiment is what was measured in the place of messages; empty: none.
	Experiment string `json:"experiment,omitempty"`
	// Target is the kind of nodes that it was measured between: namespaces or cluster.
	Target string `json:"target"`
	// Runs were planned, of which Done were made; less when the measurement was interrupted.
	Runs int `json:"runs"`
	Done int `json:"done"`
	// Window is that of the measured messages in the schedule, where the profile gave one.
	Window *Window `json:"window,omitempty"`
	// VLAN is the tag of ktsnd's frames under a schedule; 0: none.
	VLAN int `json:"vlan,omitempty"`
	// Seed is that of the random numbers behind the ranges of Ratios.
	Seed uint64 `json:"seed"`
	// BudgetNs is the latency that the application can bear; 0 when it said nothing.
	BudgetNs int64 `json:"budget_ns"`
	// MoreBudgetsNs are further ones, where the profile named several.
	MoreBudgetsNs []int64 `json:"more_budgets_ns,omitempty"`
	// MeanOverNs is how long a time each point of the drawn means covers; 0: the report chooses.
	MeanOverNs int64 `json:"mean_over_ns"`
	// Samplers is during which runs the bench watched the link and the programs: on (all), off (none), or apart: during
	// short runs of their own, from which launch errors, machine and memory are, while latencies are from the others.
	Samplers string `json:"samplers"`
	// Programs are the SHA-256 sums of what was measured, by name.
	Programs map[string]string `json:"programs"`
}

// BudgetsNs are all latencies that the application can bear; none when it said nothing.
func (p *ProfileSummary) BudgetsNs() []int64 {
	if p == nil || p.BudgetNs == 0 {
		return nil
	}
	return append([]int64{p.BudgetNs}, p.MoreBudgetsNs...)
}

// Window is when in each cycle a gate is open, and when messages are due, counted from its opening. Where an emulated machine's kernel
// executes the schedule all of it, and the cycle, is Stretch times as long; 0: once. Where the machine's host does, messages are due
// GuestEarlyNs earlier.
type Window struct {
	OpenNs       int64 `json:"open_ns"`
	CloseNs      int64 `json:"close_ns"`
	OffsetNs     int64 `json:"offset_ns"`
	Stretch      int   `json:"stretch,omitempty"`
	GuestEarlyNs int64 `json:"guest_early_ns,omitempty"`
}

// Clock says how far two times of one message can be wrong against each other.
type Clock struct {
	// ErrorNs bounds the difference between sending and receiving clock, as messages between them show: 0 when they are one. What
	// is estimated of each clock is beside each latency.
	ErrorNs int64 `json:"error_ns"`
	// ReadNs is what a system call takes that reads the clock, in the median and at p99: a bound on how exact a stamp is.
	ReadNs    int64 `json:"read_ns"`
	ReadP99Ns int64 `json:"read_p99_ns"`
	// About says it in a sentence.
	About string `json:"about"`
}

// Gap is something that was not measured.
type Gap struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Ratio is a figure of one run divided by that of another one.
type Ratio struct {
	// Figure is as in a run, such as latency_ns.p99.
	Figure       string `json:"figure"`
	Path         string `json:"path"`
	Workload     string `json:"workload"`
	AgainstPath  string `json:"against_path"`
	AgainstLoad  string `json:"against_workload"`
	PayloadBytes int    `json:"payload_bytes"`
	CycleNs      int64  `json:"cycle_ns"`
	// Value is over all messages; with Confidence it lies between Low and High, the error of the clocks granted.
	Value      float64 `json:"value"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
	// Doubt says why the latencies are not to be believed; empty where nothing speaks against them.
	Doubt string `json:"doubt,omitempty"`
}

// Assertion is a question about the figures.
type Assertion struct {
	Expression string `json:"expression"`
	Holds      bool   `json:"holds"`
	// Detail names the payloads and cycles for which it does not hold, with the figures.
	Detail string `json:"detail"`
}

// Idle is a daemon with nothing to send.
type Idle struct {
	DurationNs int64              `json:"duration_ns"`
	CPUCores   map[string]float64 `json:"cpu_cores"`
}

// Figure is a value that the project wants below a limit.
type Figure struct {
	Name string `json:"name"`
	// Unit is "ns", "cores", "messages", "ratio" or "share".
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit"`
	// Values by payload in bytes; "-" when the figure does not depend on it.
	Values  map[string]float64 `json:"values"`
	Reached bool               `json:"reached"`
	// NotJudged says in a sentence why nobody can tell whether it is within the limit; empty where that is known. Then Reached is
	// false.
	NotJudged string `json:"not_judged,omitempty"`
}

// Verdict says whether the figure is within its limit.
func (f *Figure) Verdict() string {
	switch {
	case f.NotJudged != "":
		return "not judged"
	case f.Reached:
		return "reached"
	}
	return "not reached"
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

// MedianOf takes the median of each figure over the alternations.
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
		CPUCores:       medianCores(alternations),
		SendingCores:   medianSending(alternations),
	}
}

// MostMemory is the most that each program had in any alternation.
func MostMemory(alternations []Alternation) map[string]int64 {
	most := map[string]int64{}
	for _, alternation := range alternations {
		for program, bytes := range alternation.MemoryBytes {
			most[program] = max(most[program], bytes)
		}
	}
	return most
}
