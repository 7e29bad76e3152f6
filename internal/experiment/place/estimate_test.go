// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math"
	"testing"
)

func TestAnEstimateHasTheStandardErrorOfTheMean(t *testing.T) {
	e := EstimateOf([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	if want := math.Sqrt(32.0/7) / math.Sqrt(8); e.Mean != 5 || math.Abs(e.Error-want) > 1e-12 || e.Count != 8 {
		t.Errorf("%+v, want an error of %v", e, want)
	}
	if one := EstimateOf([]float64{3}); one.Mean != 3 || one.Error != 0 || one.Text(1, 1) != "3.0" {
		t.Errorf("%+v", one)
	}
	if text := e.Text(1, 2); text != "5.00 ± 0.76" {
		t.Error(text)
	}
}

func TestEstimatesDifferOnlyWhereTheirErrorsShowIt(t *testing.T) {
	a, b := Estimate{Mean: 10, Error: 1, Count: 3}, Estimate{Mean: 14, Error: 1, Count: 3}
	if Differ(a, b) {
		t.Error("4 apart with errors of 1 each")
	}
	if b.Mean = 15; !Differ(a, b) {
		t.Error("5 apart with errors of 1 each")
	}
	if b.Count = 1; Differ(a, b) {
		t.Error("one repetition shows a difference")
	}
}
