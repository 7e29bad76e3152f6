// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestEndedInOrderUnderLoadNothingIsLost has messages come while ktsnd ends, to a ring with room for them. Nothing about them is
// uncertain: none is departing when the loop has ended.
func TestEndedInOrderUnderLoadNothingIsLost(t *testing.T) {
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	running := lab.startFlow(t, "--lead", "50ms", "--cycle", "200us")
	var total sum
	for range either(4, 50) {
		awaitOnTime(t, client) // until then the ring is full, and nothing comes
		time.Sleep(rand.N(20 * time.Millisecond))
		total.add(counters(t, client))
		interrupt(t, daemon)
		daemon, client = lab.startDaemon(t)
	}
	served(t, client, 50)
	total.add(running.end(t, client))
	running.checkNoneLost(t, total)
}
