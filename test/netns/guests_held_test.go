// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// followHost starts ktsn-guest for an interface of the machine of node a, until the test's end, and returns when the host's time is
// known there.
func (m *machines) followHost(t *testing.T, way guestPath) {
	t.Helper()
	m.one.run(t, `%[1]sktsn-guest run --interface %[2]s >>/out/ktsn-guest.%[2]s 2>&1 &
echo $! >/tmp/ktsn-guest.pid
for _ in $(seq 100); do
	! %[1]sktsn-guest status --interface %[2]s 2>/dev/null | grep -q 'is known' || exit 0
	sleep 0.1
done
cat /out/ktsn-guest.%[2]s
exit 1`, way.in, way.device)
	t.Cleanup(func() { m.one.run(t, "kill $(cat /tmp/ktsn-guest.pid)") })
}

// believes is what ktsn-guest says.
func (m *machines) believes(t *testing.T, way guestPath) guestStatus {
	t.Helper()
	said := m.one.run(t, "%sktsn-guest status --interface %s -o json", way.in, way.device)
	var all []guestStatus
	if err := json.Unmarshal([]byte(said), &all); err != nil || len(all) != 1 {
		t.Fatalf("ktsn-guest says %q: %v", said, err)
	}
	return all[0]
}

// timed are the messages with a transmit time.
func timed(traced []control.TracedMessage) []control.TracedMessage {
	return slices.DeleteFunc(traced, func(one control.TracedMessage) bool { return one.Outcome == "untimed" })
}

// held sends datagrams of each kind. Those of the machine's CLOCK_TAI are compared with what it knows of the host's.
func (m *machines) held(t *testing.T) {
	for name, way := range m.bothPaths() {
		t.Run(name, func(t *testing.T) {
			m.followHost(t, way)
			for kind, options := range map[string]string{
				"by CLOCK_TAI":       "--clock tai",
				"by CLOCK_MONOTONIC": "--clock monotonic",
				"by CLOCK_REALTIME":  "--clock realtime",
				"the largest":        fmt.Sprintf("--clock tai --bytes %d", way.mtu-bytesBefore(ofPodB.four)),
			} {
				t.Run(kind, func(t *testing.T) { m.heldOnce(t, way, options) })
			}
		})
	}
}

const heldCount = 30

func (m *machines) heldOnce(t *testing.T, way guestPath, options string) {
	listener := listen(t, m.a.PodB, "udp", atPodB)
	tap := m.a.openTap(t, 4*heldCount)
	following := m.a.follow(t, way.identity)
	before := m.believes(t, way)
	m.one.run(t, "%s$inside send --to %s --count %d --cycle 10ms --lead 150ms %s", way.in, atPodB, heldCount, options)
	after := m.believes(t, way)
	seen := marksOn(t, tap, heldCount)
	traced := timed(following.stop())
	if after.Sent-before.Sent != heldCount || len(after.Refused) > 0 {
		t.Errorf("ktsn-guest says %+v before and %+v after", before, after)
	}
	if options[:len("--clock tai")] == "--clock tai" {
		checkHeld(t, traced, seen, heldCount, before, after)
	} else {
		checkNoneEarly(t, traced, seen, heldCount)
	}
	checkMarksReceived(t, texts(t, listener), heldCount)
	t.Logf("departure errors: %s; the host's time is known within %d ns", departures(traced), after.BoundNs)
}

// checkNoneEarly is checkHeld without the machine's clock: what ktsnd was told is not compared with what the program asked for.
func checkNoneEarly(t *testing.T, traced []control.TracedMessage, seen []onWire, count int) {
	t.Helper()
	if len(traced) != count || len(seen) != count {
		t.Fatalf("ktsnd saw %d of %d messages, and %d were on the wire", len(traced), count, len(seen))
	}
	for i, one := range seen {
		if int(one.number) != i {
			t.Fatalf("message %d is in place %d", one.number, i)
		}
		if early := traced[i].DueTAI - min(one.wireTAI, traced[i].EndedTAI); early > 0 {
			t.Errorf("message %d left %d ns early", i, early)
		}
		if i > 0 {
			// The program's times are a cycle apart on any clock, within what clocks drift in it.
			apart, asked := traced[i].DueTAI-traced[i-1].DueTAI, one.txtime-seen[i-1].txtime
			if wrong := apart - asked; wrong > int64(1e6) || wrong < -int64(1e6) {
				t.Errorf("messages %d and %d are %d ns apart, and should be %d", i-1, i, apart, asked)
			}
		}
	}
}
