// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/tsnperf"
)

// TestEndedInOrderUnderLoadNothingIsLost has messages come while ktsnd ends, of which some have just been taken. Nothing about them is
// uncertain: none is departing when the loop has ended.
func TestEndedInOrderUnderLoadNothingIsLost(t *testing.T) {
	lab := newLab(t)
	talkerFile, listenerFile := filepath.Join(lab.Dir, "talker.csv"), filepath.Join(lab.Dir, "listener.csv")
	daemon, client := lab.startDaemon(t)
	listener := lab.startListener(t, forGood, listenerFile)
	talker := lab.startTalker(t, talkerFile, "--lead", "100ms", "--cycle", "50us")
	var total sum
	for range either(4, 50) {
		awaitOnTime(t, client) // until then the ring is full, and nothing comes
		time.Sleep(rand.N(20 * time.Millisecond))
		total.add(counters(t, client))
		interrupt(t, daemon)
		daemon, client = lab.startDaemon(t)
	}
	served(t, client, 50)
	interrupt(t, talker)
	total.add(settled(t, client))
	drain(t, listener)
	if total.uncertain != 0 {
		t.Errorf("%d messages are uncertain", total.uncertain)
	}
	checkConserved(t, read(t, talkerFile, tsnperf.ReadTalker), read(t, listenerFile, tsnperf.ReadListener), total)
}
