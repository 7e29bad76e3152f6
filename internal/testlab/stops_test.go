// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"slices"
	"testing"
	"time"
)

func TestUndisturbed(t *testing.T) {
	for name, test := range map[string]struct {
		stopped time.Duration
		failing int // runs that complain, from the first on
		runs    int
		fails   bool
	}{
		"what succeeds runs once":                         {0, 0, 1, false},
		"what fails while the machine runs fails at once": {time.Hour, 1, 1, true},
		"what fails in a stop runs again":                 {0, 1, 2, false},
		"what fails in every stop fails":                  {0, 5, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			complaints := Undisturbed(t, test.stopped, func() []string {
				runs++
				if runs <= test.failing {
					return []string{"it was late"}
				}
				return nil
			})
			if runs != test.runs || test.fails != slices.Contains(complaints, "it was late") {
				t.Errorf("it ran %d times, and complains %q", runs, complaints)
			}
		})
	}
}
