// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// printClockStatus prints the quality of the clock, its state in the kernel, and whether it meets the requirements of networks.
func printClockStatus(out io.Writer, clock *control.Clock, networks []control.NetworkClock) {
	fmt.Fprintf(out, "clock\t%s\n", qualityLine(clock))
	fmt.Fprintf(out, "kernel's clock\t%s\n", clockLine(clock))
	for i := range networks {
		fmt.Fprintf(out, "network clock\tVNI %d, %s\n", networks[i].VNI, networkClockLine(&networks[i]))
	}
}

// qualityLine returns the agent's report about the clock, and the steps that ktsnd has seen.
func qualityLine(clock *control.Clock) string {
	line := string(clock.State)
	switch {
	case clock.ErrorBoundNs >= 0:
		line += fmt.Sprintf(", error at most %v and growing by %d ppb", time.Duration(clock.ErrorBoundNs), clock.DriftPPB)
	default:
		line += ", error unknown"
	}
	if clock.Steps > 0 {
		line += fmt.Sprintf("; set %d times, last %s", clock.Steps, stepText(clock.LastStepNs))
	}
	return line
}

func stepText(ns int64) string {
	if ns < 0 {
		return fmt.Sprintf("back by %v", time.Duration(-ns))
	}
	return fmt.Sprintf("forward by %v", time.Duration(ns))
}

// clockLine returns the kernel's state of the clock.
func clockLine(clock *control.Clock) string {
	synchronized := "not synchronized"
	if clock.Synchronized {
		synchronized = "synchronized"
	}
	return fmt.Sprintf("TAI - UTC %d s, %s, error %v, at most %v, frequency %+d ppb, tick %v", clock.TAIOffsetS, synchronized,
		time.Duration(clock.EstimatedErrorNs), time.Duration(clock.MaximumErrorNs), clock.FrequencyPPB,
		time.Duration(clock.TickNs))
}

// networkClockLine returns the requirement of a network, and whether the clock meets it.
func networkClockLine(network *control.NetworkClock) string {
	line := fmt.Sprintf("at most %v, else %s: ", time.Duration(network.MaxErrorNs), network.OnLoss)
	switch {
	case !network.Lost:
		return line + "good"
	case network.Reason != "":
		return line + "lost, " + network.Reason
	case network.Good:
		return line + "lost: ktsn-agent has not reported for too long; check that it runs"
	}
	return line + "lost"
}
