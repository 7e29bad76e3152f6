// SPDX-License-Identifier: Apache-2.0

package clocks

import "time"

// soon is how long what ktsnd believes has to be good enough for without the agent: for longer than until the next estimate but one.
const soon = 3 * time.Second

// clockDiffers tells whether ktsnd is to be told of the clock again: because it was not for long, or because what it believes by now is
// noticeably something else.
func (t *Teller) clockDiffers(wants *wanted, now time.Time) bool {
	next := wants.clock
	switch {
	case next == nil:
		return false
	case t.clock == nil || now.Sub(t.clockAt) >= repeatEvery:
		return true
	case next.state != t.clock.state || (next.bound < 0) != (t.clock.bound < 0):
		return true
	case next.bound < 0:
		return false
	}
	believed, actual := t.clock.believed(now), next.believed(now)
	if abs(believed-actual) > actual/noticeably || differs(next.driftPPB, t.clock.driftPPB) {
		return true
	}
	for _, need := range wants.networks {
		if need.Good && t.clock.believed(now.Add(soon)).Nanoseconds() > need.MaxErrorNs {
			return true // else ktsnd would take a clock for lost that is good
		}
	}
	return false
}

// believed is the bound with what the clock may have drifted since.
func (t *told) believed(now time.Time) time.Duration {
	age := max(now.Sub(t.at), 0)
	return t.bound + time.Duration(age.Seconds()*float64(t.driftPPB))
}

// differs tells whether a drift is another by a fifth or more.
func differs(a, b int64) bool {
	return 5*max(a-b, b-a) > max(a, b)
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// networksDiffer tells whether ktsnd is to be told of a network.
func (t *Teller) networksDiffer(wants *wanted) bool {
	for vni, need := range wants.networks {
		if have, known := t.networks[vni]; !known || have != need && !wants.unjudged {
			return true
		}
	}
	return wants.complete && len(t.networks) > len(wants.networks)
}
