// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"testing"
)

func TestMissingBudgetsTakeLast(t *testing.T) {
	for name, test := range map[string]struct {
		budgets []int
		nodes   int
		want    []int
	}{
		"one for all":        {[]int{200}, 3, []int{200, 200, 200}},
		"more for the first": {[]int{550, 200}, 3, []int{550, 200, 200}},
		"more than nodes":    {[]int{550, 200}, 1, []int{550}},
		"none":               {nil, 2, []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := perNode(test.budgets, test.nodes); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
