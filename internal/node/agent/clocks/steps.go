// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// stepsAgain is between two Events of steps: a clock that two programs set is set all the time.
const stepsAgain = time.Minute

// stepNews are the steps of the clock of which there was no Event yet, and when the last Event was.
type stepNews struct {
	count  int64
	saidAt time.Time
}

// saySteps makes an Event of the steps since the last one.
func (f *Follower) saySteps() {
	if f.estimate == nil {
		return
	}
	if more := f.timeline.countSteps(f.estimate.Steps); more > 0 {
		f.Log.Warn("the node's clock was set", "by", f.estimate.LastStep, "times", more)
		f.steps.count += more
	}
	now := f.Now()
	if f.steps.count == 0 || now.Sub(f.steps.saidAt) < stepsAgain {
		return
	}
	f.FaultEvent(corev1.EventTypeWarning, v1alpha1.ReasonClockStepped, stepSentence(f.steps.count, f.estimate.LastStep))
	f.steps = stepNews{saidAt: now}
}

// stepSentence says by how much a clock was set, and what becomes of schedules.
func stepSentence(times int64, by time.Duration) string {
	direction := "forward"
	if by < 0 {
		direction, by = "back", -by
	}
	if times > 1 {
		return fmt.Sprintf("somebody set the clock %d times, the last time %s by %v; messages of these moments left early or late, and "+
			"schedules begin anew; see who sets it besides its source", times, direction, by)
	}
	return fmt.Sprintf("somebody set the clock %s by %v; messages of this moment left early or late by as much, and schedules begin anew", direction, by)
}
