// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// TestLogarithmicAxesWithoutPositiveValues covers benches that were interrupted before any measurement, and zero usage.
func TestLogarithmicAxesWithoutPositiveValues(t *testing.T) {
	for name, lines := range map[string][]results.Line{
		"no line":           nil,
		"no point":          {{Name: "a"}},
		"a value of zero":   {{Name: "a", Points: []results.Point{{X: 1, Y: 0}, {X: 10, Y: 0.5}}}},
		"a range from zero": {{Name: "a", Points: []results.Point{{X: 1, Y: 2, Low: 0, High: 4}, {X: 10, Y: 5}}}},
		"zeros only":        {{Name: "a", Points: []results.Point{{X: 0, Y: 0}}}},
	} {
		t.Run(name, func(t *testing.T) {
			chart := &results.Chart{ID: "x", Title: "x", XAxis: "flows", YAxis: "cores", LogX: true, LogY: true, Lines: lines}
			drawn, err := drawChart(chart)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := drawn.inline(); err != nil {
				t.Error(err)
			}
		})
	}
}
