// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
)

const (
	// textAgain is how often a sentence is replaced by another about the same, such as one with another part of an error. Each time the
	// node's status is written.
	textAgain = 5 * time.Minute
	// reasonAgain is how often it is replaced by one with another reason in the same state, and reasonHolds for how long there must
	// have been another one before: a clock at its limit has one reason and another in turns.
	reasonAgain = 30 * time.Second
	reasonHolds = 10 * time.Second
)

// subject is what a sentence is about.
type subject struct {
	state  clock.State
	reason string
	faults []string
}

// write has the sentence be that of the verdict, with the faults, if it is to be replaced by now: at once in another state or when there
// is a fault that it does not name.
func (j *judgement) write(estimate *clock.Estimate, now time.Time) {
	sentence, about := j.verdict.Sentence, subject{state: j.verdict.State, reason: j.verdict.Reason}
	unnamed := false
	if estimate != nil {
		for _, fault := range estimate.Faults {
			sentence, about.faults = joined(sentence, fault.Sentence), append(about.faults, fault.Reason)
			unnamed = unnamed || !slices.Contains(j.about.faults, fault.Reason)
		}
	}
	same := about.reason == j.about.reason && slices.Equal(about.faults, j.about.faults)
	switch {
	case about.state != j.about.state || unnamed:
	case same && sameButFigures(j.sentence, sentence):
		j.otherSince = time.Time{}
		return
	case !j.due(same, now):
		return
	}
	j.sentence, j.about, j.writtenAt, j.otherSince = sentence, about, now, time.Time{}
}

// due tells whether another sentence is to be written by now. same tells whether its reason and faults are those of the one before.
func (j *judgement) due(same bool, now time.Time) bool {
	if j.otherSince.IsZero() {
		j.otherSince = now
	}
	if same {
		return now.Sub(j.writtenAt) >= textAgain
	}
	return now.Sub(j.writtenAt) >= reasonAgain && now.Sub(j.otherSince) >= reasonHolds
}
