// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestEstimateOf(t *testing.T) {
	e := EstimateOf([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	if want := math.Sqrt(32.0/7) / math.Sqrt(8); e.Mean != 5 || math.Abs(e.Error-want) > 1e-12 || e.Count != 8 {
		t.Errorf("%+v, want an error of %v", e, want)
	}
	if estimate := EstimateOf([]float64{3}); estimate.Mean != 3 || estimate.Error != 0 || estimate.Text(1, 1) != "3.0" {
		t.Errorf("%+v", estimate)
	}
	if text := e.Text(1, 2); text != "5.00 ± 0.76" {
		t.Error(text)
	}
}

func TestQuotientOf(t *testing.T) {
	a, b := Estimate{Mean: 10, Error: 1, Count: 3}, Estimate{Mean: 14, Error: 1, Count: 3}
	differ := func() bool { q, ok := QuotientOf(a, b); return ok && q.Differs() }
	if differ() {
		t.Error("4 apart with errors of 1 each")
	}
	if b.Mean = 16; !differ() {
		t.Error("6 apart with errors of 1 each")
	}
	if a.Count, b.Count = 2, 2; differ() {
		t.Error("two repetitions of each show what three hardly do")
	}
	a.Count, b.Count = 10, 10
	if b.Mean = 14; !differ() {
		t.Error("with ten repetitions the errors are no guess any more")
	}
	if b.Count = 1; differ() {
		t.Error("one repetition shows a difference")
	}
	if _, ok := QuotientOf(Estimate{Count: 3}, a); ok {
		t.Error("a quotient of nothing")
	}
	same := Estimate{Mean: 5, Count: 3}
	if q, ok := QuotientOf(same, same); !ok || q != (Quotient{1, 1, 1}) || q.Differs() {
		t.Errorf("%+v: equal figures without any error", q)
	}
}

// TestEqualFiguresSeldomDiffer is what a fixed number of standard errors fails with few repetitions: of two figures that are the
// same in truth, five of a hundred pairs may be said to differ.
func TestEqualFiguresSeldomDiffer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	measure := func(count int, deviation float64) Estimate {
		values := make([]float64, count)
		for i := range values {
			values[i] = 100 + deviation*random.NormFloat64()
		}
		return EstimateOf(values)
	}
	for _, counts := range [][2]int{{2, 2}, {3, 3}, {5, 5}, {4, 5}} {
		for _, deviations := range [][2]float64{{10, 10}, {10, 2}} {
			const pairs = 4000
			wrong, held := 0, 0
			for range pairs {
				q, ok := QuotientOf(measure(counts[0], deviations[0]), measure(counts[1], deviations[1]))
				if !ok {
					t.Fatal("no quotient")
				}
				if q.Differs() {
					wrong++
				}
				if q.Low <= 1 && 1 <= q.High {
					held++
				}
			}
			if wrong+held != pairs {
				t.Errorf("%d differ and %d hold 1, of %d", wrong, held, pairs)
			}
			if share := float64(wrong) / pairs; share > 0.075 {
				t.Errorf("%v repetitions with deviations of %v: %.3f are said to differ", counts, deviations, share)
			}
		}
	}
}
