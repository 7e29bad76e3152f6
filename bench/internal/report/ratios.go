// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// ratioTable compares runs with each other.
type ratioTable struct {
	Confidence string
	Rows       []ratioRow
}

type ratioRow struct {
	What, Figure, Payload string
	Value, Low, High      string
	// Clear: the range is on one side of 1.
	Clear bool
	// Doubt is why the latencies cannot be trusted.
	Doubt string
}

func newRatioTable(ratios []results.Ratio) *ratioTable {
	if len(ratios) == 0 {
		return nil
	}
	t := &ratioTable{Confidence: fmt.Sprintf("%.0f %%", ratios[0].Confidence*100)}
	for _, ratio := range ratios {
		what := fmt.Sprintf("%s ÷ %s, %s", ratio.Path, ratio.AgainstPath, ratio.Workload)
		if ratio.AgainstLoad != ratio.Workload {
			what = fmt.Sprintf("%s ÷ %s, %s", ratio.Workload, ratio.AgainstLoad, ratio.Path)
		}
		t.Rows = append(t.Rows, ratioRow{what, ratio.Figure, fmt.Sprintf("%d B, %s µs", ratio.PayloadBytes, micros(ratio.CycleNs)),
			decimals(ratio.Value), decimals(ratio.Low), decimals(ratio.High), ratio.Low > 1 || ratio.High < 1, ratio.Doubt})
	}
	return t
}

func decimals(value float64) string { return fmt.Sprintf("%.2f", value) }
