// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/report"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// unmeasured is a cell without a value.
const unmeasured = "-"

// printReport writes the whole report.
func printReport(out io.Writer, summary *results.Summary) error {
	printer := &printer{out: out}
	printer.heading(summary)
	printer.workload(summary.Runs, results.WorkloadPlain, "Latency and jitter, in µs", "How it comes about, in µs")
	printer.workload(summary.Runs, results.WorkloadKeepAwake,
		"The same with ktsnd keeping its core awake (talker and ktsnd share it, so it helps all paths)", "")
	printer.workload(summary.Runs, results.WorkloadPMDSleep,
		fmt.Sprintf("Path ovs where Open vSwitch may pause its polling for %v (pmd-maxsleep)", engine.PMDMaxSleep), "What that saves")
	printer.gates(summary)
	if summary.Idle != nil {
		printer.line("ktsnd with nothing to send, over %.0f s: %.4f cores\n",
			float64(summary.Idle.DurationNs)/1e9, summary.Idle.CPUCores["ktsnd"])
	}
	printer.line(legend)
	if printer.err == nil {
		printer.err = report.PrintFigures(out, summary.Figures)
	}
	for _, warning := range summary.Warnings {
		printer.line("WARNING: ktsnd says: %s", warning)
	}
	for _, problem := range summary.Problems {
		printer.line("PROBLEM: %s", problem)
	}
	return printer.err
}

const legend = `Each figure is the median of its alternations; lost, early and late count all messages.
  latency    arrival at the listener - requested transmit time
  ± clocks   how far the clocks of both ends may be wrong together; 0: they have one
  jitter     |t(i) - (t(i-1) + cycle)| of arrivals with consecutive sequence numbers
  departure  ktsnd's clock read that released the frame - requested time
  launch     frame on the wire, stamped by a tap on the receiving end of the link, - requested time
  port       from the clock read that released the frame until it is on the wire; of path ovs all of Open vSwitch, whose
             share of the latency is p50 by p50
  late       left so long after its time that ktsnd counted it (its --late-after; the kernel counts nothing)
  ÷ spin     to kernel-vxlan-spin, whose talker is awake before it sends, as ktsnd is: the strongest that an ordinary program
             can do on the same overlay; ÷ sleep: to kernel-vxlan, whose talker sleeps until the time, as in the papers
  cores      of processors that the sending side takes: talker and ktsnd, and of path ovs Open vSwitch
`

// printer keeps the first error of writing.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) line(format string, arguments ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", arguments...)
	}
}

func (p *printer) heading(summary *results.Summary) {
	host, setup := summary.Host, summary.Setup
	p.line("")
	p.line("%s, %d cores, Linux %s, clock %s", host.CPUModel, host.Cores, host.Kernel, host.ClockSource)
	if host.KtsndVersion != "" {
		p.line("ktsnd %s, %s priority %d, awake at most %d µs before a departure", host.KtsndVersion, host.Scheduler,
			host.SchedulerPriority, host.SpinNs/1000)
	}
	if spinning := summary.SpinningTalkers(); spinning != "" {
		p.line("Talkers of paths that spin: %s", spinning)
	}
	if setup.SenderCPU >= 0 {
		p.line("Talker and ktsnd on CPU %d, polling listener on CPU %d; %d messages each, in %d alternations",
			setup.SenderCPU, setup.ListenerCPU, setup.Messages, setup.Alternations)
	} else {
		p.line("WARNING: one processor only: nothing is pinned, and the polling listener disturbs everything; "+
			"%d messages each, in %d alternations", setup.Messages, setup.Alternations)
	}
	if summary.StolenCores >= 0.01 {
		p.line("The hypervisor gave %.2f cores of this machine to others meanwhile", summary.StolenCores)
	}
	p.line("")
}

var (
	latencyColumns = []string{"", "p50", "p90", "p99", "p99.9", "max", "± clocks", "jitter p50", "p99", "p50 ÷ spin", "p99", "p50 ÷ sleep", "p99", "cores"}
	causesColumns  = []string{"", "departure p50", "p99", "launch p50", "p99", "port p50", "send call p50", "lost", "early", "late",
		"talker + ktsnd"}
)

// workload prints the runs of a workload in which the paths took turns, if there were any.
func (p *printer) workload(runs []*results.Run, workload, title, causesTitle string) {
	if len(runsOf(runs, workload)) == 0 {
		return
	}
	p.block(title, runs, workload, latencyRow, latencyColumns...)
	p.block(causesTitle, runs, workload, causesRow, causesColumns...)
}

// block prints the runs of one workload, a row each, grouped by payload.
func (p *printer) block(title string, runs []*results.Run, workload string,
	row func(runs []*results.Run, run *results.Run) []string, columns ...string) {
	if title != "" {
		p.line("%s", title)
	}
	var table report.TextTable
	table.Row(columns...)
	for _, run := range runsOf(runs, workload) {
		label := fmt.Sprintf("%d B  %s", run.PayloadBytes, run.Path)
		table.Row(append([]string{label}, row(runs, run)...)...)
	}
	p.grid(table)
}

func runsOf(runs []*results.Run, workload string) []*results.Run {
	var selected []*results.Run
	for _, run := range runs {
		if run.Workload == workload {
			selected = append(selected, run)
		}
	}
	return selected
}

func latencyRow(runs []*results.Run, run *results.Run) []string {
	cells := latencyCells(run)
	for _, path := range []string{results.PathKernelVXLANSpin, results.PathKernelVXLAN} {
		cells = append(cells, ratioCell(path, runs, run, engine.LatencyP50), ratioCell(path, runs, run, engine.LatencyP99))
	}
	return append(cells, coresCell(engine.SendingCores(run)))
}

// latencyCells are the columns of latency and jitter.
func latencyCells(run *results.Run) []string {
	median := run.MedianOfAlternations
	cells := make([]string, 0, 10)
	if latency := median.Latency; latency != nil {
		cells = append(cells, results.Micros(latency.P50), results.Micros(latency.P90), results.Micros(latency.P99), results.Micros(latency.P99_9),
			results.Micros(latency.Max), median.ClockError.Text())
	} else {
		cells = append(cells, unmeasured, unmeasured, unmeasured, unmeasured, unmeasured, unmeasured)
	}
	if jitter := median.Jitter; jitter != nil {
		return append(cells, results.Micros(jitter.AbsP50), results.Micros(jitter.AbsP99))
	}
	return append(cells, unmeasured, unmeasured)
}

// ratioCell compares with another path.
func ratioCell(path string, runs []*results.Run, run *results.Run, figure func(*results.Run) (float64, bool)) string {
	value, ok := engine.Against(path, runs, run, figure)
	if !ok {
		return unmeasured
	}
	return fmt.Sprintf("%.2f", value)
}

func coresCell(cores float64, known bool) string {
	if !known {
		return unmeasured
	}
	return fmt.Sprintf("%.3f", cores)
}

// programsCell is the processor time of talker and ktsnd, and of Open vSwitch if it takes part.
func programsCell(run *results.Run) string {
	programs := run.MedianOfAlternations.CPUCores
	talker, known := programs["talker"]
	cells := []string{coresCell(talker, known)}
	if ktsnd, known := engine.KtsndCores(run); known {
		cells = append(cells, coresCell(ktsnd, known))
	}
	if ovs, known := programs["ovs-vswitchd"]; known {
		cells = append(cells, fmt.Sprintf("%.2f", ovs))
	}
	return strings.Join(cells, " + ")
}

func causesRow(_ []*results.Run, run *results.Run) []string {
	median := run.MedianOfAlternations
	late := unmeasured
	if run.Late != nil {
		late = strconv.FormatUint(*run.Late, 10)
	}
	call := unmeasured
	if median.SendCall != nil {
		call = results.Micros(median.SendCall.P50)
	}
	departure50, departure99 := pair(median.DepartureError)
	launch50, launch99 := pair(median.LaunchError)
	return []string{departure50, departure99, launch50, launch99, portCell(run), call,
		strconv.Itoa(run.Lost), strconv.Itoa(run.Early), late, programsCell(run)}
}

// portCell is the time in ktsnd's port, and on path ovs its share of the latency.
func portCell(run *results.Run) string {
	port := run.MedianOfAlternations.Port
	if port == nil {
		return unmeasured
	}
	cell := results.Micros(port.P50)
	if share := run.SwitchShare; share != nil {
		cell += fmt.Sprintf(" (%.0f %%)", *share*100)
	}
	return cell
}

func pair(summary *stats.Summary) (median, p99 string) {
	if summary == nil {
		return unmeasured, unmeasured
	}
	return results.Micros(summary.P50), results.Micros(summary.P99)
}
