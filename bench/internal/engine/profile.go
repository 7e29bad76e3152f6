// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	// maxMessagesPerRun is below the number of departures that ktsnd stores (65,535).
	maxMessagesPerRun = 60_000
	// maxPayload is the largest payload without fragments on the overlay: 1450 - 20 - 8 bytes.
	maxPayload = 1422
	// minCycle is the shortest cycle of a sleeping talker.
	minCycle = 100 * time.Microsecond
	// maxGatesCycle keeps several cycles with gates within ktsnd's stored departures while one class saturates its
	// window.
	maxGatesCycle = 100 * time.Millisecond
	maxTalkers    = 8
	// defaultSpin is ktsnd's default, maxSpin its limit.
	defaultSpin    = 120 * time.Microsecond
	maxSpin        = 10 * time.Millisecond
	maxRepetitions = 10_000
	// mostWaiting is the number of messages that ktsnd holds of one process.
	mostWaiting = 400
	maxMessages = 10_000_000
)

// Profile describes a measurement.
type Profile struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Target is the name of the target's Means.
	Target string `json:"target"`
	// Paths are measured. IfPossible are left out, with the reason, where they cannot be measured.
	Paths      []string   `json:"paths"`
	IfPossible []string   `json:"paths-if-possible"`
	Workloads  []Workload `json:"workloads"`
	// Payloads are bytes of UDP payload.
	Payloads []int           `json:"payloads"`
	Cycles   []time.Duration `json:"cycles"`
	// Messages are sent by each talker for each path, workload, payload and cycle in each of the Repetitions.
	Messages    int `json:"messages"`
	Repetitions int `json:"repetitions"`
	// WarmUp messages precede the runs of each path after ktsnd was started.
	WarmUp int `json:"warm-up"`
	// Talkers is the number of talkers of workload talkers.
	Talkers int     `json:"talkers"`
	Pinning Pinning `json:"pinning"`
	// Spin is how long ktsnd busy-waits before a departure, and how long the talkers of spinning paths busy-wait before
	// each send: the same, for a fair comparison.
	Spin time.Duration `json:"spin"`
	// Lead is how long before their times messages are handed over without a schedule; 0: as long as the path needs.
	Lead time.Duration `json:"lead,omitempty"`
	// Window is the window of the measured messages in the schedule.
	Window Window `json:"window"`
	// VLAN is the VLAN ID of frames in workloads with a schedule, 1 to 4094; 0: untagged.
	VLAN int `json:"vlan,omitempty"`
	// Samplers is which runs are watched: SamplersApart, SamplersOn or SamplersOff.
	Samplers Samplers `json:"samplers"`
	// Idle is how long ktsnd is watched with nothing to send; 0: not at all.
	Idle time.Duration `json:"idle"`
	// Budget is the latency that the application tolerates, a line in the drawings; 0 is none.
	Budget time.Duration `json:"budget"`
	// MoreBudgets are further budgets.
	MoreBudgets []time.Duration `json:"more-budgets,omitempty"`
	// MeanOver is the interval of each point of the means; 0: 10 s, or less for short measurements.
	MeanOver time.Duration `json:"mean-over"`
	// MaxClockError is the largest error of both clocks together with which a latency counts; 0: as large as the median
	// of the latencies.
	MaxClockError time.Duration `json:"max-clock-error"`
	// Seed is the seed of the random numbers for the ranges of ratios.
	Seed   uint64   `json:"seed"`
	Assert []string `json:"assert"`
	// Experiment replaces Workloads, with the settings With in JSON; empty: none.
	Experiment string          `json:"experiment,omitempty"`
	With       json.RawMessage `json:"with,omitempty"`
	// Lacking is what was requested and is not available on this kind of target or this machine.
	Lacking []results.Gap `json:"lacking,omitempty"`
}

// Workload is a condition of measurement. Fields that are set override the profile's.
type Workload struct {
	Name     string   `json:"name"`
	Paths    []string `json:"paths,omitempty"`
	Payloads []int    `json:"payloads,omitempty"`
	Messages int      `json:"messages,omitempty"`
}

// Pinning is the processors of programs.
type Pinning struct {
	// Mode is auto, none, or given.
	Mode string `json:"mode"`
	// Sender is the processor of talkers and ktsnd, Listener that of the listener; used if Mode is given.
	Sender   int `json:"sender"`
	Listener int `json:"listener"`
}

// The modes of Pinning.
const (
	PinAuto  = "auto"
	PinNone  = "none"
	PinGiven = "given"
)

// Defaults returns a profile that measures nothing yet.
func Defaults() Profile {
	return Profile{
		Workloads:   []Workload{{Name: results.WorkloadPlain}},
		Payloads:    []int{64},
		Cycles:      []time.Duration{time.Millisecond},
		Messages:    1000,
		Repetitions: 5,
		WarmUp:      50,
		Talkers:     4,
		Spin:        defaultSpin,
		Pinning:     Pinning{Mode: PinAuto},
		Samplers:    SamplersApart,
		Seed:        1,
	}
}

// Fault is an error in a profile.
type Fault struct {
	// Field is the field, and Item the index of its item; -1 if the fault is not about an item.
	Field   string
	Item    int
	Message string
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

func fault(field string, item int, format string, arguments ...any) *Fault {
	return &Fault{field, item, fmt.Sprintf(format, arguments...)}
}

// Check returns the first fault of the profile, or nil.
func (p *Profile) Check() *Fault {
	if p.Experiment != "" {
		for _, check := range []func() *Fault{p.checkTarget, p.checkPaths, p.checkExperiment} {
			if fault := check(); fault != nil {
				return fault
			}
		}
		return nil
	}
	for _, check := range []func() *Fault{p.checkTarget, p.checkPaths, p.checkWorkloads, p.checkPayloads, p.checkCycles, p.checkBudgets,
		p.checkWindow, p.checkTogether, p.checkGuests} {
		if fault := check(); fault != nil {
			return fault
		}
	}
	return nil
}

func (p *Profile) checkPaths() *Fault {
	on := p.means()
	if len(p.Paths) == 0 {
		return fault("paths", -1, "no path; give at least one of %v", on.Paths)
	}
	for i, path := range p.Paths {
		if why, known := on.Missing[path]; known {
			return fault("paths", i, "path %s cannot be measured: %s; move it to paths-if-possible, or give some of %v", path, why,
				on.Paths)
		}
		if fault := checkName("paths", "path", p.Paths, i, on.Paths); fault != nil {
			return fault
		}
	}
	for i, path := range p.IfPossible {
		if slices.Contains(p.Paths, path) {
			return fault("paths-if-possible", i, "path %s is in paths, too; give it once", path)
		}
		if _, known := on.Missing[path]; known {
			continue
		}
		if fault := checkName("paths-if-possible", "path", p.IfPossible, i, on.Paths); fault != nil {
			return fault
		}
	}
	return nil
}

// checkName checks an element of a list of names.
func checkName(field, what string, given []string, i int, known []string) *Fault {
	if !slices.Contains(known, given[i]) {
		return fault(field, i, "no %s is called %q; give some of %v", what, given[i], known)
	}
	if slices.Contains(given[:i], given[i]) {
		return fault(field, i, "%s %s is given twice; give each once", what, given[i])
	}
	return nil
}

func (p *Profile) workloadNames() []string {
	names := make([]string, len(p.Workloads))
	for i, workload := range p.Workloads {
		names[i] = workload.Name
	}
	return names
}

func (p *Profile) checkWorkloads() *Fault {
	names, direct := p.workloadNames(), p.means().Direct
	if len(names) == 0 {
		return fault("workloads", -1, "no workload; give at least one of %v", p.means().Workloads)
	}
	for i, workload := range p.Workloads {
		if fault := checkName("workloads", "workload", names, i, p.means().Workloads); fault != nil {
			return fault
		}
		for j, path := range workload.Paths {
			if !slices.Contains(p.Paths, path) {
				return fault("workloads", i, "workload %s has path %s, which is not among the paths %v; add it there", workload.Name,
					path, p.Paths)
			}
			if slices.Contains(workload.Paths[:j], path) {
				return fault("workloads", i, "path %s of workload %s is given twice; give each once", path, workload.Name)
			}
			if needsOVS(workload.Name) && path != results.PathOVS {
				return fault("workloads", i, "workload %s has path %s, and it is about the polling of path %s alone; leave its paths out",
					workload.Name, path, results.PathOVS)
			}
			if gated := p.means().Gated; HasGates(workload.Name) && !slices.Contains(gated, path) {
				return fault("workloads", i, "workload %s has path %s, and only path %s has gates; leave its paths out",
					workload.Name, path, strings.Join(gated, " or "))
			}
		}
		if fault := checkSizes("workloads", i, workload.Payloads); fault != nil {
			return fault
		}
		if workload.Messages < 0 || workload.Messages == 1 || workload.Messages > maxMessages {
			return fault("workloads", i, "workload %s with %d messages; give 2 to %d", workload.Name, workload.Messages, maxMessages)
		}
	}
	if i := slices.IndexFunc(names, func(name string) bool { return !needsDirect(name) }); i < 0 &&
		!slices.Contains(p.Paths, direct) {
		return fault("workloads", -1, "workloads %v and not path %s, without which they mean nothing; add it, or workload %s",
			names, direct, results.WorkloadPlain)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return !needsOVS(name) }) && !slices.Contains(p.Paths, results.PathOVS) {
		return fault("workloads", -1, "workload %s and not path %s, which it is about; add it, or another workload", results.WorkloadPMDSleep,
			results.PathOVS)
	}
	return nil
}

func (p *Profile) checkPayloads() *Fault {
	if len(p.Payloads) == 0 {
		return fault("payloads", -1, "no payload; give at least one")
	}
	return checkSizes("payloads", -1, p.Payloads)
}

// checkSizes checks payloads. item is the index of the field's item that they belong to, -1 if they are its items.
func checkSizes(field string, item int, payloads []int) *Fault {
	for i, payload := range payloads {
		at := item
		if at < 0 {
			at = i
		}
		if payload < tsnperf.MinPayload || payload > maxPayload {
			return fault(field, at, "a payload of %d bytes; give %d to %d", payload, tsnperf.MinPayload, maxPayload)
		}
		if slices.Contains(payloads[:i], payload) {
			return fault(field, at, "a payload of %d bytes is given twice; give each once", payload)
		}
	}
	return nil
}

func (p *Profile) checkCycles() *Fault {
	if len(p.Cycles) == 0 {
		return fault("cycles", -1, "no cycle; give at least one")
	}
	for i, cycle := range p.Cycles {
		if cycle < minCycle || cycle > time.Second {
			return fault("cycles", i, "a cycle of %v; give %v to 1s", cycle, minCycle)
		}
		if slices.Contains(p.Cycles[:i], cycle) {
			return fault("cycles", i, "a cycle of %v is given twice; give each once", cycle)
		}
		names := p.workloadNames()
		if at := slices.IndexFunc(names, HasGates); at >= 0 && cycle > maxGatesCycle {
			return fault("cycles", i, "a cycle of %v with workload %s; give at most %v, or leave that workload out", cycle, names[at],
				maxGatesCycle)
		}
	}
	return nil
}

func (p *Profile) checkBudgets() *Fault {
	if err := checkWithin(p.Budget, 0, time.Second); err != nil {
		return fault("budget", -1, "%v", err)
	}
	for i, budget := range p.MoreBudgets {
		if budget <= p.Budget || budget > time.Second || slices.Contains(p.MoreBudgets[:i], budget) {
			return fault("budget", i+1, "%v behind %v; give each once, the least first, and 1s at most", budget, p.Budget)
		}
	}
	return nil
}

// checkTogether checks for contradictions between fields.
func (p *Profile) checkTogether() *Fault {
	names := p.workloadNames()
	direct := slices.Contains(p.Paths, p.means().Direct)
	gates := slices.IndexFunc(names, HasGates)
	switch {
	case p.Samplers != SamplersApart && p.Samplers != SamplersOn && p.Samplers != SamplersOff:
		return fault("samplers", -1, "is %q; must be apart, on or off", p.Samplers)
	case p.Pinning.Mode == PinGiven && p.Pinning.Sender == p.Pinning.Listener:
		return fault("pinning", -1, "sender and listener both on processor %d, where each would disturb the other; give two", p.Pinning.Sender)
	case p.Spin == 0 && slices.ContainsFunc(p.Paths, results.Spins):
		return fault("spin", -1, "%v, and path %s, whose talker is awake before it sends; give more, or leave that path out", p.Spin,
			p.Paths[slices.IndexFunc(p.Paths, results.Spins)])
	case p.Samplers == SamplersOff && gates >= 0:
		return fault("samplers", -1, "off, and workload %s, whose frames are judged by a sampler on the link; leave one of them out",
			names[gates])
	case p.Samplers != SamplersOn && slices.Contains(names, results.WorkloadUnsampled):
		return fault("samplers", -1, "%s, and workload %s, which then is the same as %s; leave the workload out, or give samplers: on",
			p.Samplers, results.WorkloadUnsampled, results.WorkloadPlain)
	case p.Lead != 0 && slices.Contains(names, results.WorkloadTalkers):
		return fault("lead", -1, "%v, and workload %s, whose lead depends on the number of talkers; leave one of them out", p.Lead, results.WorkloadTalkers)
	case p.Lead != 0 && (p.Lead < leastLead || p.Lead > mostWaiting*slices.Min(p.Cycles)):
		return fault("lead", -1, "%v in a cycle of %v; give %v to %v, because ktsnd holds %d messages of a process", p.Lead, slices.Min(p.Cycles), leastLead,
			mostWaiting*slices.Min(p.Cycles), mostWaiting)
	case p.Idle > 0 && !direct:
		return fault("idle", -1, "%v without path %s, and so without a ktsnd to watch; add the path, or leave idle out", p.Idle,
			p.means().Direct)
	}
	return nil
}

// InGuests reports whether a path is between virtual machines.
func (p *Profile) InGuests() bool { return slices.ContainsFunc(p.Paths, results.InGuest) }

// checkGuests checks settings that are impossible with virtual machines.
func (p *Profile) checkGuests() *Fault {
	names := p.workloadNames()
	if at := slices.Index(names, results.WorkloadGuestLoad); at >= 0 && !p.InGuests() {
		return fault("workloads", at, "workload %s and no path between virtual machines; add one of %v, or leave the workload out",
			results.WorkloadGuestLoad, guestPaths)
	}
	if !p.InGuests() {
		return nil
	}
	if p.Target == Guest.Name {
		return p.checkCases()
	}
	if !slices.Contains(p.Paths, results.PathDirect) {
		return fault("paths", -1, "paths between virtual machines and not path %s, with which they are compared; add it", results.PathDirect)
	}
	for i, name := range names {
		if HasGates(name) || name == results.WorkloadTalkers || name == results.WorkloadKeepAwake {
			return fault("workloads", i, "workload %s and paths between virtual machines, which are not measured with it; leave one of "+
				"them out", name)
		}
	}
	return nil
}

// checkCases checks settings that are impossible with machines whose clocks their hosts set.
func (p *Profile) checkCases() *Fault {
	if at := slices.IndexFunc(p.workloadNames(), HasGates); at >= 0 && p.Window == (Window{}) {
		return fault("workloads", at, "workload %s between virtual machines and no window; give one, such as "+
			"{open: 1200us, close: 1300us, offset: 50us}", p.Workloads[at].Name)
	}
	return nil
}

// forWorkload returns the settings of a workload.
func (p *Profile) forWorkload(workload Workload) (paths []string, payloads []int, messages int) {
	paths, payloads, messages = p.Paths, p.Payloads, p.Messages
	if len(workload.Paths) > 0 {
		paths = workload.Paths
	}
	if len(workload.Payloads) > 0 {
		payloads = workload.Payloads
	}
	if workload.Messages > 0 {
		messages = workload.Messages
	}
	direct := p.means().Direct
	if HasGates(workload.Name) {
		paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !slices.Contains(p.means().Gated, path) })
	}
	if needsDirect(workload.Name) && !slices.Contains(p.Paths, direct) {
		paths = nil
	}
	if needsOVS(workload.Name) {
		return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path != results.PathOVS }), payloads, messages
	}
	if workload.Name != results.WorkloadPlain && len(workload.Paths) == 0 {
		paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == results.PathOVS })
	}
	return paths, payloads, messages
}

// gaps returns what the profile names and cannot be measured here.
func (p *Profile) gaps() []results.Gap {
	all := slices.Clone(p.Lacking)
	for _, path := range p.IfPossible {
		if why, known := p.means().Missing[path]; known {
			all = append(all, results.Gap{What: "path " + path, Why: why})
		}
	}
	for _, workload := range p.Workloads {
		if paths, _, _ := p.forWorkload(workload); HasGates(workload.Name) && len(p.Paths) > 1 && len(paths) > 0 {
			all = append(all, results.Gap{What: "workload " + workload.Name + " on other paths than " + strings.Join(p.means().Gated, " and "),
				Why: "the kernel's paths have no gates"})
		}
	}
	return all
}

// LeaveOut removes a path, and workloads that have no other, and records why.
func (p *Profile) LeaveOut(path, why string) {
	without := func(paths []string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(other string) bool { return other == path })
	}
	p.Paths = without(p.Paths)
	var left []Workload
	for _, workload := range p.Workloads {
		required := len(workload.Paths) > 0 || needsOVS(workload.Name) && path == results.PathOVS
		if workload.Paths = without(workload.Paths); !required || len(workload.Paths) > 0 {
			left = append(left, workload)
		}
	}
	p.Workloads = left
	p.Lacking = append(p.Lacking, results.Gap{What: "path " + path, Why: why})
}

// possible moves the measurable paths of IfPossible to Paths.
func (p *Profile) possible() {
	var left []string
	for _, path := range p.IfPossible {
		if slices.Contains(p.means().Paths, path) {
			p.Paths = append(p.Paths, path)
		} else {
			left = append(left, path)
		}
	}
	p.IfPossible = left
}
