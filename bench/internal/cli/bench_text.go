// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/report"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// warner names the source of the warnings.
func warner(summary *results.Summary) string {
	if summary.Profile.Target == engine.Cluster.Name {
		return ""
	}
	return "ktsnd says: "
}

// printUsage prints the usage of nodes and pods.
func printUsage(out io.Writer, usage []results.Usage) {
	if len(usage) == 0 {
		return
	}
	fmt.Fprintln(out, "Nodes and pods meanwhile, as their kubelets counted")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, process := range usage {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%.3f cores\t%.1f MiB\n", process.Node, process.Pod, process.Container, process.Cores, float64(process.MemoryBytes)/(1<<20))
	}
	_ = table.Flush() // the terminal may be gone
	fmt.Fprintln(out)
}

// printBench prints the figures over all messages, the ratios, and the assertions.
func printBench(out io.Writer, summary *results.Summary) error {
	fmt.Fprintf(out, "%s, %d cores, Linux %s: profile %s, %d of %d runs\n\n", summary.Host.CPUModel, summary.Host.Cores,
		summary.Host.Kernel, cmp.Or(summary.Profile.Name, "without a name"), summary.Profile.Done, summary.Profile.Runs)
	printSections(out, summary)
	if len(summary.Runs) > 0 {
		if err := printRuns(out, summary); err != nil {
			return err
		}
	}
	printRatios(out, summary.Ratios)
	if err := report.PrintFigures(out, summary.Figures); err != nil {
		return err
	}
	printUsage(out, summary.Usage)
	for _, gap := range summary.NotMeasured {
		fmt.Fprintf(out, "not measured: %s: %s\n", gap.What, gap.Why)
	}
	if summary.Emulated != "" {
		fmt.Fprintf(out, "EMULATED: %s\n", summary.Emulated)
	}
	for _, warning := range summary.Warnings {
		fmt.Fprintf(out, "WARNING: %s%s\n", warner(summary), warning)
	}
	for _, problem := range summary.Problems {
		fmt.Fprintf(out, "PROBLEM: %s\n", problem)
	}
	printAssertions(out, summary.Assertions)
	return nil
}

// printSections prints an experiment's results.
func printSections(out io.Writer, summary *results.Summary) {
	for _, section := range summary.Sections {
		fmt.Fprintln(out, section.Title)
		for _, table := range section.Tables {
			fmt.Fprintf(out, "\n  %s\n", table.Title)
			columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, row := range append([][]string{table.Head}, table.Rows...) {
				fmt.Fprintf(columns, "  %s\t\n", strings.Join(row, "\t"))
			}
			_ = columns.Flush() // the terminal may be gone
		}
		for _, remark := range section.Remarks {
			fmt.Fprintf(out, "\n  %s\n", remark)
		}
		fmt.Fprintln(out)
	}
}

func printRuns(out io.Writer, summary *results.Summary) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "latency, µs\tB\tcycle\tp50\tp90\tp99\tp99.9\tmax\t± clocks\tjitter p50\tp99\tlost\tearly\tlate\tcores\tktsnd\t")
	for _, run := range summary.Runs {
		fmt.Fprintf(table, "%s %s\t%d\t%s\t%s", run.Workload, run.Path, run.PayloadBytes, results.Micros(run.CycleNs), latencyText(run))
		fmt.Fprintf(table, "\t%d\t%d\t%s\t%s\t%s\t\n", run.Lost, run.Early, lateText(run), sendingText(run), ktsndText(run))
	}
	return table.Flush()
}

func latencyText(run *results.Run) string {
	latency, jitter := run.Latency, run.Jitter
	text := "-\t-\t-\t-\t-\t-"
	if latency != nil {
		text = fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", results.Micros(latency.P50), results.Micros(latency.P90), results.Micros(latency.P99),
			results.Micros(latency.P99_9), results.Micros(latency.Max), run.ClockError.Text())
	}
	if jitter == nil {
		return text + "\t-\t-"
	}
	return text + "\t" + results.Micros(jitter.AbsP50) + "\t" + results.Micros(jitter.AbsP99)
}

func lateText(run *results.Run) string {
	if run.Late == nil {
		return "-"
	}
	return strconv.FormatUint(*run.Late, 10)
}

// sendingText formats the processor time of the whole sending side.
func sendingText(run *results.Run) string {
	if run.SendingCores != nil {
		return fmt.Sprintf("%.3f", *run.SendingCores)
	}
	return "-"
}

func ktsndText(run *results.Run) string {
	if share, ok := run.CPUCores["ktsnd"]; ok {
		return fmt.Sprintf("%.3f", share)
	}
	return "-"
}

func printRatios(out io.Writer, ratios []results.Ratio) {
	if len(ratios) == 0 {
		fmt.Fprintln(out)
		return
	}
	fmt.Fprintf(out, "\nRatios, and the range of each with a confidence of %.0f %%\n", ratios[0].Confidence*100)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, ratio := range ratios {
		what := fmt.Sprintf("%s ÷ %s, %s", ratio.Path, ratio.AgainstPath, ratio.Workload)
		if ratio.Workload != ratio.AgainstLoad {
			what = fmt.Sprintf("%s ÷ %s, %s", ratio.Workload, ratio.AgainstLoad, ratio.Path)
		}
		verdict := ""
		if ratio.Doubt != "" {
			verdict = "not judged (clocks)"
		}
		fmt.Fprintf(table, "  %s\t%s\t%d B\t%.2f\t%.2f to %.2f\t%s\n", what, ratio.Figure, ratio.PayloadBytes, ratio.Value, ratio.Low, ratio.High, verdict)
	}
	_ = table.Flush() // the terminal may be gone
	fmt.Fprintln(out)
}

func printAssertions(out io.Writer, assertions []results.Assertion) {
	for _, assertion := range assertions {
		verdict := "holds"
		if !assertion.Holds {
			verdict = "DOES NOT HOLD"
		}
		fmt.Fprintf(out, "%s: %s (%s)\n", verdict, assertion.Expression, assertion.Detail)
	}
}

// printComparison prints the common results of two benches, and other differences.
func printComparison(out io.Writer, comparison *engine.Comparison) error {
	for _, difference := range comparison.Unlike {
		fmt.Fprintf(out, "note: %s\n", difference)
	}
	defer printOnly(out, comparison)
	if len(comparison.Cases) > 0 {
		return printCases(out, comparison.Cases)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tB\tcycle, µs\tfigure\tA, µs\tB, µs\tB ÷ A\trange\t")
	for i := range comparison.Differences {
		d := &comparison.Differences[i]
		verdict := verdictOf(d.Clear(), d.Ratio)
		if why := differenceDoubt(d); why != "" {
			verdict = why
		}
		fmt.Fprintf(table, "%s %s\t%d\t%s\t%s\t%s\t%s\t%.2f\t%.2f to %.2f\t%s\n", d.Workload, d.Path, d.PayloadBytes,
			results.Micros(d.CycleNs), d.Figure, results.Micros(d.A), results.Micros(d.B), d.Ratio, d.Low, d.High, verdict)
	}
	return table.Flush()
}

// differenceDoubt returns why a difference may be the clocks', "" if it is not.
func differenceDoubt(d *engine.Difference) string {
	switch {
	case d.Doubt != "":
		return "not judged: " + d.Doubt
	case d.Clocks():
		return fmt.Sprintf("no difference shown: the clocks alone can make %s µs", results.Micros(d.ClockErrorNs))
	}
	return ""
}

func verdictOf(shown bool, ratio float64) string {
	switch {
	case shown && ratio < 1:
		return "B is lower"
	case shown:
		return "B is higher"
	}
	return "no difference shown"
}

// printCases prints the common results of two benches of an experiment.
func printCases(out io.Writer, differences []engine.CaseDifference) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "path\tcase\tfigure\tA\tB\tB ÷ A\trange\t")
	for i := range differences {
		d := &differences[i]
		digits := 0
		if max(d.A.Mean, d.B.Mean) < 100 {
			digits = 4
		}
		ratio, verdict := "-\t-", "one run each, or 0"
		if d.Known {
			ratio = fmt.Sprintf("%.2f\t%.2f to %.2f", d.Quotient.Value, d.Quotient.Low, d.Quotient.High)
			verdict = verdictOf(d.Quotient.Differs(), d.Quotient.Value)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Path, d.Case, d.Figure, d.A.Text(1, digits), d.B.Text(1, digits), ratio, verdict)
	}
	return table.Flush()
}

// printOnly prints the results of only one of two benches.
func printOnly(out io.Writer, comparison *engine.Comparison) {
	for _, key := range comparison.OnlyA {
		fmt.Fprintf(out, "only in A: %s\n", key)
	}
	for _, key := range comparison.OnlyB {
		fmt.Fprintf(out, "only in B: %s\n", key)
	}
}
