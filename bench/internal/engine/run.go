// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Run is one uninterrupted piece of traffic.
type Run struct {
	results.Key
	// Number counts the measured runs of a plan from 1; 0 is a warm-up, which is not recorded.
	Number int `json:"number"`
	// Repetition counts from 1. Alternation counts the pieces of one key, of which a repetition can have several.
	Repetition  int `json:"repetition"`
	Alternation int `json:"alternation"`
	// Messages are sent by each of the Talkers.
	Messages int `json:"messages"`
	Talkers  int `json:"talkers"`
	// Window is that of the profile.
	Window Window `json:"window,omitzero"`
	// VLAN is the tag of the profile; 0: none.
	VLAN int `json:"vlan,omitempty"`
	// LeadNs is that of the profile; 0: the path's.
	LeadNs int64 `json:"lead_ns,omitempty"`
	// Unsampled asks the target to watch neither link nor programs.
	Unsampled bool `json:"unsampled,omitempty"`
	// Witness marks the runs that are watched in the place of those before them, which are not: what they say of the wire
	// counts, and their latencies do not.
	Witness bool `json:"witness,omitempty"`
	// IdleNs is how long ktsnd is watched with nothing to send; such a run has no messages.
	IdleNs int64 `json:"idle_ns,omitempty"`
	// Case is what an experiment measures; such a run has no messages.
	Case *Case `json:"case,omitempty"`
}

// Cycle is the time between two messages of a talker.
func (r Run) Cycle() time.Duration { return time.Duration(r.CycleNs) }

// about names what its alternations are of.
func (r Run) about() string {
	if r.Case != nil {
		return r.what()
	}
	return r.String()
}

// what names the run in a sentence.
func (r Run) what() string {
	switch {
	case r.Case != nil && r.Path != "":
		return fmt.Sprintf("%s, %s, %s", r.Workload, r.Path, r.Case.Name)
	case r.Case != nil:
		return fmt.Sprintf("%s, %s", r.Workload, r.Case.Name)
	}
	return fmt.Sprintf("%s, %s, %d B", r.Workload, r.Path, r.PayloadBytes)
}

// Duration is about how long the run takes.
func (r Run) Duration() time.Duration {
	if r.Case != nil {
		return time.Duration(r.Case.LastsNs)
	}
	return time.Duration(r.Messages)*r.Cycle() + time.Duration(r.IdleNs) + runOverhead
}

// Setting is how a series of runs wants ktsnd, and the target around it.
type Setting struct {
	// Daemon asks for a ktsnd, to which pod a is attached.
	Daemon    bool
	KeepAwake bool
	// Departures is how many ktsnd has to remember; 0: as many as it does by itself.
	Departures int
	// PodRate is how many messages a second ktsnd takes from one pod; 0: as many as it does by itself.
	PodRate int
	// Serial tells settings apart that are the same otherwise, so that each has a new ktsnd.
	Serial int
	// OVS has ktsnd, and all else that the pod sends, go through Open vSwitch.
	OVS bool
	// Guests asks for a virtual machine on each node.
	Guests bool
	// PMDMaxSleep is how long the polling of that Open vSwitch may pause; 0: it never does.
	PMDMaxSleep time.Duration
	// GatesCycle asks for a schedule with that cycle; 0 is none.
	GatesCycle time.Duration
	// Window is that of the measured messages in that schedule.
	Window Window
	// VLAN is the tag of what ktsnd sends, with the priority of its class; 0: none.
	VLAN int
}

// Outcome is what became of a run's messages.
type Outcome struct {
	Messages []results.Message `json:"-"`
	// Observed are the counts, and what was seen of processors and memory. Distributions of times are empty: they
	// come from the messages.
	Observed results.Alternation `json:"observed"`
	// Problems says in sentences what makes the run invalid or a failure.
	Problems []string      `json:"problems"`
	Idle     *results.Idle `json:"idle,omitempty"`
	// StolenNs is what the hypervisor gave to others meanwhile, of all cores together, during TookNs.
	StolenNs int64 `json:"stolen_ns"`
	TookNs   int64 `json:"took_ns"`
	// Usage is what nodes and pods had used by then, where somebody counts that.
	Usage []results.UsageSample `json:"usage,omitempty"`
	// Values and Samples are what an experiment measured, by its own names, and Said what its programs had to say.
	Values  map[string]float64 `json:"values,omitempty"`
	Samples map[string][]int64 `json:"samples,omitempty"`
	Said    map[string]string  `json:"said,omitempty"`
}

// Names of Outcome.Values.
const (
	// ValueIperf3Bps is what an iperf3 beside the messages brought to the other end, in bit/s of payload, ValueIperf3Lost the
	// share of what it sent that did not arrive.
	ValueIperf3Bps  = "iperf3_received_bps"
	ValueIperf3Lost = "iperf3_lost_share"
)

// Environment is what a target says of itself: the same each time, but for what is known only once ktsnd runs.
type Environment struct {
	SenderCPU   int   `json:"sender_cpu"`
	ListenerCPU int   `json:"listener_cpu"`
	LeadNs      int64 `json:"lead_ns"`
	// TalkerSpinNs is how long before each send the talkers of paths that spin are awake, TalkerPriority their SCHED_FIFO
	// priority; 0: none.
	TalkerSpinNs   int64 `json:"talker_spin_ns"`
	TalkerPriority int   `json:"talker_priority"`
	// Gates is null until a schedule was set.
	Gates *results.GateSetup `json:"gates"`
	// Programs are SHA-256 sums by name.
	Programs map[string]string `json:"programs"`
	Clock    results.Clock     `json:"clock"`
	// NotMeasured is what this target can never measure.
	NotMeasured []results.Gap `json:"not_measured"`
	// Emulated says what virtual machines the messages were between; empty: none.
	Emulated string `json:"emulated,omitempty"`
	// The rest is ktsnd's.
	KtsndVersion      string   `json:"ktsnd_version"`
	Scheduler         string   `json:"scheduler"`
	SchedulerPriority int      `json:"scheduler_priority"`
	SpinNs            int64    `json:"spin_ns"`
	Warnings          []string `json:"warnings"`
}

// Target is where runs are made. One goroutine.
type Target interface {
	// Prepare brings the target into a setting in which it may be already.
	Prepare(context.Context, Setting) error
	// Perform makes one run in the setting prepared.
	Perform(context.Context, Run) (*Outcome, error)
	// Environment may change after Prepare.
	Environment() Environment
	// Host is where the talkers are.
	Host() (results.Host, error)
	// Close removes everything that the target made, also after ctx has ended.
	Close(context.Context) error
}
