// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"sync"
	"testing"
)

// AtOnce runs subtests concurrently, however few processors there are. It is for subtests that mostly wait, and that
// share nothing that one of them changes.
func AtOnce(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}
