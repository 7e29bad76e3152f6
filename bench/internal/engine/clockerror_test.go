// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// clocksOf are two clocks that may be wrong by so much together.
func clocksOf(combinedNs int64) *results.ClockError {
	talker, listener := combinedNs/2, combinedNs-combinedNs/2
	return results.ClockErrorOf(&talker, &listener)
}

// doubted is what was measured with two clocks of which nobody knows how wrong they are.
func doubted(anyClock bool) *results.ClockError {
	e := results.ClockErrorOf(nil, nil)
	e.Doubt, e.AnyClock = "the error of the clock of node b is not known", anyClock
	return e
}

// clusterRun has latencies of a path of a cluster, by clocks with this error.
func clusterRun(path string, latencyNs int64, clock *results.ClockError) *results.Run {
	run := sampleRun(path, 64, latencyNs)
	run.ClockError, run.MedianOfAlternations.ClockError = clock, clock
	run.Latency = run.MedianOfAlternations.Latency
	return run
}

func TestLatencyLimitWithClockError(t *testing.T) {
	const name = "latency p50, tsn / primary" // at most 0.5
	for what, test := range map[string]struct {
		tsn, primary        int64
		clockError, against *results.ClockError
		verdict, why        string
	}{
		"one clock":                         {4900, 10_000, results.OneClock(), results.OneClock(), "reached", ""},
		"one clock, exactly the limit":      {5000, 10_000, results.OneClock(), results.OneClock(), "reached", ""},
		"one clock, over the limit":         {5001, 10_000, results.OneClock(), results.OneClock(), "not reached", ""},
		"clocks too good to matter":         {4900, 10_000, clocksOf(20), clocksOf(20), "reached", ""},
		"clocks that decide":                {4900, 10_000, clocksOf(200), clocksOf(200), "not judged", "64 B: the clocks may be wrong by 0.20 µs, so that the ratio is anything from 0.46 to 0.52"},
		"clocks that decide, beyond":        {5100, 10_000, clocksOf(200), clocksOf(20), "not judged", "the ratio is anything from 0.49 to 0.53"},
		"beyond whatever the clocks do":     {9000, 10_000, clocksOf(200), clocksOf(200), "not reached", ""},
		"nobody knows":                      {1000, 10_000, doubted(false), results.OneClock(), "not judged", "64 B: the error of the clock of node b is not known"},
		"nobody knows, and it was wanted":   {1000, 10_000, results.OneClock(), doubted(true), "not judged", "64 B: the error of the clock of node b is not known"},
		"nobody wrote anything":             {1000, 10_000, nil, nil, "not judged", "64 B: nothing is known of the error of its clocks"},
		"clocks worse than the denominator": {1000, 10_000, clocksOf(100), clocksOf(10_000), "not judged", "the clocks may be wrong by 10.0 µs, which is more than the latency to divide by"},
	} {
		t.Run(what, func(t *testing.T) {
			runs := []*results.Run{clusterRun(results.PathTSN, test.tsn, test.clockError), clusterRun(results.PathPrimary, test.primary, test.against)}
			for _, figure := range figures(runs, nil) {
				if figure.Name != name {
					continue
				}
				if figure.Verdict() != test.verdict || !strings.Contains(figure.NotJudged, test.why) || (test.why == "") != (figure.NotJudged == "") {
					t.Errorf("%s, because %q; want %s, because %q", figure.Verdict(), figure.NotJudged, test.verdict, test.why)
				}
				return
			}
			t.Error("there is no such figure")
		})
	}
}

func TestOneClockLimitsIgnoreClockError(t *testing.T) {
	runs := []*results.Run{clusterRun(results.PathTSN, 1000, doubted(false)), clusterRun(results.PathPrimary, 1000, doubted(false))}
	judged := map[string]string{}
	for _, figure := range figures(runs, nil) {
		judged[figure.Name] = figure.Verdict()
	}
	if judged["lost"] != "reached" || judged["early at the listener"] != "reached" {
		t.Errorf("judged %v", judged)
	}
}

func TestCertainMissDecides(t *testing.T) {
	certain := []*results.Run{clusterRun(results.PathTSN, 9000, results.OneClock()), clusterRun(results.PathPrimary, 10_000, results.OneClock())}
	for _, run := range certain {
		run.PayloadBytes = 256
	}
	runs := append(certain, clusterRun(results.PathTSN, 1000, doubted(false)), clusterRun(results.PathPrimary, 10_000, doubted(false)))
	for _, figure := range figures(runs, nil) {
		if strings.HasPrefix(figure.Name, "latency") && figure.Verdict() != "not reached" {
			t.Errorf("%s is %s: %s", figure.Name, figure.Verdict(), figure.NotJudged)
		}
	}
}

func TestAssertionsOnUntrustedLatenciesFail(t *testing.T) {
	for name, test := range map[string]struct {
		clock      *results.ClockError
		expression string
		holds      bool
		detail     string
	}{
		"one clock":            {results.OneClock(), "tsn.latency_ns.p50 < 2000", true, "tsn.latency_ns.p50 1000"},
		"nobody knows":         {doubted(false), "tsn.latency_ns.p50 < 2000", false, "64 B, 0.00 µs: not judged: tsn.latency_ns: the error of the clock of node b is not known"},
		"medians are the same": {doubted(false), "tsn.median_of_alternations.latency_ns.p50 < 2000", false, "not judged: tsn.median_of_alternations.latency_ns"},
		"it was wanted":        {doubted(true), "tsn.latency_ns.p50 < 2000", true, "tsn.latency_ns.p50 1000"},
		"no latency":           {doubted(false), "tsn.lost == 0", true, "tsn.lost 0"},
		"the error itself":     {clocksOf(300), "tsn.clock_error_ns.combined <= 0.5 * tsn.latency_ns.p50 && !tsn.clock_error_ns.same_clock", true, "tsn.clock_error_ns.combined 300"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, err := FactsOf(&results.Summary{Runs: []*results.Run{clusterRun(results.PathTSN, 1000, test.clock)}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := facts.Assert(test.expression)
			if err != nil || got.Holds != test.holds || !strings.Contains(got.Detail, test.detail) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestRangesIncludeClockError(t *testing.T) {
	low, high := widened(0.4, 0.6, 5000, 10_000, results.OneClock(), results.OneClock())
	if low != 0.4 || high != 0.6 {
		t.Errorf("of one clock %v to %v", low, high)
	}
	low, high = widened(0.4, 0.6, 5000, 10_000, clocksOf(500), clocksOf(500))
	if low > 0.4*0.9/1.05+1e-9 || low < 0.342 || high < 0.6*1.1/0.95-1e-9 || high > 0.695 {
		t.Errorf("of two clocks %v to %v", low, high)
	}
	if low, _ := widened(0.4, 0.6, 5000, 10_000, clocksOf(9000), clocksOf(500)); low != 0 {
		t.Errorf("a latency that may be nothing gives %v at least", low)
	}
}

// folder measures a bench whose clocks have this error.
func folder(t *testing.T, factor int64, clock *results.ClockError) *Store {
	t.Helper()
	dir, profile := t.TempDir(), short()
	if err := measure(t.Context(), dir, &profile, &fake{factor: factor, clock: clock}); err != nil {
		t.Fatal(err)
	}
	store, err := ReadStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestCompareWithClockError(t *testing.T) {
	for name, test := range map[string]struct {
		a, b          *results.ClockError
		clear, clocks bool
		doubt         string
	}{
		"one clock":                 {results.OneClock(), results.OneClock(), true, false, ""},
		"clocks that matter little": {clocksOf(10), clocksOf(10), true, false, ""},
		"clocks that matter":        {clocksOf(5000), clocksOf(5000), false, true, ""},
		"unknown ones":              {results.OneClock(), doubted(false), false, false, "the error of the clock of node b is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Compare(folder(t, 1, test.a), folder(t, 2, test.b))
			if err != nil || len(got.Differences) == 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			d := got.Differences[0] // path direct: 6 and 12 µs
			if d.Clear() != test.clear || d.Clocks() != test.clocks || d.Doubt != test.doubt {
				t.Errorf("%+v: clear %v, clocks %v", d, d.Clear(), d.Clocks())
			}
		})
	}
}

func TestClockErrorIsStored(t *testing.T) {
	summary, _, err := Collect(folder(t, 1, clocksOf(40)))
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range summary.Runs {
		for _, clockError := range []*results.ClockError{run.ClockError, run.MedianOfAlternations.ClockError, run.Alternations[0].ClockError} {
			if clockError.CombinedNs() != 40 || clockError.SameClock {
				t.Errorf("%s: %+v", run.Key(), clockError)
			}
		}
	}
	if len(summary.Warnings) != 0 {
		t.Errorf("warned of %q", summary.Warnings)
	}
	summary, _, err = Collect(folder(t, 1, doubted(false)))
	if err != nil {
		t.Fatal(err)
	}
	want := "the latencies of direct, 64 B, plain and 5 more cannot be trusted: the error of the clock of node b is not known"
	if len(summary.Warnings) != 1 || summary.Warnings[0] != want {
		t.Errorf("warned of %q", summary.Warnings)
	}
	for _, ratio := range summary.Ratios {
		if ratio.Doubt == "" {
			t.Errorf("%+v is not doubted", ratio)
		}
	}
}
