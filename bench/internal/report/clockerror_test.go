// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// withClocks is a bench of three runs: by one clock, by two that are known, and by two of which one is not.
func withClocks(t *testing.T) *Measurement {
	t.Helper()
	measurement := generated(100, []string{results.PathTSN, results.PathPrimary, results.PathHost}, []int{64}, false)
	talker, listener := int64(1500), int64(2500)
	known, unknown := results.ClockErrorOf(&talker, &listener), results.ClockErrorOf(&talker, nil)
	unknown.Doubt = "the error of the clock of node b is not known"
	measurement.Summary.Runs[1].ClockError, measurement.Summary.Runs[2].ClockError = known, unknown
	measurement.Summary.Profile = &results.ProfileSummary{Name: "mine", Target: clusterTarget, BudgetNs: 400_000}
	measurement.Summary.Figures = []results.Figure{{Name: "latency p50, tsn / primary", Unit: results.UnitRatio, Limit: 0.5,
		Values: map[string]float64{"64": 0.4}, NotJudged: "64 B: " + unknown.Doubt}}
	measurement.Summary.Ratios = []results.Ratio{{Figure: "latency_ns.p50", Path: results.PathTSN, Workload: results.WorkloadPlain,
		AgainstPath: results.PathHost, AgainstLoad: results.WorkloadPlain, PayloadBytes: 64, CycleNs: 1_000_000, Value: 0.5, Low: 0.4, High: 0.6,
		Confidence: 0.95, Doubt: unknown.Doubt}}
	return measurement
}

func TestPageShowsClockError(t *testing.T) {
	measurement := withClocks(t)
	page := rendered(t, measurement)
	for what, want := range map[string]string{
		"one clock":              `<td data-exact="0">0</td>`,
		"two clocks":             `<td data-exact="4000">4.00</td>`,
		"unknown ones":           `<td class="bad">?</td>`,
		"a limit":                `<td class="verdict ">not judged: 64 B: the error of the clock of node b is not known</td>`,
		"a ratio":                `<td>not judged: the error of the clock of node b is not known</td>`,
		"the budget":             "<td>not judged</td><td>not judged</td>",
		"the count of limits":    "; 1 not judged",
		"what the figure means":  "<dt>± clocks</dt>",
		"the column of its own":  `<th scope="col">± clocks</th>`,
		"nothing of what counts": "0 <span>of 1</span>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s: there is no %s", what, want)
		}
	}
	text := tabled(t, measurement.Summary)
	for _, want := range []string{
		" | max | ± clocks | jitter p50 |",
		"| latency p50, tsn / primary | 0.50 | 64 B: 0.40 | not judged: 64 B: the error of the clock of node b is not known |\n",
		"| 0.50 | 0.40 | 0.60 | not judged: the error of the clock of node b is not known |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	for path, want := range map[string]string{results.PathTSN: " | 0 | ", results.PathPrimary: " | 4.00 | ", results.PathHost: " | ? | "} {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "| plain | "+path+" | 64 | 1000 | ") && strings.Count(line, " | ") > 12 && !strings.Contains(line, want) {
				t.Errorf("%s has no%s: %s", path, want, line)
			}
		}
	}
}

func TestFiguresIncludeClockError(t *testing.T) {
	rows := map[string]string{}
	for _, row := range figureRows(withClocks(t).Summary) {
		if strings.HasPrefix(row[5], "clock_error_ns.") && row[4] == "0" {
			rows[row[0]+" "+row[5]] = row[6]
		}
	}
	for name, want := range map[string]string{"tsn clock_error_ns.combined": "0", "primary clock_error_ns.talker": "1500",
		"primary clock_error_ns.listener": "2500", "primary clock_error_ns.combined": "4000", "host clock_error_ns.talker": "1500",
		"host clock_error_ns.combined": ""} {
		if rows[name] != want {
			t.Errorf("%s is %q, want %q", name, rows[name], want)
		}
	}
}
