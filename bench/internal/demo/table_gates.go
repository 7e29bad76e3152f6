// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/report"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

const gatesLegend = `  Each cycle the gate is open for class 7, whose latency this is, then for class 6, then for classes 0 to 5.
  gates-saturated adds a talker of class 1 that sends through ktsnd as fast as it can; kernel-saturated a sender that
  does so through the kernel's path of the same nodes, past ktsnd.
`

// gates prints the runs under a schedule, if there were any.
func (p *printer) gates(summary *results.Summary) {
	var runs []*results.Run
	for _, workload := range engine.GateWorkloads {
		runs = append(runs, runsOf(summary.Runs, workload)...)
	}
	if len(runs) == 0 {
		return
	}
	var latency, causes, frames report.TextTable
	latency.Row(append(slices.Clone(latencyColumns[:8]), "p50 ÷ gates", "p99 ÷ gates")...)
	causes.Row(causesColumns...)
	frames.Row("", "sent", "frames", "frames a cycle", "window, µs", "outside", "overruns")
	for _, run := range runs {
		latency.Row(append(append([]string{run.Workload}, latencyCells(run)...),
			gatesRatio(runs, run, engine.LatencyP50), gatesRatio(runs, run, engine.LatencyP99))...)
		causes.Row(append([]string{run.Workload}, causesRow(runs, run)...)...)
		for _, class := range run.Gates {
			frames.Row(append([]string{fmt.Sprintf("%s  class %d", run.Workload, class.TrafficClass)}, framesRow(&class)...)...)
		}
		if beside := run.CompetingFrames; beside != nil {
			frames.Row(run.Workload+"  beside", "", strconv.Itoa(*beside))
		}
	}
	p.line("With a schedule, %d B, in µs", runs[0].PayloadBytes)
	p.grid(latency)
	p.grid(causes)
	p.line("Frames on the wire, by class")
	p.grid(frames)
	p.line(gatesLegend)
}

func (p *printer) grid(table report.TextTable) {
	if p.err == nil {
		p.err = table.Print(p.out)
	}
	p.line("")
}

func gatesRatio(runs []*results.Run, run *results.Run, figure func(*results.Run) (float64, bool)) string {
	ratio, ok := engine.AgainstGates(runs, run, figure)
	if !ok {
		return unmeasured
	}
	return fmt.Sprintf("%.2f", ratio)
}

func framesRow(class *results.GateFrames) []string {
	return []string{strconv.Itoa(class.Sent), strconv.Itoa(class.Frames), aCycle(class.Frames, class.Cycles),
		fmt.Sprintf("%d to %d", class.OpenNs/1000, class.CloseNs/1000), strconv.Itoa(class.OutsideWindow),
		strconv.FormatUint(class.TransmissionOverrun, 10)}
}

func aCycle(frames, cycles int) string {
	if cycles == 0 {
		return unmeasured
	}
	return fmt.Sprintf("%.1f", float64(frames)/float64(cycles))
}
