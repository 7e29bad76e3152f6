// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Defaults of a network's spec.clock.
const (
	DefaultMaxError = 10 * time.Microsecond
	DefaultHoldover = time.Minute
)

// Clock is a network's requirement for the clocks of its nodes.
type Clock struct {
	MaxError, Holdover time.Duration
	OnLoss             string
}

// ClockOf parses the network's spec.clock. required is false without one.
func ClockOf(network *v1alpha1.TSNNetwork) (clock Clock, required bool, err error) {
	clock = Clock{MaxError: DefaultMaxError, Holdover: DefaultHoldover, OnLoss: v1alpha1.OnLossContinue}
	spec := network.Spec.Clock
	if spec == nil {
		return clock, false, nil
	}
	if spec.MaxError != "" {
		if clock.MaxError, err = time.ParseDuration(spec.MaxError); err != nil || clock.MaxError <= 0 {
			return clock, true, fmt.Errorf("spec.clock.maxError %q of network %s is not a clock error; write a whole number with ns, us, ms "+
				"or s, such as 10us", Shorten(spec.MaxError, maxQuotedBytes), network.Name)
		}
	}
	if spec.Holdover != "" {
		if clock.Holdover, err = time.ParseDuration(spec.Holdover); err != nil || clock.Holdover < 0 {
			return clock, true, fmt.Errorf("spec.clock.holdover %q of network %s is not a duration; write a whole number with ms, s, m or h, "+
				"such as 1m, or 0s", Shorten(spec.Holdover, maxQuotedBytes), network.Name)
		}
	}
	if spec.OnLoss != "" {
		clock.OnLoss = spec.OnLoss
	}
	return clock, true, nil
}

// Sources of a node's clock in its TSNNode.
const (
	clockSourcePTP = "PTP"
	clockSourceNTP = "NTP"
)

// FollowedBy returns what a node's clock follows, "" if unknown. A grandmaster reports its own identity. All NTP servers serve UTC, and
// their error is part of their clients' bounds; each PTP grandmaster has a time of its own.
func FollowedBy(clock *v1alpha1.NodeClock) string {
	switch {
	case clock.Source == clockSourceNTP:
		return clockSourceNTP
	case clock.Source == clockSourcePTP && clock.Grandmaster != "":
		return "the PTP grandmaster " + clock.Grandmaster
	}
	return ""
}
