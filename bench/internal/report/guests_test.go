// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

func TestPageMentionsEmulation(t *testing.T) {
	measurement := generated(500, []string{"direct", "guest-tap"}, []int{256}, false)
	summary := measurement.Summary
	summary.Emulated = "Their processors are emulated."
	bound, other := int64(180_000), int64(2000)
	for _, run := range summary.Runs {
		if results.InGuest(run.Path) {
			run.RequestError = &stats.Jitter{Summary: stats.Summary{Min: -90_125, P50: 12_375, P99: 80_000}, AbsP99: 90_125}
			run.ClockError = results.ClockErrorOf(&bound, &other)
		}
	}
	summary.Profile = &results.ProfileSummary{BudgetNs: 400_000, MoreBudgetsNs: []int64{1_000_000}}
	page := rendered(t, measurement)
	for _, want := range []string{"<b>Emulated</b> Their processors are emulated.", "request p50", "12.4", "−90.1", "means over 400 µs", "means over 1000 µs",
		"budgets of 400 and 1000 µs", "emulated virtual machine a, a tap"} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "1000", "1,000")) {
			t.Errorf("the page does not have %q", want)
		}
	}
	tables := tabled(t, summary)
	for _, want := range []string{"- Emulated: Their processors are emulated.", "Between virtual machines", "180"} {
		if !strings.Contains(tables, want) {
			t.Errorf("the tables do not have %q", want)
		}
	}
}
