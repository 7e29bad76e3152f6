// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// latencyRun is a run of which nothing but latency and losses are known.
func latencyRun(path, workload string, payload int, p50, p99 int64, lost int) *results.Run {
	return &results.Run{Path: path, Workload: workload, PayloadBytes: payload, CycleNs: 1_000_000, Counts: results.Counts{Lost: lost},
		Distributions: results.Distributions{Latency: &stats.Summary{P50: p50, P99: p99}, ClockError: results.OneClock(), CPUCores: map[string]float64{"ktsnd": 0.1}}}
}

func someFacts(t *testing.T) *Facts {
	t.Helper()
	facts, err := FactsOf(&results.Summary{Runs: []*results.Run{
		latencyRun("direct", "plain", 64, 4000, 50_000, 0), latencyRun("kernel-vxlan", "plain", 64, 16_000, 100_000, 0),
		latencyRun("direct", "plain", 256, 5000, 90_000, 0), latencyRun("kernel-vxlan", "plain", 256, 16_000, 100_000, 3),
		latencyRun("direct", "gates", 256, 5000, 20_000, 0), latencyRun("direct", "gates-saturated", 256, 5500, 29_000, 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestAssert(t *testing.T) {
	for expression, want := range map[string]struct {
		holds  bool
		detail string
	}{
		"direct.latency_ns.p50 <= 0.4 * kernel-vxlan.latency_ns.p50": {true, "64 B, 1000 µs: holds (direct.latency_ns.p50 4000, kernel-vxlan.latency_ns.p50 16000); 256 B"},
		"direct.latency_ns.p99 <= 0.6 * kernel-vxlan.latency_ns.p99": {false, "256 B, 1000 µs: does not hold (direct.latency_ns.p99 90000,"},
		"direct.lost == 0":       {true, "direct.lost 0"},
		"kernel-vxlan.lost == 0": {false, "64 B, 1000 µs: holds"},
		"payload_bytes != 64 or direct.latency_ns.p99 < 60000":                             {true, "256 B"},
		"direct.gates-saturated.latency_ns.p99 <= 1.5 * direct.gates.latency_ns.p99":       {true, "256 B, 1000 µs: holds (direct.gates-saturated.latency_ns.p99 29000"},
		"direct.cpu_cores.ktsnd < 0.15 && direct.latency_ns.p99 - direct.latency_ns.p50>0": {true, "direct.cpu_cores.ktsnd 0.1"},
	} {
		got, err := someFacts(t).Assert(expression)
		if err != nil || got.Holds != want.holds || !strings.Contains(got.Detail, want.detail) || got.Expression != expression {
			t.Errorf("%s: %+v, %v", expression, got, err)
		}
	}
	if got, _ := someFacts(t).Assert("direct.gates.lost == 0"); strings.Contains(got.Detail, "64 B") {
		t.Errorf("a payload at which it was not measured counts: %s", got.Detail)
	}
}

func TestAssertErrors(t *testing.T) {
	for expression, want := range map[string]string{
		"":                                  "an assertion is empty",
		"direct.latency_ns.p99 <=":          "is no expression: unexpected token EOF",
		"host.latency_ns.p99 < 5":           "host is not measured; there are cycle_ns, direct, kernel-vxlan, payload_bytes",
		"direct.latency.p99 < 5":            "direct has no latency; it has beside_frames, ",
		"direct.latency_ns.p98 < 5":         "direct.latency_ns has no p98; it has max, min, p50",
		"direct.departure_error_ns.p50 < 5": "direct.departure_error_ns was not measured",
		"direct.latency_ns < 5":             "direct.latency_ns is no number; it has max",
		"direct.lost.p99 < 5":               "direct.lost is a number and has no p99",
		"direct.saturated.lost == 0":        "direct has no saturated",
		"direct.lost + 1":                   "is a value and no condition",
		"direct.latency_ns.p99":             "is a value and no condition; compare it with something, such as direct.latency_ns.p99 <= 30000",
		"direct.latency_ns.p50 < 'fast'":    "cannot be evaluated",
	} {
		if got, err := someFacts(t).Assert(expression); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v; want %s", expression, got, err, want)
		}
	}
	if _, err := (&Facts{}).Assert("direct.lost == 0"); err == nil || !strings.Contains(err.Error(), "nothing was measured") {
		t.Errorf("got %v", err)
	}
}

func TestCompare(t *testing.T) {
	a, b, profile := t.TempDir(), t.TempDir(), short()
	other := profile
	other.Payloads, other.Paths = []int{64}, []string{"direct", "kernel-vxlan"}
	if err := measure(t.Context(), a, &profile, &fake{}); err != nil {
		t.Fatal(err)
	}
	if err := measure(t.Context(), b, &other, &fake{factor: 2}); err != nil {
		t.Fatal(err)
	}
	storeA, errA := ReadStore(a)
	storeB, errB := ReadStore(b)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	got, err := Compare(storeA, storeB)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Differences) != 2*2 || len(got.OnlyA) != 4 || len(got.OnlyB) != 0 || len(got.Unlike) != 1 {
		t.Fatalf("got %+v", got)
	}
	for i := range got.Differences {
		if d := &got.Differences[i]; d.Ratio < 1.99 || d.Ratio > 2.01 || !d.Clear() || d.A != int64(len(d.Path)*1000)+d.A%10 {
			t.Errorf("got %+v", d)
		}
	}
	for expression, holds := range map[string]bool{"b.direct.latency_ns.p50 <= 1.1 * a.direct.latency_ns.p50": false,
		"b.kernel-vxlan.latency_ns.p50 <= 2.1 * a.kernel-vxlan.latency_ns.p50": true} {
		if assertion, err := got.Facts.Assert(expression); err != nil || assertion.Holds != holds {
			t.Errorf("%s: %+v, %v", expression, assertion, err)
		}
	}
	same, err := Compare(storeA, storeA)
	if err != nil || len(same.Unlike) != 0 || same.Differences[0].Clear() {
		t.Errorf("a bench differs from itself: %+v, %v", same, err)
	}
}

func TestUnknownPaths(t *testing.T) {
	dir, profile := t.TempDir(), short()
	profile.IfPossible = []string{"flannel"}
	if err := measure(t.Context(), dir, &profile, &fake{}); err != nil {
		t.Fatal(err)
	}
	summary, _ := collected(t, dir)
	if len(summary.NotMeasured) != 1 || summary.NotMeasured[0].What != "path flannel" {
		t.Errorf("got %+v", summary.NotMeasured)
	}
}

func TestPreflight(t *testing.T) {
	profile, err := ParseProfile("p.yaml", []byte("paths: [direct, kernel-vxlan]\npayloads: [64, 256]\n"+
		"workloads: [plain, {name: gates, paths: [direct], payloads: [256]}]\n"), Namespaces)
	if err != nil {
		t.Fatal(err)
	}
	for expression, want := range map[string]string{
		"direct.latency_ns.p99 <= 0.6 * kernel-vxlan.latency_ns.p99": "",
		"direct.gates.latency_ns.p99 < 5 && payload_bytes == 256":    "",
		"direct.cpu_cores.ktsnd < 1 || direct.late > 3":              "",
		"direct.jitter_ns.abs_p99 < direct.port_ns.max":              "",
		"direct.sending_cores <= kernel-vxlan.sending_cores":         "",
		"direct.median_of_alternations.latency_ns.p50 < 5":           "",
		"dirct.lost == 0":                    `"dirct.lost == 0": dirct is not measured; there are cycle_ns, direct, kernel-vxlan, payload_bytes`,
		"direct.latency_ns.p5 < 3":           "direct.latency_ns has no p5; it has max, min, p50",
		"kernel-vxlan.gates.lost == 0":       "kernel-vxlan.gates was not measured",
		"direct.gates.sending_cores < 1":     "direct.gates has no sending_cores",
		"direct.lost.p50 == 0":               "direct.lost is a number and has no p50",
		"direct.lost == 0 && host.lost == 0": "host is not measured",
		"direct.lost ==":                     "is no expression",
		"direct.latency_ns.p99":              "is a value and no condition",
	} {
		err := Preflight(profile, expression)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and not %q", expression, err, want)
		}
	}
	countingOnly(t, &counting{})
	for expression, want := range map[string]string{
		`direct["count-3"].letters > host["count-1"].letters`: "",
		`direct["count-9"].letters > 0`:                       "direct has no count-9; it has count-1, count-3",
		"direct.lost == 0":                                    "direct has no lost; it has count-1, count-3",
	} {
		err := Preflight(countingOf(t), expression)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("of an experiment: %s: %v, and not %q", expression, err, want)
		}
	}
}
