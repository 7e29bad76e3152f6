// SPDX-License-Identifier: Apache-2.0

// Package scale is the experiment on the cost of many flows and pods for a node's ktsnd: processor time, memory, and
// the accuracy of departures, from one flow to a thousand and from one pod to a hundred.
package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstarget"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Name is the experiment's name in profiles.
const Name = "scale"

// scale measures ktsnd's cost and accuracy with increasing numbers of flows and pods.
type scale struct {
	Cycles []load `json:"cycles"`
	// Lasts is how long each case sends.
	Lasts time.Duration `json:"lasts"`
}

// load is measured with one cycle.
type load struct {
	// Cycle is the time between two messages of a flow, Lead how long before its transmit time each is handed over.
	Cycle time.Duration `json:"cycle"`
	Lead  time.Duration `json:"lead"`
	// Flows are those of one pod, as sockets of few processes; Pods have one flow each.
	Flows []int `json:"flows"`
	Pods  []int `json:"pods"`
}

// New is the experiment with its defaults.
func New() engine.Experiment {
	return &scale{Lasts: 4 * time.Second, Cycles: []load{
		{Cycle: 100 * time.Millisecond, Lead: defaultLead, Flows: []int{1, 10, 100, 1000}, Pods: []int{1, 10, 100}},
		{Cycle: time.Millisecond, Lead: 2500 * time.Microsecond, Flows: []int{1, 10, 100}}}}
}

const (
	mostFlows = 1000
	mostPods  = 100
	// mostMessages keeps a case small enough to be read and stored as a whole.
	mostMessages = 1_000_000
	// ktsnd's default number of stored departures, and the messages per second from which on its --pod-rate leaves a
	// pod little or no room to catch up after a pause.
	keptDepartures, tightRate = 60_000, 50_000
	// Below ktsnd's defaults of --slots and --pod-pending.
	mostWaiting, mostPending = 400, 1000
	// mostRate is what one process of tsnperf sends without trouble.
	mostRate    = 100_000
	defaultLead = 10 * time.Millisecond
	// backgroundOverhead is the approximate duration of a case without its messages, and for each pod.
	backgroundOverhead, podOverhead = 2500 * time.Millisecond, 40 * time.Millisecond
	// The messages whose departures and hand-overs are read in a second.
	readPerSecond = 300_000
)

// The kinds of cases, by the increasing number.
const (
	byFlows = "flows"
	byPods  = "pods"
)

// Names of engine.Outcome.Values and Samples.
const (
	valueCores       = "ktsnd_cores"
	valueTalkerCores = "talker_cores"
	valueMemory      = "ktsnd_memory_bytes"
	valueEmpty       = "ktsnd_empty_bytes"
	valueMessageUs   = "ktsnd_us_per_message"
	valueRate        = "messages_per_second"
	valueWakeups     = "wakeups_per_message"
	valueDoorbells   = "doorbells_per_message"
	valueTalkerLate  = "talker_wakeup_ns"
	valueSent        = "sent"
	valueLost        = "lost"
	valueHandedLate  = "handed_over_late"
	valueHeld        = "held_by_pod_limits"
	valueStops       = "stops_by_budget"
	valuePauses      = "host_pauses"
	valueLatePrefix  = "late_"
	sampleDeparted   = "departure_error_ns"
)

// Fields implements engine.Experiment.
func (s *scale) Fields() engine.Fields {
	return engine.Fields{
		"cycles": engine.Mappings(&s.Cycles, "a cycle", func() load { return load{Lead: defaultLead} }, (*load).fields),
		"lasts":  engine.Within(&s.Lasts, 500*time.Millisecond, time.Minute),
	}
}

func (l *load) fields() engine.Fields {
	return engine.Fields{
		"cycle": engine.Within(&l.Cycle, 100*time.Microsecond, time.Second),
		"lead":  engine.Within(&l.Lead, 500*time.Microsecond, 100*time.Millisecond),
		"flows": engine.Numbers(&l.Flows, 1, mostFlows),
		"pods":  engine.Numbers(&l.Pods, 1, mostPods),
	}
}

// Compared implements engine.Experiment.
func (*scale) Compared() []string {
	return []string{valueCores, valueTalkerCores, valueMemory, sampleDeparted + "_p50", sampleDeparted + "_p99", sampleDeparted + "_p99_9",
		sampleDeparted + "_max"}
}

// Check implements engine.Experiment.
func (s *scale) Check(profile *engine.Profile) error {
	switch {
	case profile.Target != engine.Namespaces.Name:
		return errors.New("scale is measured between network namespaces, beside no other pods; leave --kubeconfig out")
	case !slices.Equal(profile.Paths, []string{results.PathDirect}):
		return fmt.Errorf("scale is about ktsnd alone, and the paths are %v; give paths: [%s]", profile.Paths, results.PathDirect)
	}
	for i := range s.Cycles {
		if err := s.checkLoad(&s.Cycles[i]); err != nil {
			return err
		}
		same := func(other load) bool { return other.Cycle == s.Cycles[i].Cycle }
		if slices.ContainsFunc(s.Cycles[:i], same) {
			return fmt.Errorf("cycles has %v twice; give each once", s.Cycles[i].Cycle)
		}
	}
	return nil
}

func (s *scale) checkLoad(l *load) error {
	switch {
	case l.Cycle == 0:
		return errors.New("cycles has one without `cycle`; give the time between two messages of a flow, such as cycle: 1ms")
	case len(l.Flows)+len(l.Pods) == 0:
		return fmt.Errorf("cycles has %v without flows and pods; give one of them, such as flows: [1, 10]", l.Cycle)
	case s.Lasts < 2*l.Cycle:
		return fmt.Errorf("lasts %v, less than two cycles of %v; give more, or a shorter cycle", s.Lasts, l.Cycle)
	}
	for _, background := range l.backgrounds(s.Lasts) {
		if err := checkBackground(&background.Background); err != nil {
			return err
		}
	}
	return nil
}

// rateOfPod is the messages per second of one pod.
func rateOfPod(b *netnstarget.Background) float64 { return float64(b.FlowsPerPod) / b.Cycle.Seconds() }

// checkBackground rejects a background that is too large.
func checkBackground(b *netnstarget.Background) error {
	rate := rateOfPod(b)
	waiting := int(rate * b.Lead.Seconds())
	flows := fmt.Sprintf("%d flows of a pod each %v", b.FlowsPerPod, b.Cycle)
	switch {
	case rate > mostRate:
		return fmt.Errorf("%s are %.0f messages a second, of at most %d; give fewer flows, or a longer cycle", flows, rate, mostRate)
	case waiting/b.Processes() > mostWaiting || waiting > mostPending:
		return fmt.Errorf("%s, handed over %v ahead, are %d messages waiting, and ktsnd has room for %d of a process and %d of a pod; "+
			"give a shorter lead", flows, b.Lead, waiting, mostWaiting, mostPending)
	case b.Messages() > mostMessages:
		return fmt.Errorf("%d flows each %v are %d messages in a case, of at most %d; let it last less, or give a longer cycle",
			b.Pods*b.FlowsPerPod, b.Cycle, b.Messages(), mostMessages)
	}
	return nil
}

// background is the load of a case.
type background struct {
	kind   string
	number int
	netnstarget.Background
}

func (b *background) name() string { return caseName(b.kind, b.number, b.Cycle) }

func caseName(kind string, number int, cycle time.Duration) string {
	return fmt.Sprintf("%s-%d-%s", kind, number, durationText(cycle))
}

// backgrounds are those of all cases with a cycle.
func (l *load) backgrounds(lasts time.Duration) []background {
	each := netnstarget.Background{Pods: 1, FlowsPerPod: 1, Cycle: l.Cycle, Lead: l.Lead, Rounds: int(lasts / l.Cycle)}
	var all []background
	for _, flows := range l.Flows {
		each.FlowsPerPod = flows
		all = append(all, background{byFlows, flows, each})
	}
	each.FlowsPerPod = 1
	for _, pods := range l.Pods {
		each.Pods = pods
		all = append(all, background{byPods, pods, each})
	}
	return all
}

// durationText formats a duration as in a profile, in ASCII.
func durationText(d time.Duration) string { return strings.ReplaceAll(d.String(), "µ", "u") }

// Cases implements engine.Experiment. Each has a new ktsnd, whose memory is of that case alone.
func (s *scale) Cases(*engine.Profile) []engine.Case {
	var all []engine.Case
	for i := range s.Cycles {
		for _, background := range s.Cycles[i].backgrounds(s.Lasts) {
			messages := background.Messages()
			lasts := s.Lasts + backgroundOverhead + podOverhead*time.Duration(background.Pods) + time.Duration(messages)*time.Second/readPerSecond
			setting := engine.Setting{Daemon: true, Serial: len(all) + 1}
			if messages > keptDepartures {
				setting.Departures = messages + messages/10
			}
			if rate := rateOfPod(&background.Background); rate > tightRate {
				setting.PodRate = 2 * int(rate)
			}
			all = append(all, engine.Case{Name: background.name(), Path: results.PathDirect, LastsNs: lasts.Nanoseconds(), Setting: setting})
		}
	}
	return all
}

// backgroundOf returns the background of a case.
func (s *scale) backgroundOf(name string) (*netnstarget.Background, error) {
	for i := range s.Cycles {
		for _, background := range s.Cycles[i].backgrounds(s.Lasts) {
			if background.name() == name {
				return &background.Background, nil
			}
		}
	}
	return nil, fmt.Errorf("the profile has no case %s", name)
}

// Perform implements engine.Experiment.
func (s *scale) Perform(ctx context.Context, on engine.Target, _ *engine.Profile, current *engine.Case) (*engine.Outcome, error) {
	target, ok := on.(*netnstarget.Target)
	if !ok {
		return nil, errors.New("experiment scale is measured between network namespaces only")
	}
	background, err := s.backgroundOf(current.Name)
	if err != nil {
		return nil, err
	}
	seen, err := target.Measure(ctx, *background)
	if err != nil {
		return nil, err
	}
	return outcomeOf(background, seen), nil
}

func outcomeOf(background *netnstarget.Background, seen *netnstarget.Observed) *engine.Outcome {
	values := map[string]float64{valueMemory: float64(seen.MemoryBytes), valueEmpty: float64(seen.EmptyBytes), valueCores: seen.Cores(),
		valueTalkerCores: seen.TalkerCores, valueRate: float64(seen.Sent) / seen.Over.Seconds(), valueTalkerLate: float64(seen.WakeupNs),
		valueSent: float64(seen.Sent), valueHandedLate: float64(seen.HandedOverLate), valueHeld: float64(seen.Counters.Held),
		valuePauses: float64(seen.Counters.Pauses), valueLost: float64(max(seen.Sent-seen.Frames, 0)) + float64(seen.Counters.Dropped+seen.Counters.KernelPath)}
	if messages := float64(seen.Sent); messages > 0 {
		values[valueMessageUs] = seen.CPUTime.Seconds() / messages * 1e6
		values[valueWakeups], values[valueDoorbells] = float64(seen.Wakeups)/messages, float64(seen.Doorbells)/messages
	}
	if stops := seen.Counters.Stops; stops != nil {
		values[valueStops] = float64(*stops)
	}
	for reason, count := range seen.Counters.Late {
		values[valueLatePrefix+reason] = float64(count)
	}
	return &engine.Outcome{Problems: problemsOf(background, seen), Values: values,
		Samples: map[string][]int64{sampleDeparted: seen.DepartureNs}}
}

// problemsOf describes messages that ktsnd did not send, or that were early.
func problemsOf(background *netnstarget.Background, seen *netnstarget.Observed) []string {
	problems := []string{}
	known := len(seen.DepartureNs) + seen.HandedOverLate
	for _, check := range []struct {
		bad    bool
		number int
		what   string
	}{
		{seen.SendErrors > 0, seen.SendErrors, "send calls failed"},
		{seen.Sent != background.Messages(), seen.Sent, fmt.Sprintf("messages were sent by ktsnd, of %d", background.Messages())},
		{seen.Frames < seen.Sent, seen.Sent - seen.Frames, "messages that ktsnd sent did not come off the link"},
		{known != seen.Sent, known, fmt.Sprintf("departures are known, of %d", seen.Sent)},
		{seen.Counters.Dropped > 0, int(seen.Counters.Dropped), "messages were dropped by ktsnd"},
		{seen.Counters.KernelPath > 0, int(seen.Counters.KernelPath), "messages went past ktsnd"},
		{seen.Early > 0, seen.Early, "messages were released before their time"},
	} {
		if check.bad {
			problems = append(problems, fmt.Sprintf("%d %s", check.number, check.what))
		}
	}
	return problems
}
