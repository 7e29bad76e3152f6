// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"testing"
	"time"
)

// To make a ring, to take one back and to close it is what costs ktsnd most of all that a pod can ask for. A pod has 16 and then
// 500 a second (daemon/loop/quota.c).
func TestRingCreationRateIsBounded(t *testing.T) {
	content(t)
	const (
		atOnce, perSecond = 16, 500
		length            = 2 * time.Second
	)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	began := time.Now()
	running := enemy.start(t, "handback", length)
	asking := startAsking(t, lab.PodA, lab.socket, length/2)
	results := running.achieved(t)
	most := atOnce + int(float64(perSecond)*time.Since(began).Seconds())
	if results["handed"] == 0 || results["handed"] > most {
		t.Errorf("handed back: %v; want at most %d", results, most)
	}
	// Others wait for none of them.
	if asked := asking.achieved(t); asked["asked"] == 0 || asked["longest-us"] > int(time.Second/time.Microsecond) {
		t.Errorf("another pod's requests: %v", asked)
	}
	forgotten(t, client)
}
