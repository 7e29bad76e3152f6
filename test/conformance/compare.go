// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// Compare returns a sentence for each difference that the scenario does not declare, and for each declared one that
// is not there.
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

// equal outcomes. The kernel need not say why it dropped something.
func equal(shaper, kernel Outcome) bool {
	return shaper == kernel || kernel == Dropped && strings.HasPrefix(string(shaper), string(Dropped))
}

// compareOrder compares the order in which the messages leave that are not declared to deviate.
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
