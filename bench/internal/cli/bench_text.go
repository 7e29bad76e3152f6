// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

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
