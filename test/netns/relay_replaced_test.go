// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func TestRelayFramesContinueDuringReplace(t *testing.T) {
	content(t)
	rig := newCaptureRig(t)
	before, client := rig.startDaemon(t)
	rig.startRelay(t)
	there := listenFrames(t, rig.PodB, carriedEtherType)
	rig.awaitHeartbeat(t, 0)
	rig.capture(t, rig.frame(rig.podA, "untimed, before"))
	if text := arrivedText(t, there); text != "untimed, before" {
		t.Fatalf("%q arrives", text)
	}
	// A ktsnd is ready long before that.
	at := nowTAI(t) + int64(5*time.Second)
	rig.capture(t, recorded(rig.frame(rig.podA, "timed"), at))
	awaitCounters(t, client, "both are taken", func(c control.Counters) bool { return c.Taken == 2 })
	successor, client := rig.takeOver(t, before)
	rig.capture(t, rig.frame(rig.podA, "untimed, after"))
	for _, expected := range []string{"untimed, after", "timed"} {
		if text := arrivedText(t, there); text != expected {
			t.Errorf("%q arrives instead of %q; ktsnd says: %s", text, expected, successor.Stderr())
		}
	}
	if now := nowTAI(t); now < at {
		t.Errorf("it arrives %d ns before its time", at-now)
	}
	awaitCounters(t, client, "each as what it is", func(c control.Counters) bool { return c.Untimed == 1 && c.Sent == 2 })
	// The heartbeat shows that the successor's loop has the ring for an untimed one.
	beat := rig.lastBeat(t)
	rig.awaitHeartbeat(t, beat)
	if counted := rig.count(t); counted.Connected != connected|connectedU || counted.HandedBack != 0 || counted.drops() != 0 {
		t.Errorf("the relay noticed it: %+v", counted)
	}
}
