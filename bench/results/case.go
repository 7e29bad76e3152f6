// SPDX-License-Identifier: Apache-2.0

package results

import "github.com/kubernetsn/kubernetsn/bench/internal/inference"

// Case is a repeated measurement of an experiment.
type Case struct {
	Path string `json:"path"`
	// Name identifies it among those of the path.
	Name string `json:"case"`
	// Figures have the experiment's own names, which end with their unit.
	Figures map[string]*CaseFigure `json:"figures"`
}

// CaseFigure is a value over the repetitions of a case.
type CaseFigure struct {
	Mean float64 `json:"mean"`
	// StandardError is the standard error of the mean; null with one repetition.
	StandardError *float64    `json:"standard_error"`
	Values        []CaseValue `json:"values"`
}

// CaseValue is a value of one repetition.
type CaseValue struct {
	Repetition int     `json:"repetition"`
	Value      float64 `json:"value"`
}

// Add adds a repetition's value to a figure.
func (c *Case) Add(figure string, repetition int, value float64) {
	if c.Figures[figure] == nil {
		if c.Figures == nil {
			c.Figures = map[string]*CaseFigure{}
		}
		c.Figures[figure] = &CaseFigure{}
	}
	f := c.Figures[figure]
	f.Values = append(f.Values, CaseValue{repetition, value})
	e := f.Estimate()
	f.Mean, f.StandardError = e.Mean, nil
	if e.Count > 1 {
		f.StandardError = &e.Error
	}
}

// Estimate returns the figure with its standard error.
func (f *CaseFigure) Estimate() inference.Estimate {
	values := make([]float64, len(f.Values))
	for i, value := range f.Values {
		values[i] = value.Value
	}
	return inference.EstimateOf(values)
}
