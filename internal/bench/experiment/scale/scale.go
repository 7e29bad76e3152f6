// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/engine"
	"github.com/kubernetsn/kubernetsn/internal/bench/netnstarget"
	"github.com/kubernetsn/kubernetsn/internal/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Name is how profiles call the experiment.
const Name = "scale"

// scale is what ktsnd costs, and how well it keeps times, as flows and pods become more.
type scale struct {
	// Flows of one pod, sockets of one process; and Pods with one flow each.
	Flows []int `json:"flows"`
	Pods  []int `json:"pods"`
	// Period is the time between two messages of a flow, Lasts how long each case sends.
	Period time.Duration `json:"period"`
	Lasts  time.Duration `json:"lasts"`
}

// New is the experiment with its defaults.
func New() engine.Experiment {
	return &scale{Flows: []int{1, 10, 100, 1000}, Pods: []int{1, 10, 100}, Period: 100 * time.Millisecond, Lasts: 4 * time.Second}
}

const (
	mostFlows = 1000
	mostPods  = 100
	// mostDepartures is below what ktsnd remembers of them (65,535).
	mostDepartures = 60_000
	// backgroundOverhead is about what a case takes besides its messages, and for each pod.
	backgroundOverhead, podOverhead = 2500 * time.Millisecond, 40 * time.Millisecond
)

// The kinds of cases, by what becomes more.
const (
	byFlows = "flows"
	byPods  = "pods"
)

// Names of engine.Outcome.Values and Samples.
const (
	valueCores     = "ktsnd_cores"
	valueMemory    = "ktsnd_memory_bytes"
	valueEmpty     = "ktsnd_empty_bytes"
	valueSent      = "sent"
	valueFrames    = "frames"
	valueDropped   = "dropped"
	valueKernel    = "kernel_path"
	sampleDeparted = "departure_error_ns"
)

// Fields implements engine.Experiment.
func (s *scale) Fields() map[string]engine.Field {
	return map[string]engine.Field{
		"flows":  engine.Numbers(&s.Flows, 1, mostFlows),
		"pods":   engine.Numbers(&s.Pods, 1, mostPods),
		"period": engine.Span(&s.Period, 10*time.Millisecond, time.Second),
		"lasts":  engine.Span(&s.Lasts, 500*time.Millisecond, time.Minute),
	}
}

// Compared implements engine.Experiment.
func (*scale) Compared() []string {
	return []string{valueCores, valueMemory, sampleDeparted + "_p50", sampleDeparted + "_p99"}
}

// Check implements engine.Experiment.
func (s *scale) Check(profile *engine.Profile) error {
	most := int(s.Lasts/s.Period) * max(slices.Max(s.Flows), slices.Max(s.Pods))
	switch {
	case profile.Target != engine.Namespaces.Name:
		return errors.New("scale is measured between network namespaces, beside no other pods; leave --kubeconfig out")
	case !slices.Equal(profile.Paths, []string{results.PathDirect}):
		return fmt.Errorf("scale is about ktsnd alone, and the paths are %v; give paths: [%s]", profile.Paths, results.PathDirect)
	case s.Lasts < 2*s.Period:
		return fmt.Errorf("lasts %v, less than two periods of %v; give more, or a shorter period", s.Lasts, s.Period)
	case most > mostDepartures:
		return fmt.Errorf("lasts %v, in which %d messages leave, and ktsnd remembers %d; give less, or a longer period", s.Lasts, most,
			mostDepartures)
	}
	return nil
}

// Cases implements engine.Experiment. Each has a new ktsnd, whose memory is of that case alone.
func (s *scale) Cases(*engine.Profile) []engine.Case {
	var all []engine.Case
	add := func(kind string, number, pods int) {
		all = append(all, engine.Case{Name: fmt.Sprintf("%s-%d", kind, number), Path: results.PathDirect,
			Of:      map[string]string{"kind": kind, "number": strconv.Itoa(number)},
			LastsNs: (s.Lasts + backgroundOverhead + podOverhead*time.Duration(pods)).Nanoseconds(),
			Setting: engine.Setting{Daemon: true, Serial: len(all) + 1}})
	}
	for _, flows := range s.Flows {
		add(byFlows, flows, 1)
	}
	for _, pods := range s.Pods {
		add(byPods, pods, pods)
	}
	return all
}

// backgroundOf is who sends in a case.
func (s *scale) backgroundOf(kind string, number int) netnstarget.Background {
	background := netnstarget.Background{Pods: 1, FlowsPerPod: number, Period: s.Period, Rounds: int(s.Lasts / s.Period)}
	if kind == byPods {
		background.Pods, background.FlowsPerPod = number, 1
	}
	return background
}

// Perform implements engine.Experiment.
func (s *scale) Perform(ctx context.Context, on engine.Target, _ *engine.Profile, one *engine.Case) (*engine.Outcome, error) {
	target, ok := on.(*netnstarget.Target)
	if !ok {
		return nil, errors.New("experiment scale is measured between network namespaces only")
	}
	number, err := strconv.Atoi(one.Of["number"])
	if err != nil {
		return nil, fmt.Errorf("read the case: %w", err)
	}
	background := s.backgroundOf(one.Of["kind"], number)
	seen, err := target.Measure(ctx, background)
	if err != nil {
		return nil, err
	}
	outcome := &engine.Outcome{Problems: []string{},
		Values: map[string]float64{valueCores: seen.Cores, valueMemory: float64(seen.MemoryBytes), valueEmpty: float64(seen.EmptyBytes),
			valueSent: float64(seen.Sent), valueFrames: float64(seen.Frames), valueDropped: float64(seen.Dropped),
			valueKernel: float64(seen.KernelPath)},
		Samples: map[string][]int64{sampleDeparted: seen.DepartureNs}}
	outcome.Problems = problemsOf(&background, seen)
	return outcome, nil
}

// problemsOf says what became of messages that did not leave by ktsnd, or early.
func problemsOf(background *netnstarget.Background, seen *netnstarget.Observed) []string {
	problems := []string{}
	wanted := background.Pods * background.FlowsPerPod * background.Rounds
	early := 0
	for _, ns := range seen.DepartureNs {
		if ns < 0 {
			early++
		}
	}
	for _, one := range []struct {
		bad    bool
		number int
		what   string
	}{
		{seen.Sent != wanted, seen.Sent, fmt.Sprintf("messages were sent by ktsnd, of %d", wanted)},
		{seen.Frames < seen.Sent, seen.Sent - seen.Frames, "messages that ktsnd sent did not come off the link"},
		{len(seen.DepartureNs) != seen.Sent, len(seen.DepartureNs), fmt.Sprintf("departures are known, of %d", seen.Sent)},
		{seen.Dropped > 0, int(seen.Dropped), "messages were dropped by ktsnd"},
		{seen.KernelPath > 0, int(seen.KernelPath), "messages went past ktsnd"},
		{early > 0, early, "messages were released before their time"},
	} {
		if one.bad {
			problems = append(problems, fmt.Sprintf("%d %s", one.number, one.what))
		}
	}
	return problems
}

// point is all repetitions of a case.
type point struct {
	number           int
	cores, memoryMiB []float64
	grownBytes       []float64
	departureNs      []int64
	sent, lost       int
}

// pointsOf puts the repetitions of a kind's cases together, by number.
func pointsOf(kind string, measured []engine.Measured) []*point {
	var all []*point
	for _, one := range measured {
		number, err := strconv.Atoi(one.Case.Of["number"])
		if one.Case.Of["kind"] != kind || err != nil {
			continue
		}
		at := slices.IndexFunc(all, func(p *point) bool { return p.number == number })
		if at < 0 {
			at = len(all)
			all = append(all, &point{number: number})
		}
		all[at].add(one.Outcome)
	}
	slices.SortFunc(all, func(a, b *point) int { return a.number - b.number })
	return all
}

func (p *point) add(outcome *engine.Outcome) {
	values := outcome.Values
	p.cores = append(p.cores, values[valueCores])
	p.memoryMiB = append(p.memoryMiB, values[valueMemory]/(1<<20))
	p.grownBytes = append(p.grownBytes, values[valueMemory]-values[valueEmpty])
	p.departureNs = append(p.departureNs, outcome.Samples[sampleDeparted]...)
	p.sent += int(values[valueSent])
	p.lost += int(max(values[valueSent]-values[valueFrames], 0) + values[valueDropped] + values[valueKernel])
}

func (p *point) departure() *stats.Summary { return stats.Summarize(p.departureNs) }

// spread is the median of repetitions, and their range.
func spread(number int, values []float64) results.Point {
	return results.Point{X: float64(number), Y: stats.Median(values), Low: slices.Min(values), High: slices.Max(values)}
}

// Report implements engine.Experiment.
func (s *scale) Report(_ *engine.Profile, measured []engine.Measured) engine.Findings {
	section := results.Section{ID: "scale", Title: "What more flows and more pods cost",
		About: fmt.Sprintf("Each flow has a message each %v, those of all spread evenly over that time; %v for each case, with a ktsnd of its own. "+
			"Flows are sockets of one process in one pod; pods have a process with one flow each. Lines are medians over the repetitions, bars the "+
			"least and the most of them.", s.Period, s.Lasts)}
	kinds := []struct{ kind, name string }{{byFlows, "flows of one pod"}, {byPods, "pods of one flow"}}
	charts := []results.Chart{
		{ID: "cores", Title: "Processor time of ktsnd", XAxis: "flows", YAxis: "Cores", LogX: true},
		{ID: "memory", Title: "Memory of ktsnd", XAxis: "flows", YAxis: "MiB", LogX: true},
		{ID: "departure-p50", Title: "Departure error, median", XAxis: "flows", YAxis: "µs", LogX: true, Caption: "Over all messages of all repetitions."},
		{ID: "departure-p99", Title: "Departure error, 99th percentile", XAxis: "flows", YAxis: "µs", LogX: true, LogY: true,
			Caption: "Over all messages of all repetitions; with few flows there are few messages, and it is close to their maximum."},
	}
	for _, kind := range kinds {
		points := pointsOf(kind.kind, measured)
		if len(points) == 0 {
			continue
		}
		section.Tables = append(section.Tables, s.table(kind.kind, kind.name, points))
		section.Remarks = append(section.Remarks, s.remarks(kind.name, points)...)
		for i, line := range curves(points) {
			line.Name = kind.name
			charts[i].Lines = append(charts[i].Lines, line)
		}
	}
	if len(section.Tables) > 0 {
		section.Charts = charts
	}
	return engine.Findings{Sections: []results.Section{section}, Gaps: []results.Gap{
		{What: "pods of a cluster, and what kubelet and the agent cost", Why: "the pods are network namespaces with a ktsnd of their own"}}}
}

// curves are those of the charts, in their order.
func curves(points []*point) [4]results.Line {
	var all [4]results.Line
	for _, p := range points {
		all[0].Points = append(all[0].Points, spread(p.number, p.cores))
		all[1].Points = append(all[1].Points, spread(p.number, p.memoryMiB))
		if departure := p.departure(); departure != nil {
			all[2].Points = append(all[2].Points, results.Point{X: float64(p.number), Y: float64(departure.P50) / 1000})
			all[3].Points = append(all[3].Points, results.Point{X: float64(p.number), Y: max(float64(departure.P99)/1000, 0.001)})
		}
	}
	return all
}

func (s *scale) table(id, name string, points []*point) results.SectionTable {
	table := results.SectionTable{ID: id, Title: name,
		Head: []string{"number", "messages", "lost", "cores", "µs a message", "MiB", "grown by, KiB each", "departure p50, µs", "p99", "max"}}
	for _, p := range points {
		row := []string{strconv.Itoa(p.number), strconv.Itoa(p.sent), strconv.Itoa(p.lost), fmt.Sprintf("%.4f", stats.Median(p.cores)),
			fmt.Sprintf("%.2f", stats.Median(p.cores)*s.Period.Seconds()/float64(p.number)*1e6), fmt.Sprintf("%.1f", stats.Median(p.memoryMiB)), fmt.Sprintf("%.1f", stats.Median(p.grownBytes)/1024/float64(p.number))}
		if departure := p.departure(); departure != nil {
			row = append(row, results.Micros(departure.P50), results.Micros(departure.P99), results.Micros(departure.Max))
		} else {
			row = append(row, "–", "–", "–")
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// remarks say what the ends of a curve show.
func (s *scale) remarks(name string, points []*point) []string {
	first, last := points[0], points[len(points)-1]
	if first == last {
		return nil
	}
	lost := 0
	for _, p := range points {
		lost += p.lost
	}
	cores, memory := stats.Median(last.cores)-stats.Median(first.cores), stats.Median(last.memoryMiB)-stats.Median(first.memoryMiB)
	more := float64(last.number - first.number)
	remarks := []string{fmt.Sprintf("From %d to %d %s ktsnd takes %.4f more of a core, which is %.2f µs a message, and %.1f MiB more memory, which is %.1f KiB each.",
		first.number, last.number, name, cores, cores*s.Period.Seconds()/more*1e6, memory, memory*1024/more)}
	one, other := first.departure(), last.departure()
	if one != nil && other != nil {
		remarks = append(remarks, fmt.Sprintf("The median departure error is %s µs with %d and %s µs with %d %s.", results.Micros(one.P50),
			first.number, results.Micros(other.P50), last.number, name))
	}
	return append(remarks, fmt.Sprintf("Lost with %s: %d.", name, lost))
}
