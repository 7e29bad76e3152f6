// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// ending contains the relay's message when a mode ends it.
var ending = map[string]string{"shrinks": "the guest's memory disappeared", "disk": "passes memory that is no memfd"}

// TestVhostMaliciousFrontEnd checks that a malicious front end only harms itself: the relay continues, ktsnd gets no
// invalid frame, and the next front end is served. A front end that removes its memory under the relay, or passes
// memory of a file system that may not answer, ends the relay.
func TestVhostMaliciousFrontEnd(t *testing.T) {
	content(t)
	whole := t
	rig := newGuestRig(t, 1, false)
	_, client := rig.startDaemon(t)
	rig.startRelay(t)
	hostile := publicCopy(t, "ktsn-test-hostile-guest")
	there := listenFrames(t, rig.PodB, carriedEtherType)
	modes, err := exec.Command(hostile).Output()
	must(t, err)
	for mode := range strings.FieldsSeq(string(modes)) {
		t.Run(mode, func(t *testing.T) {
			before := rig.count(t)
			rig.awaitSocket(t)
			attack := start(t, rig.NodeA, hostile, asNobody(exec.Command(hostile, rig.path, mode, net.HardwareAddr(rig.podA).String())))
			if err := finish(t, attack); err != nil {
				t.Fatalf("%v: %s", err, attack.Stderr())
			}
			if sentence := ending[mode]; sentence != "" {
				rig.endsWithASentence(t, sentence)
				rig.startRelay(whole) // also for the following modes
			}
			rig.startGuest(t)
			rig.send(t, 0, rig.frame(rig.podA, "after "+mode))
			for text := ""; text != "after "+mode; { // valid frames of the malicious front end may come before
				text = arrivedText(t, there)
			}
			kill(t, rig.guest.Process)
			after := rig.count(t)
			t.Logf("%d frames were read, %d dropped, %d of them because of their descriptors", after.ReadUntimed-before.ReadUntimed,
				after.drops()-before.drops(), after.Dropped[dropDescriptor]-before.Dropped[dropDescriptor])
			if mode == "too-long" && after.Dropped[dropDescriptor]-before.Dropped[dropDescriptor] != 8 {
				t.Errorf("the relay counted %+v", after)
			}
		})
	}
	if counted := counters(t, client); counted.DropInvalid+counted.DropSource != 0 {
		t.Errorf("ktsnd counted %+v", counted)
	}
	if counted := rig.count(t); counted.ReadUntimed+counted.ReadTimed < counted.drops() {
		t.Errorf("the relay counted %+v", counted)
	}
}

// endsWithASentence waits for the end of the relay.
func (r *guestRig) endsWithASentence(t *testing.T, sentence string) {
	t.Helper()
	if err := finish(t, r.relay); err == nil || !strings.Contains(r.relay.Stderr(), sentence) {
		t.Errorf("it ended with %v and printed %s", err, r.relay.Stderr())
	}
}

// TestVhostRingUnreadableCostsNothing checks that a queue that cannot be read costs no more than polling it.
func TestVhostRingUnreadableCostsNothing(t *testing.T) {
	content(t)
	rig := newGuestRig(t, 1, false)
	rig.startDaemon(t)
	rig.startRelay(t)
	hostile := publicCopy(t, "ktsn-test-hostile-guest")
	rig.awaitSocket(t)
	before := cpuTime(t, rig.relay.PID())
	begin := time.Now()
	for range 5 {
		attack := start(t, rig.NodeA, hostile, asNobody(exec.Command(hostile, rig.path, "loops", net.HardwareAddr(rig.podA).String())))
		if err := finish(t, attack); err != nil {
			t.Fatalf("%v: %s", err, attack.Stderr())
		}
	}
	if share := (cpuTime(t, rig.relay.PID()) - before).Seconds() / time.Since(begin).Seconds(); share > 0.05 {
		t.Errorf("a chain of descriptors without an end costs %.3f of a core", share)
	}
}
