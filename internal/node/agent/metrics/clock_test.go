// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestClockMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := New(registry)
	testlab.Must(t, err)
	if got := testutil.ToFloat64(m.bound); !math.IsInf(got, 1) {
		t.Errorf("before anybody looked the bound is %v", got)
	}
	const head = "# HELP ktsn_clock_grandmaster Always 1; who keeps the clock, and by which reference.\n# TYPE ktsn_clock_grandmaster gauge\n"
	for _, step := range []struct {
		sentence    string
		estimate    *clock.Estimate
		state       clock.State
		bound       float64
		steps       float64
		faults      int
		grandmaster string
	}{
		{"it is kept", &clock.Estimate{Source: clock.PTP, Grandmaster: "gm1", Bound: 850, Offset: -100, Steps: 2}, clock.Synchronized, 850e-9, 2, 0,
			`ktsn_clock_grandmaster{grandmaster="gm1",source="PTP"} 1`},
		{"another keeps it", &clock.Estimate{Source: clock.NTP, Grandmaster: "ntp", Bound: 2e6, Steps: 2, Faults: []clock.Fault{{Reason: "TwoClockMasters"}}},
			clock.Unsynchronized, 2e-3, 2, 1, `ktsn_clock_grandmaster{grandmaster="ntp",source="NTP"} 1`},
		{"the watch counts from the beginning", &clock.Estimate{Source: clock.NTP, Grandmaster: "ntp", Bound: -1, Steps: 1}, clock.Unknown, math.Inf(1), 3, 0,
			`ktsn_clock_grandmaster{grandmaster="ntp",source="NTP"} 1`},
		{"nobody says anything", nil, clock.Unknown, math.Inf(1), 3, 0, `ktsn_clock_grandmaster{grandmaster="",source="None"} 1`},
	} {
		m.Clock(step.estimate, step.state)
		if got := testutil.ToFloat64(m.bound); got != step.bound {
			t.Errorf("%s: the bound is %v", step.sentence, got)
		}
		if got := testutil.ToFloat64(m.steps); got != step.steps {
			t.Errorf("%s: %v steps", step.sentence, got)
		}
		if got := testutil.CollectAndCount(m.faults); got != step.faults {
			t.Errorf("%s: %d faults", step.sentence, got)
		}
		for _, state := range []clock.State{clock.Synchronized, clock.Holdover, clock.Unsynchronized, clock.Unknown} {
			if got := testutil.ToFloat64(m.state.WithLabelValues(string(state))); (got == 1) != (state == step.state) {
				t.Errorf("%s: %s is %v", step.sentence, state, got)
			}
		}
		expect(t, registry, "ktsn_clock_grandmaster", head+step.grandmaster+"\n")
	}
}
