// SPDX-License-Identifier: Apache-2.0

package clocks

import "time"

// lookahead is how long ktsnd's bound must stay good enough without an update: longer than until the next estimate but
// one.
const lookahead = 3 * time.Second

// clockDiffers reports whether to send the clock again: because the last time is long ago, or because ktsnd's
// extrapolation differs noticeably.
func (t *Updater) clockDiffers(desired *desiredState, now time.Time) bool {
	next := desired.clock
	switch {
	case next == nil:
		return false
	case t.sentClock == nil || now.Sub(t.sentAt) >= clockInterval:
		return true
	case next.state != t.sentClock.state || (next.bound < 0) != (t.sentClock.bound < 0):
		return true
	case next.bound < 0:
		return false
	}
	sent, actual := t.sentClock.boundAt(now), next.boundAt(now)
	if abs(sent-actual) > actual/boundFraction || differs(next.driftPPB, t.sentClock.driftPPB) {
		return true
	}
	for _, need := range desired.networks {
		if need.Good && t.sentClock.boundAt(now.Add(lookahead)).Nanoseconds() > need.MaxErrorNs {
			return true // otherwise ktsnd would consider a good clock lost
		}
	}
	return false
}

// boundAt returns the error bound at a time, including the drift since the measurement.
func (t *clockReport) boundAt(now time.Time) time.Duration {
	age := max(now.Sub(t.measuredAt), 0)
	return t.bound + time.Duration(age.Seconds()*float64(t.driftPPB))
}

// differs reports whether two drifts differ by a fifth or more.
func differs(a, b int64) bool {
	return 5*max(a-b, b-a) > max(a, b)
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// networksDiffer reports whether a network must be sent to ktsnd.
func (t *Updater) networksDiffer(desired *desiredState) bool {
	for vni, need := range desired.networks {
		if have, known := t.networks[vni]; !known || have != need && !desired.unjudged {
			return true
		}
	}
	return desired.complete && len(t.networks) > len(desired.networks)
}
