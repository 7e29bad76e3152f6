// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/kernel"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// Report is an estimate and what it means, for JSON. Durations are in nanoseconds.
type Report struct {
	Time     time.Time `json:"time"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason"`
	Sentence string    `json:"sentence,omitempty"`
	// BoundNs is -1 while it is not known.
	BoundNs     int64  `json:"boundNs"`
	DriftPPB    int64  `json:"driftPpb"`
	OffsetNs    int64  `json:"offsetNs"`
	PathDelayNs int64  `json:"pathDelayNs"`
	Source      Source `json:"source"`
	Grandmaster string `json:"grandmaster,omitempty"`
	// LostNs is for how long nobody has kept the clock; absent while somebody does.
	LostNs     *int64       `json:"lostNs,omitempty"`
	Parts      ReportParts  `json:"parts"`
	TAIOffset  int          `json:"taiOffset"`
	Steps      uint64       `json:"steps"`
	LastStepNs int64        `json:"lastStepNs"`
	Ports      []ptp4l.Port `json:"ports"`
	Kernel     kernel.State `json:"kernel"`
	Faults     []Fault      `json:"faults"`
}

// ReportParts are what the bound is the sum of.
type ReportParts struct {
	OffsetNs    int64 `json:"offsetNs"`
	PathDelayNs int64 `json:"pathDelayNs"`
	AccuracyNs  int64 `json:"accuracyNs"`
	JitterNs    int64 `json:"jitterNs"`
	CardNs      int64 `json:"cardNs"`
	TAINs       int64 `json:"taiNs"`
	StepNs      int64 `json:"stepNs"`
	DriftNs     int64 `json:"driftNs"`
}

// NewReport puts an estimate and a verdict together.
func NewReport(e Estimate, verdict Verdict) Report {
	report := Report{Time: e.At.Round(0), State: verdict.State, Since: verdict.Since.Round(0), Reason: verdict.Reason, Sentence: verdict.Sentence,
		BoundNs: int64(e.Bound), DriftPPB: e.DriftPPB, OffsetNs: int64(e.Offset), PathDelayNs: int64(e.PathDelay), Source: e.Source,
		Grandmaster: e.Grandmaster, Parts: partsOf(e.Parts), TAIOffset: e.TAIOffset, Steps: e.Steps, LastStepNs: int64(e.LastStep),
		Ports: append([]ptp4l.Port{}, e.Ports...), Kernel: e.Kernel, Faults: append([]Fault{}, e.Faults...)}
	if e.Bound < 0 {
		report.BoundNs = -1
	}
	if !e.Lost.IsZero() {
		lost := int64(e.At.Sub(e.Lost))
		report.LostNs = &lost
	}
	return report
}

func partsOf(p Parts) ReportParts {
	return ReportParts{OffsetNs: int64(p.Offset), PathDelayNs: int64(p.PathDelay), AccuracyNs: int64(p.Accuracy), JitterNs: int64(p.Jitter),
		CardNs: int64(p.Card), TAINs: int64(p.TAI), StepNs: int64(p.Step), DriftNs: int64(p.Drift)}
}
