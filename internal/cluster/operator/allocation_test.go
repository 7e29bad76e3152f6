// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"iter"
	"slices"
	"testing"
)

func TestAbbreviate(t *testing.T) {
	if names := abbreviate(slices.Repeat([]string{"a"}, 7)); fmt.Sprint(names) != "[a a a a a and 2 more]" {
		t.Errorf("seven are named %q", names)
	}
}

// nodesNamed are the names of nodes with numbers from one on.
func nodesNamed(from, count int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := from; i < from+count; i++ {
			if !yield(fmt.Sprintf("node-%04d", i)) {
				return
			}
		}
	}
}
