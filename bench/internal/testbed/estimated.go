// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Estimated returns the estimate of a value over the repetitions of a case; false if it was not measured.
func Estimated(measured []engine.Measured, path, name, value string) (inference.Estimate, bool) {
	var values []float64
	for _, measurement := range measured {
		if measurement.Case.Path != path || measurement.Case.Name != name {
			continue
		}
		if number, ok := measurement.Values[value]; ok {
			values = append(values, number)
		}
	}
	return inference.EstimateOf(values), len(values) > 0
}

// Confidence is the confidence of ranges, for texts.
var Confidence = fmt.Sprintf("%.0f %%", 100*inference.EstimateConfidence)

// Comparison is a value of one case or path divided by the same of another.
type Comparison struct {
	// The description and the value in the table.
	What, Value       string
	Path, AgainstPath string
	Case, AgainstCase string
}

// Compare returns a table with the range of each ratio. Comparisons without several repetitions of both are left out,
// because nothing is known of their errors.
func Compare(measured []engine.Measured, all []Comparison) results.SectionTable {
	table := results.SectionTable{ID: "ratios", Title: "Ratios, and between which values each lies with " + Confidence, Head: []string{"ratio", "value", "from", "to", ""}}
	for _, c := range all {
		estimate, _ := Estimated(measured, c.Path, c.Case, c.Value)
		other, _ := Estimated(measured, c.AgainstPath, c.AgainstCase, c.Value)
		ratio, known := inference.QuotientOf(estimate, other)
		if !known {
			continue
		}
		verdict := ""
		if !ratio.Differs() {
			verdict = "no difference shown"
		}
		table.Rows = append(table.Rows, []string{c.What, fmt.Sprintf("%.2f", ratio.Value), fmt.Sprintf("%.2f", ratio.Low), fmt.Sprintf("%.2f", ratio.High), verdict})
	}
	return table
}

// ComparePaths compares a value of a case over each path with that over the paths before it.
func ComparePaths(what, name, value string, paths []string) []Comparison {
	var all []Comparison
	for i, path := range paths {
		for _, other := range paths[:i] {
			all = append(all, Comparison{What: what + ": " + path + " ÷ " + other, Value: value, Path: path, AgainstPath: other, Case: name, AgainstCase: name})
		}
	}
	return all
}
