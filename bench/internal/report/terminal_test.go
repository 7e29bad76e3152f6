// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

func TestPrintFigures(t *testing.T) {
	whole := results.Figure{Name: "lost", Unit: results.UnitMessages, Limit: 0, Values: map[string]float64{results.Independent: 3}}
	byPayload := results.Figure{Name: "launch error", Unit: results.UnitNs, Limit: 5000, Values: map[string]float64{"64": 4000, "256": 4500}, Reached: true}
	undecided := results.Figure{Name: "latency", Unit: results.UnitRatio, Limit: 1, Values: map[string]float64{"64": 0.9}, NotJudged: "64 B: no clock"}
	for name, test := range map[string]struct {
		figures []results.Figure
		want    []string
	}{
		"nothing to reach": {nil, nil},
		"one value each":   {[]results.Figure{whole}, []string{"Figures (at most; medians) limit", "lost 0 3 not reached", ""}},
		"by payload": {[]results.Figure{byPayload, whole}, []string{"Figures (at most; medians) limit 64 B 256 B",
			"launch error 5.00 µs 4.00 µs 4.50 µs reached", "lost 0 3 not reached", ""}},
		"one that clocks leave open": {[]results.Figure{undecided}, []string{"Figures (at most; medians) limit 64 B",
			"latency 1.00 0.90 not judged", "not judged: latency: 64 B: no clock", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := PrintFigures(&out, test.figures); err != nil {
				t.Fatal(err)
			}
			var want string
			for _, line := range test.want {
				want += line + "\n"
			}
			var got strings.Builder
			for line := range strings.Lines(out.String()) {
				got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
			}
			if got.String() != want {
				t.Errorf("got\n%swant\n%s", got.String(), want)
			}
		})
	}
}
