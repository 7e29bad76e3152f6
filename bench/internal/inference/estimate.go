// SPDX-License-Identifier: Apache-2.0

// Package inference quantifies the uncertainty of figures: the standard error of a mean over repetitions, the
// confidence range of a quotient of two means, and that of a ratio of percentiles by resampling (bootstrap).
package inference

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// EstimateConfidence is the confidence of a quotient's range.
const EstimateConfidence = 0.95

// Estimate is a figure over repetitions.
type Estimate struct {
	Mean float64
	// Error is the standard error of the mean, 0 with less than two repetitions.
	Error float64
	Count int
}

// EstimateOf estimates from some values.
func EstimateOf(values []float64) Estimate {
	e := Estimate{Count: len(values)}
	if e.Count == 0 {
		return e
	}
	if e.Count == 1 {
		e.Mean = values[0]
		return e
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	e.Mean, e.Error = mean, stat.StdErr(deviation, float64(e.Count))
	return e
}

// Text formats the estimate in a unit, with its error if there is one.
func (e Estimate) Text(unit float64, digits int) string {
	if e.Count < 2 {
		return fmt.Sprintf("%.*f", digits, e.Mean/unit)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, e.Mean/unit, digits, e.Error/unit)
}

// Quotient is one estimate divided by another, with its range at EstimateConfidence.
type Quotient struct {
	Value, Low, High float64
}

// Differs reports whether the range is on one side of 1: otherwise no difference is shown.
func (q Quotient) Differs() bool { return q.Low > 1 || q.High < 1 }

// QuotientOf divides two estimates above 0; false if one of them has less than two repetitions, so that its error is
// unknown. The range is that of the difference of logarithms, by Student's distribution with the degrees of freedom of
// Welch and Satterthwaite: with few repetitions the standard errors themselves are uncertain, and a fixed multiple of
// them would show differences that do not exist.
func QuotientOf(estimate, other Estimate) (Quotient, bool) {
	if estimate.Count < 2 || other.Count < 2 || estimate.Mean <= 0 || other.Mean <= 0 {
		return Quotient{}, false
	}
	q := Quotient{Value: estimate.Mean / other.Mean}
	ofOne, ofOther := estimate.relativeVariance(), other.relativeVariance()
	both := ofOne + ofOther
	if both == 0 {
		q.Low, q.High = q.Value, q.Value
		return q, true
	}
	freedom := both * both / (ofOne*ofOne/float64(estimate.Count-1) + ofOther*ofOther/float64(other.Count-1))
	errors := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile((1 + EstimateConfidence) / 2)
	width := math.Exp(errors * math.Sqrt(both))
	q.Low, q.High = q.Value/width, q.Value*width
	return q, true
}

func (e Estimate) relativeVariance() float64 {
	relative := e.Error / e.Mean
	return relative * relative
}
