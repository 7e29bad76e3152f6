// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/inference"
)

// Estimated returns the estimate of a value over the repetitions of a case; false if it was not measured.
func Estimated(measured []engine.Measured, path, name, value string) (inference.Estimate, bool) {
	var values []float64
	for _, measurement := range measured {
		if measurement.Case.Path != path || measurement.Case.Name != name {
			continue
		}
		if number, ok := measurement.Values[value]; ok {
			values = append(values, number)
		}
	}
	return inference.EstimateOf(values), len(values) > 0
}

// Confidence is the confidence of ranges, for texts.
var Confidence = fmt.Sprintf("%.0f %%", 100*inference.EstimateConfidence)

// MayBeChance is the remark about figures with one repetition.
const MayBeChance = "one run each, so it may be chance"

// Range describes the range of a quotient, and whether it includes no difference.
func Range(q inference.Quotient) string {
	text := fmt.Sprintf("%.2f to %.2f with %s", q.Low, q.High, Confidence)
	if !q.Differs() {
		text += ", so it may be chance"
	}
	return text
}
