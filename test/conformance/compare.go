// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// Compare returns a message for each difference that the scenario does not declare, and for each declared difference
// that does not occur.
func Compare(what *scenario.Scenario, shaper, kernel *Result) []string {
	declared := map[uint32]scenario.Deviation{}
	for _, deviation := range what.Deviations {
		for _, id := range deviation.Messages {
			declared[id] = deviation
		}
	}
	var complaints []string
	for _, message := range what.Messages {
		deviation, deviates := declared[message.ID]
		ours, theirs := shaper.Outcomes[message.ID], kernel.Outcomes[message.ID]
		switch {
		case !deviates && !equal(ours, theirs):
			complaints = append(complaints, fmt.Sprintf("message %d: shaper: %s, kernel: %s, and no deviation is declared",
				message.ID, ours, theirs))
		case deviates && equal(ours, theirs):
			complaints = append(complaints, fmt.Sprintf("message %d: both: %s; declared is shaper: %s, kernel: %s", message.ID,
				ours, deviation.Shaper, deviation.Kernel))
		case deviates && (ours != Outcome(deviation.Shaper) || theirs != Outcome(deviation.Kernel)):
			complaints = append(complaints, fmt.Sprintf("message %d: shaper: %s, kernel: %s; declared is shaper: %s, "+
				"kernel: %s", message.ID, ours, theirs, deviation.Shaper, deviation.Kernel))
		}
	}
	return append(complaints, compareOrder(what, shaper, kernel)...)
}

// equal compares outcomes. The kernel need not report why it dropped a message.
func equal(shaper, kernel Outcome) bool {
	return shaper == kernel || kernel == Dropped && strings.HasPrefix(string(shaper), string(Dropped))
}

// compareOrder compares the order in which the messages without declared deviations leave.
func compareOrder(what *scenario.Scenario, shaper, kernel *Result) []string {
	deviates := func(id uint32) bool {
		return slices.ContainsFunc(what.Deviations, func(deviation scenario.Deviation) bool {
			return slices.Contains(deviation.Messages, id)
		})
	}
	ours := slices.DeleteFunc(slices.Clone(shaper.Order), deviates)
	theirs := slices.DeleteFunc(slices.Clone(kernel.Order), deviates)
	if !slices.Equal(ours, theirs) {
		return []string{fmt.Sprintf("order: shaper: %v, kernel: %v", ours, theirs)}
	}
	return nil
}
