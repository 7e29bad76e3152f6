// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// oscillator is a clock whose true error is known, and a servo like ptp4l's that keeps it by what it measures: a proportional and an
// integral part, over a path whose directions take different times.
type oscillator struct {
	random *rand.Rand
	// errorNs is the clock's error, ratePPB by how much it runs too fast without a correction, which wanders; correctionPPB what the
	// servo does about it.
	errorNs, ratePPB, correctionPPB, integral float64
	// delayNs of the path there and back, and by how much both vary.
	thereNs, backNs, noiseNs float64
	delays                   []float64
	offsetNs, pathDelayNs    float64
}

// second lets time pass: the clock runs, and its rate changes by some ppb, as with temperature.
func (o *oscillator) second() {
	o.ratePPB += o.random.NormFloat64() * 3
	o.errorNs += o.ratePPB + o.correctionPPB
}

// sync measures, and steers by what was measured.
func (o *oscillator) sync() {
	there := o.thereNs + math.Abs(o.random.NormFloat64())*o.noiseNs
	back := o.backNs + math.Abs(o.random.NormFloat64())*o.noiseNs
	const filter = 10 // ptp4l's delay_filter_length, a median
	o.delays = append(o.delays, (there+back)/2)
	if len(o.delays) > filter {
		o.delays = o.delays[1:]
	}
	o.pathDelayNs = median(o.delays)
	o.offsetNs = o.errorNs + there - o.pathDelayNs
	const proportional, integral = 0.7, 0.3
	o.integral -= integral * o.offsetNs
	o.correctionPPB = o.integral - proportional*o.offsetNs
}

func median(values []float64) float64 {
	sorted := append([]float64{}, values...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j] < sorted[j-1]; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	return sorted[len(sorted)/2]
}

// run lets a node be kept for some seconds, and tells each estimate beside the true error.
func (o *oscillator) run(v *virtual, seconds int, synchronized bool, each func(Estimate, float64)) {
	for range seconds {
		o.second()
		change := noSync
		if synchronized {
			o.sync()
			change = func(*observation) {}
		}
		e := v.look(change, func(seen *observation) {
			seen.ptp.Offset, seen.ptp.PathDelay = time.Duration(o.offsetNs), time.Duration(o.pathDelayNs)
			seen.ptp.Accuracy, seen.kernel.FrequencyPPB = 0xfe, o.correctionPPB
		})
		each(e, o.errorNs)
	}
}

func TestABoundIsNeverBelowTheTrueError(t *testing.T) {
	for name, test := range map[string]struct {
		oscillator
		upset func(*oscillator) // after five minutes
	}{
		"a quiet path":                          {oscillator{thereNs: 500, backNs: 500, noiseNs: 20, ratePPB: 12_000}, nil},
		"a path of software time stamps":        {oscillator{thereNs: 15_000, backNs: 20_000, noiseNs: 8000, ratePPB: -30_000}, nil},
		"a clock that begins 3 ms off":          {oscillator{thereNs: 15_000, backNs: 15_000, noiseNs: 3000, errorNs: 3e6, ratePPB: 100_000}, nil},
		"a path of one direction":               {oscillator{thereNs: 80_000, backNs: 1000, noiseNs: 500}, nil},
		"a direction that becomes longer":       {oscillator{thereNs: 20_000, backNs: 20_000, noiseNs: 2000}, func(o *oscillator) { o.thereNs += 5e6 }},
		"the other direction, that becomes so":  {oscillator{thereNs: 20_000, backNs: 20_000, noiseNs: 2000}, func(o *oscillator) { o.backNs += 5e6 }},
		"a clock that is pushed":                {oscillator{thereNs: 20_000, backNs: 20_000, noiseNs: 2000}, func(o *oscillator) { o.ratePPB += 40_000 }},
		"a direction that becomes shorter":      {oscillator{thereNs: 2e6, backNs: 2e6, noiseNs: 2000}, func(o *oscillator) { o.backNs = 1000 }},
		"a path with much noise, after silence": {oscillator{thereNs: 1000, backNs: 1000, noiseNs: 10}, func(o *oscillator) { o.noiseNs = 50_000 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var samples, wrong int
			for seed := range uint64(20) {
				o := test.oscillator
				o.random = rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a simulation
				v := newVirtual()
				v.next.ptp.Ports = []ptp4l.Port{{Number: 1, Interface: "eth0", State: ptp4l.Uncalibrated}}
				check := func(e Estimate, trueNs float64) {
					if e.Bound < 0 {
						return
					}
					samples++
					if float64(e.Bound) < math.Abs(trueNs) {
						wrong++
						if wrong < 4 {
							t.Errorf("seed %d, second %.0f: the error is %.0f ns, and its bound %v of %+v", seed, e.At.Sub(epoch).Seconds(), trueNs, e.Bound, e.Parts)
						}
					}
				}
				o.run(v, 300, true, check)
				if test.upset != nil {
					test.upset(&o)
					o.run(v, 300, true, check)
				}
				o.run(v, 60, false, check) // holdover
			}
			if wrong > 0 || samples < 1000 {
				t.Errorf("%d of %d bounds were wrong", wrong, samples)
			}
		})
	}
}
