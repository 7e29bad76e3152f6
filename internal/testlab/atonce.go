// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"sync"
	"testing"
)

// AtOnce runs subtests beside each other, all of them, however few processors there are. It is for those that do hardly
// anything but wait, and share nothing that one of them changes.
func AtOnce(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}
