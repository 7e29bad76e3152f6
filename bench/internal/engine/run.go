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
	// Window is the profile's.
	Window Window `json:"window,omitzero"`
	// VLAN is the profile's VLAN ID; 0: untagged.
	VLAN int `json:"vlan,omitempty"`
	// LeadNs is the profile's; 0: the path's default.
	LeadNs int64 `json:"lead_ns,omitempty"`
	// Unsampled asks the target to watch neither link nor programs.
	Unsampled bool `json:"unsampled,omitempty"`
	// Witness marks a watched run after the same run unwatched: its observations of the wire count, its latencies do
	// not.
	Witness bool `json:"witness,omitempty"`
	// IdleNs is how long ktsnd is watched with nothing to send; such a run has no messages.
	IdleNs int64 `json:"idle_ns,omitempty"`
	// Case is the case of an experiment; such a run has no messages.
	Case *Case `json:"case,omitempty"`
}

// Cycle is the time between two messages of a talker.
func (r Run) Cycle() time.Duration { return time.Duration(r.CycleNs) }

// about names the run without its alternation.
func (r Run) about() string {
	if r.Case != nil {
		return r.what()
	}
	return r.String()
}

// what names the run in messages.
func (r Run) what() string {
	switch {
	case r.Case != nil && r.Path != "":
		return fmt.Sprintf("%s, %s, %s", r.Workload, r.Path, r.Case.Name)
	case r.Case != nil:
		return fmt.Sprintf("%s, %s", r.Workload, r.Case.Name)
	}
	return fmt.Sprintf("%s, %s, %d B", r.Workload, r.Path, r.PayloadBytes)
}

// Duration is the approximate duration of the run.
func (r Run) Duration() time.Duration {
	if r.Case != nil {
		return time.Duration(r.Case.LastsNs)
	}
	return time.Duration(r.Messages)*r.Cycle() + time.Duration(r.IdleNs) + runOverhead
}

// Setting describes the ktsnd, and the target around it, for a series of runs.
type Setting struct {
	// Daemon requires a ktsnd with pod a attached.
	Daemon    bool
	KeepAwake bool
	// Departures is the number of departures that ktsnd stores; 0: its default.
	Departures int
	// PodRate is the messages per second that ktsnd takes from one pod; 0: its default.
	PodRate int
	// Serial distinguishes otherwise equal settings, so that each has a new ktsnd.
	Serial int
	// OVS makes ktsnd and the pod's other traffic use Open vSwitch.
	OVS bool
	// Guests requires a virtual machine on each node.
	Guests bool
	// PMDMaxSleep is how long the polling of that Open vSwitch may pause; 0: never.
	PMDMaxSleep time.Duration
	// GatesCycle requires a schedule with that cycle; 0 is none.
	GatesCycle time.Duration
	// Window is the window of the measured messages in that schedule.
	Window Window
	// VLAN is the VLAN ID of ktsnd's frames, whose priority follows their class; 0: untagged.
	VLAN int
}

// Outcome is the result of a run.
type Outcome struct {
	Messages []results.Message `json:"-"`
	// Observed are the counts, and the observed processor time and memory. Distributions of times are empty: they are
	// computed from the messages.
	Observed results.Alternation `json:"observed"`
	// Problems lists why the run is invalid or a failure.
	Problems []string      `json:"problems"`
	Idle     *results.Idle `json:"idle,omitempty"`
	// StolenNs is the time of all cores that the hypervisor gave to others during TookNs.
	StolenNs int64 `json:"stolen_ns"`
	TookNs   int64 `json:"took_ns"`
	// Usage is the usage of nodes and pods so far, where it is known.
	Usage []results.UsageSample `json:"usage,omitempty"`
	// Values and Samples are an experiment's results by its own names, and Said the messages of its programs.
	Values  map[string]float64 `json:"values,omitempty"`
	Samples map[string][]int64 `json:"samples,omitempty"`
	Said    map[string]string  `json:"said,omitempty"`
}

// Names of Outcome.Values.
const (
	// ValueIperf3Bps is the received payload of an iperf3 that ran during the messages, in bit/s, ValueIperf3Lost the
	// share of its data that did not arrive.
	ValueIperf3Bps  = "iperf3_received_bps"
	ValueIperf3Lost = "iperf3_lost_share"
)

// Environment describes a target. It is constant, except for what is known only after ktsnd was started.
type Environment struct {
	SenderCPU   int   `json:"sender_cpu"`
	ListenerCPU int   `json:"listener_cpu"`
	LeadNs      int64 `json:"lead_ns"`
	// TalkerSpinNs is how long the talkers of spinning paths busy-wait before each send, TalkerPriority their
	// SCHED_FIFO priority; 0: none.
	TalkerSpinNs   int64 `json:"talker_spin_ns"`
	TalkerPriority int   `json:"talker_priority"`
	// Gates is null until a schedule was set.
	Gates *results.GateSetup `json:"gates"`
	// Programs are SHA-256 sums by name.
	Programs map[string]string `json:"programs"`
	Clock    results.Clock     `json:"clock"`
	// NotMeasured is what this target can never measure.
	NotMeasured []results.Gap `json:"not_measured"`
	// Emulated describes the virtual machines; empty: none.
	Emulated string `json:"emulated,omitempty"`
	// The following fields are ktsnd's.
	KtsndVersion      string   `json:"ktsnd_version"`
	Scheduler         string   `json:"scheduler"`
	SchedulerPriority int      `json:"scheduler_priority"`
	SpinNs            int64    `json:"spin_ns"`
	Warnings          []string `json:"warnings"`
}

// Target performs runs. It is not safe for concurrent use.
type Target interface {
	// Prepare brings the target into a setting, if it is not in it already.
	Prepare(context.Context, Setting) error
	// Perform performs one run in the prepared setting.
	Perform(context.Context, Run) (*Outcome, error)
	// Environment may change after Prepare.
	Environment() Environment
	// Host is the talkers' machine.
	Host() (results.Host, error)
	// Close removes everything that the target created, also after ctx has ended.
	Close(context.Context) error
}
