// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strconv"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// target is a target of the project for a figure.
type target struct {
	name  string
	unit  string
	limit float64
	// against is one of the kernel's paths, if the figure is a ratio to it.
	against string
	// figure returns the figure from a run's medians over alternations; false if it was not measured.
	figure func(*results.Run) (float64, bool)
	// twoClocks: the figure includes the difference of both ends' clocks.
	twoClocks bool
}

// targets are those of the plain runs, by ktsnd's paths. A ratio is a ratio of medians, so that it can be checked
// against the table.
var targets = map[string][]target{
	results.PathDirect: {
		{"latency p50, direct / kernel-vxlan-spin", results.UnitRatio, 0.80, results.PathKernelVXLANSpin, latencyP50, true},
		{"latency p99, direct / kernel-vxlan-spin", results.UnitRatio, 0.80, results.PathKernelVXLANSpin, latencyP99, true},
		{"latency p50, direct / kernel-vxlan", results.UnitRatio, 0.40, results.PathKernelVXLAN, latencyP50, true},
		{"latency p99, direct / kernel-vxlan", results.UnitRatio, 0.60, results.PathKernelVXLAN, latencyP99, true},
		{"lost", results.UnitMessages, 0, "", lost, false},
		{"early on the wire", results.UnitMessages, 0, "", earlyOnWire, false},
		{"departure error p50", results.UnitNs, 200, "", departureP50, false},
		{"launch error p50 on the wire", results.UnitNs, 2000, "", launchP50, false},
		{"launch error p99 on the wire", results.UnitNs, 15_000, "", launchP99, false},
		{"jitter abs_p50", results.UnitNs, 5000, "", jitterAbsP50, false},
		{"send call p50, direct / kernel-vxlan-spin", results.UnitRatio, 0.5, results.PathKernelVXLANSpin, sendCallP50, false},
		{"processor time of ktsnd, one flow", results.UnitCores, 0.15, "", ktsndCores, false},
	},
	results.PathOVS: {
		{"latency p50, ovs / kernel-vxlan-spin", results.UnitRatio, 1, results.PathKernelVXLANSpin, latencyP50, true},
		{"latency p99, ovs / kernel-vxlan-spin", results.UnitRatio, 1, results.PathKernelVXLANSpin, latencyP99, true},
		{"latency p50, ovs / kernel-vxlan", results.UnitRatio, 0.60, results.PathKernelVXLAN, latencyP50, true},
		{"latency p99, ovs / kernel-vxlan", results.UnitRatio, 0.60, results.PathKernelVXLAN, latencyP99, true},
		{"lost, ovs", results.UnitMessages, 0, "", lost, false},
		{"early on the wire, ovs", results.UnitMessages, 0, "", earlyOnWire, false},
		{"departure error p50, ovs", results.UnitNs, 200, "", departureP50, false},
	},
	results.PathTSN: {
		{"latency p50, tsn / primary-spin", results.UnitRatio, 0.80, results.PathPrimarySpin, latencyP50, true},
		{"latency p99, tsn / primary-spin", results.UnitRatio, 0.80, results.PathPrimarySpin, latencyP99, true},
		{"latency p50, tsn / primary", results.UnitRatio, 0.50, results.PathPrimary, latencyP50, true},
		{"latency p99, tsn / primary", results.UnitRatio, 0.70, results.PathPrimary, latencyP99, true},
		{"lost", results.UnitMessages, 0, "", lost, false},
		{"early at the listener", results.UnitMessages, 0, "", early, false},
	},
}

func lost(r *results.Run) (float64, bool)  { return float64(r.Lost), true }
func early(r *results.Run) (float64, bool) { return float64(r.Early), true }

// earlyOnWire is unknown if the link was not watched: then early arrivals at the listener count.
func earlyOnWire(r *results.Run) (float64, bool) {
	return float64(r.Early), r.MedianOfAlternations.LaunchError != nil
}

// gateTargets compare the most important class during saturation with the same without it.
var gateTargets = []struct {
	name   string
	limit  float64
	figure func(*results.Run) (float64, bool)
}{
	{"latency p50, gates-saturated / gates", 1.2, latencyP50},
	{"latency p99, gates-saturated / gates", 1.5, latencyP99},
}

// idleWindowLimit is the largest idle share of the saturated window: above it, nothing was saturated, and the
// comparison means little.
const idleWindowLimit = 0.25

// outsideLimit is the share of frames that may be on the wire outside the window of their class.
const outsideLimit = 1.0 / 10_000

const (
	idleName  = "processor time of ktsnd, idle"
	idleLimit = 0.005
)

// figures compares the plain runs and the idle daemon with the targets. Figures that were not measured are left out.
func figures(runs []*results.Run, idle *results.Idle) []results.Figure {
	var all []results.Figure
	for _, path := range []string{results.PathDirect, results.PathOVS, results.PathTSN} {
		all = append(all, figuresOf(path, runs)...)
	}
	if idle != nil {
		all = AppendFigure(all, idleName, results.UnitCores, idleLimit, map[string]float64{results.Independent: idle.CPUCores["ktsnd"]})
	}
	return all
}

// figuresOf compares the plain runs over a path with its targets.
func figuresOf(path string, runs []*results.Run) []results.Figure {
	var all []results.Figure
	for _, target := range targets[path] {
		values := map[string]float64{}
		var undecided []string
		missed := false
		for _, run := range runs {
			if run.Path != path || run.Workload != results.WorkloadPlain || run.CycleNs != runs[0].CycleNs {
				continue
			}
			value, ok := target.value(runs, run)
			if !ok {
				continue
			}
			values[strconv.Itoa(run.PayloadBytes)] = value
			why := target.undecided(runs, run, value)
			if why != "" {
				undecided = append(undecided, fmt.Sprintf("%d B: %s", run.PayloadBytes, why))
			}
			missed = missed || why == "" && value > target.limit
		}
		all = AppendFigure(all, target.name, target.unit, target.limit, values)
		if len(undecided) > 0 && !missed {
			figure := &all[len(all)-1]
			figure.Reached, figure.NotJudged = false, undecided[0]
		}
	}
	return all
}

// undecided returns why the clocks make it unknown whether a run's value is within the limit; "" if it is known.
func (t *target) undecided(runs []*results.Run, run *results.Run, value float64) string {
	if !t.twoClocks {
		return ""
	}
	clockError, kernel := run.MedianOfAlternations.ClockError, find(runs, run, t.against, run.Workload)
	latency, _ := t.figure(run)
	base, _ := t.figure(kernel)
	other := kernel.MedianOfAlternations.ClockError
	if doubt := doubtAbout(clockError, other, base); doubt != "" {
		return doubt
	}
	if low, high := widened(value, value, latency, base, clockError, other); low <= t.limit && high > t.limit {
		return fmt.Sprintf("the clocks may be wrong by %s µs, so that the ratio is anything from %.2f to %.2f",
			results.Micros(max(clockError.CombinedNs(), other.CombinedNs())), low, high)
	}
	return ""
}

// AppendFigure judges a figure: each of its values must be within the limit.
func AppendFigure(all []results.Figure, name, unit string, limit float64, values map[string]float64) []results.Figure {
	if len(values) == 0 {
		return all
	}
	reached := true
	for _, value := range values {
		reached = reached && value <= limit
	}
	return append(all, results.Figure{Name: name, Unit: unit, Limit: limit, Values: values, Reached: reached})
}

func (t *target) value(runs []*results.Run, run *results.Run) (float64, bool) {
	if t.against == "" {
		return t.figure(run)
	}
	return quotient(t.figure, run, find(runs, run, t.against, run.Workload))
}

// quotient divides a figure of two runs; false if one was not measured.
func quotient(figure func(*results.Run) (float64, bool), run, base *results.Run) (float64, bool) {
	if base == nil {
		return 0, false
	}
	value, ok := figure(run)
	divisor, known := figure(base)
	if !ok || !known || divisor <= 0 {
		return 0, false
	}
	return value / divisor, true
}

// find returns the run of a path and workload with payload and cycle of another run; nil if there is none.
func find(runs []*results.Run, like *results.Run, path, workload string) *results.Run {
	for _, run := range runs {
		if run.Path == path && run.Workload == workload && run.PayloadBytes == like.PayloadBytes && run.CycleNs == like.CycleNs {
			return run
		}
	}
	return nil
}

// The figures are medians over alternations.
var (
	latencyP50   = figureOf(latencyOf, p50)
	latencyP99   = figureOf(latencyOf, p99)
	departureP50 = figureOf(func(d *results.Distributions) *stats.Summary { return d.DepartureError }, p50)
	launchP50    = figureOf(launchOf, p50)
	launchP99    = figureOf(launchOf, p99)
	sendCallP50  = figureOf(func(d *results.Distributions) *stats.Summary { return d.SendCall }, p50)
)

func latencyOf(d *results.Distributions) *stats.Summary { return d.Latency }
func launchOf(d *results.Distributions) *stats.Summary  { return d.LaunchError }

func p50(s *stats.Summary) int64 { return s.P50 }
func p99(s *stats.Summary) int64 { return s.P99 }

// figureOf returns a figure of a distribution; it is false if there is none.
func figureOf(distribution func(*results.Distributions) *stats.Summary, value func(*stats.Summary) int64) func(*results.Run) (float64, bool) {
	return func(r *results.Run) (float64, bool) {
		summary := distribution(&r.MedianOfAlternations)
		if summary == nil {
			return 0, false
		}
		return float64(value(summary)), true
	}
}

func jitterAbsP50(r *results.Run) (float64, bool) {
	if jitter := r.MedianOfAlternations.Jitter; jitter != nil {
		return float64(jitter.AbsP50), true
	}
	return 0, false
}

func ktsndCores(r *results.Run) (float64, bool) {
	share, ok := r.MedianOfAlternations.CPUCores["ktsnd"]
	return share, ok
}

// switchShare is Open vSwitch's part of the median latency; nil if it takes no part, or the wire was not watched.
func switchShare(r *results.Run) *float64 {
	port, latency := r.MedianOfAlternations.Port, r.MedianOfAlternations.Latency
	if r.Path != results.PathOVS || port == nil || latency == nil || latency.P50 <= 0 {
		return nil
	}
	share := float64(port.P50) / float64(latency.P50)
	return &share
}

// gateFigures compares the runs with gates with the targets, as far as they were measured.
func gateFigures(runs []*results.Run, setup *results.GateSetup) []results.Figure {
	var all []results.Figure
	for _, target := range gateTargets {
		values := map[string]float64{}
		for _, run := range runs {
			if run.Workload != results.WorkloadGatesSaturated || run.CycleNs != runs[0].CycleNs {
				continue
			}
			if ratio, ok := quotient(target.figure, run, find(runs, run, run.Path, results.WorkloadGates)); ok {
				values[strconv.Itoa(run.PayloadBytes)] = ratio
			}
		}
		all = AppendFigure(all, target.name, results.UnitRatio, target.limit, values)
	}
	for _, run := range runs {
		if run.Workload == results.WorkloadGatesSaturated && run.CycleNs == runs[0].CycleNs && setup != nil {
			all = AppendFigure(all, "empty part of the saturated window", results.UnitShare, idleWindowLimit,
				map[string]float64{results.Independent: idleWindow(run, setup)})
			break
		}
	}
	for _, run := range runs {
		if share, ok := outsideShare(run); ok {
			all = AppendFigure(all, "frames outside their window, "+run.Workload, results.UnitShare, outsideLimit,
				map[string]float64{results.Independent: share})
		}
	}
	return all
}

// idleWindow is the share of its windows that the saturating class left empty, without the guard band.
func idleWindow(run *results.Run, setup *results.GateSetup) float64 {
	for _, class := range run.Gates {
		if class.TrafficClass != FloodClass || class.Cycles == 0 {
			continue
		}
		open := class.CloseNs - class.OpenNs
		if open < 0 { // over the end of the cycle
			open += run.CycleNs
		}
		room := float64(open-setup.GuardBandNs) * float64(class.Cycles)
		return 1 - float64(class.Frames)*floodFrameBits*1e9/float64(setup.LinkSpeedBps)/room
	}
	return 1
}

// outsideShare is over the frames of all classes.
func outsideShare(run *results.Run) (float64, bool) {
	var frames, outside int
	for _, class := range run.Gates {
		frames += class.Frames
		outside += class.OutsideWindow
	}
	if frames == 0 {
		return 0, false
	}
	return float64(outside) / float64(frames), true
}
