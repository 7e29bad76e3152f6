// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"math"

	"github.com/kubernetsn/kubernetsn/internal/bench"
)

// Estimate is a figure over repetitions.
type Estimate struct {
	Mean float64
	// Error is the standard error of the mean, 0 with less than two repetitions.
	Error float64
	Count int
}

// EstimateOf is over some values.
func EstimateOf(values []float64) Estimate {
	e := Estimate{Count: len(values)}
	if e.Count == 0 {
		return e
	}
	for _, value := range values {
		e.Mean += value / float64(e.Count)
	}
	if e.Count < 2 {
		return e
	}
	var squares float64
	for _, value := range values {
		squares += (value - e.Mean) * (value - e.Mean)
	}
	e.Error = math.Sqrt(squares / float64(e.Count-1) / float64(e.Count))
	return e
}

// Estimated is the estimate of a value over the repetitions of a case; false where nobody measured it.
func Estimated(measured []bench.Measured, path, name, value string) (Estimate, bool) {
	var values []float64
	for _, one := range measured {
		if one.Case.Path != path || one.Case.Name != name {
			continue
		}
		if found, ok := one.Values[value]; ok {
			values = append(values, found)
		}
	}
	return EstimateOf(values), len(values) > 0
}

// Text shows it in a unit of so much, with its error where there is one.
func (e Estimate) Text(unit float64, digits int) string {
	if e.Count < 2 {
		return fmt.Sprintf("%.*f", digits, e.Mean/unit)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, e.Mean/unit, digits, e.Error/unit)
}

// Differ tells whether two estimates are further apart than three of their standard errors together; without two repetitions of
// each nobody knows.
func Differ(a, b Estimate) bool {
	if a.Count < 2 || b.Count < 2 {
		return false
	}
	return math.Abs(a.Mean-b.Mean) > 3*math.Hypot(a.Error, b.Error)
}
