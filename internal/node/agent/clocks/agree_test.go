// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
)

// lostIn tells whether ktsnd takes the network's clock for lost so long after it was told of the clock: its rule, is_lost() in
// datapath/daemon/node/clocks.c.
func (k *fakeKtsnd) lostIn(vni uint32, age time.Duration) bool {
	need, quality := k.networks[vni], k.clock
	bound := quality.ErrorBoundNs + int64(age.Seconds()*float64(quality.DriftPPB)) + 1
	return !need.Good || quality.ErrorBoundNs < 0 || bound > need.MaxErrorNs
}

// agreement shows the agent estimates of such a bound for an hour, one in 1 to 1.8 s, and ktsnd what follows. It returns how many were good, and
// how often ktsnd was told of the clock.
func simulate(t *testing.T, maxError time.Duration, driftPPB int64, bound func(second int) time.Duration) (good, tellings int) {
	t.Helper()
	l := newLab(t, newNetwork("tsn", 42, maxError.String()))
	l.NewJudge = NewJudge
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	var toldAt time.Time
	for second := range 3600 {
		pause := time.Second
		if second%10 == 9 { // ptp4l did not answer at once
			pause += time.Duration(random.Int64N(int64(800 * time.Millisecond)))
		}
		if condition, known := l.Network("tsn"); known && condition.Status == "True" && l.ktsnd.lostIn(42, l.now.Add(pause).Sub(toldAt)) {
			t.Fatalf("in second %d ktsnd takes a clock for lost of which the agent says %s: it was told %+v, %v ago", second, condition.Reason,
				l.ktsnd.clock, l.now.Add(pause).Sub(toldAt))
		}
		before := l.ktsnd.clock
		l.ktsnd.clock.ErrorBoundNs = -1000 // which nobody tells
		l.estimate(pause, clock.Estimate{Source: clock.PTP, Bound: bound(second), DriftPPB: driftPPB})
		if l.ktsnd.clock.ErrorBoundNs != -1000 {
			toldAt, tellings = l.now, tellings+1
		} else {
			l.ktsnd.clock = before
		}
		equal, known := l.Network("tsn")
		if !known {
			continue
		}
		if equal.Status == "True" {
			good++
		}
		if lost := l.ktsnd.lostIn(42, l.now.Sub(toldAt)); lost == (equal.Status == "True") {
			t.Fatalf("in second %d the agent says %s %s, and to ktsnd, which was told %+v, the clock is lost: %v", second, equal.Status, equal.Reason,
				l.ktsnd.clock, lost)
		}
	}
	return good, tellings
}

func TestKtsndAgreesOnGoodClock(t *testing.T) {
	for _, maxError := range []time.Duration{10 * time.Microsecond, time.Millisecond} {
		for _, driftPPB := range []int64{200, 1000, 10200, 20000} {
			for percent := 50; percent <= 100; percent += 11 {
				t.Run(fmt.Sprintf("%d %% of %v, %d ppb", percent, maxError, driftPPB), func(t *testing.T) {
					bound := maxError * time.Duration(min(percent, 99)) / 100
					good, tellings := simulate(t, maxError, driftPPB, func(int) time.Duration { return bound })
					soon := bound + 2*time.Duration(driftPPB)
					if believed := good > 3500; believed != (soon <= maxError*8/10) {
						t.Errorf("with an error of %v in 2 s it is good in %d estimates", soon, good)
					}
					if room := maxError - bound; room > time.Duration(20*driftPPB) && tellings > 1200 {
						t.Errorf("far from the limit ktsnd is told %d times in an hour", tellings)
					}
				})
			}
		}
	}
}

func TestKtsndAgreesOnDegradingClock(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same each time
	for sentence, bound := range map[string]func(second int) time.Duration{
		"slowly":           func(second int) time.Duration { return 5000 + time.Duration(second*2) },
		"and better again": func(second int) time.Duration { return 5000 + time.Duration(second%100)*80 },
		"at once":          func(second int) time.Duration { return 5000 + time.Duration(second/1800)*6000 },
		"by chance":        func(int) time.Duration { return 5000 + time.Duration(random.Int64N(6000)) },
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, driftPPB := range []int64{200, 1000} {
				if good, _ := simulate(t, 10*time.Microsecond, driftPPB, bound); good == 0 || good == 3600 {
					t.Errorf("with %d ppb it is good in %d estimates", driftPPB, good)
				}
			}
		})
	}
}
