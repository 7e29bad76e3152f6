// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
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
	output := m.one.run(t, "%sktsn-guest status --interface %s -o json", way.in, way.device)
	var all []guestStatus
	if err := json.Unmarshal([]byte(output), &all); err != nil || len(all) != 1 {
		t.Fatalf("ktsn-guest says %q: %v", output, err)
	}
	return all[0]
}

// timed are the messages with a transmit time.
func timed(traced []control.TracedMessage) []control.TracedMessage {
	return slices.DeleteFunc(traced, func(message control.TracedMessage) bool { return message.Outcome == "untimed" })
}

// held has programs in the machine send datagrams of each kind: one of this repository, and a static one of C that knows nothing of
// all this.
func (m *machines) held(t *testing.T) {
	const program = "sender"
	p := &plan{to: atPodB, count: heldCount, clock: unix.CLOCK_TAI, leadNs: 150_000_000, cycle: 10_000_000}
	sender := cProgram(t, muslCompiler(t), "sendmsg", p)
	copyTo(t, sender.Path, filepath.Join(m.one.machine.Out, program))
	for name, way := range m.bothPaths() {
		t.Run(name, func(t *testing.T) {
			m.followHost(t, way)
			for kind, command := range map[string]string{
				"a static program's": filepath.Join(guestmachine.OutDir, program) + " " + strings.Join(sender.Args[1:], " "),
				"by CLOCK_MONOTONIC": sendInside + "--clock monotonic",
				"by CLOCK_REALTIME":  sendInside + "--clock realtime",
				"the largest":        sendInside + fmt.Sprintf("--bytes %d", way.mtu-bytesBefore(ofPodB.ipv4)),
			} {
				t.Run(kind, func(t *testing.T) { m.heldOnce(t, way, command) })
			}
		})
	}
	t.Run("a pod's, for comparison", func(t *testing.T) {
		listener := listen(t, m.a.PodB, "udp", atPodB)
		following := m.a.followPodA(t)
		m.a.send(t, exec.Command(sender.Path, sender.Args[1:]...))
		checkMarksReceived(t, texts(t, listener), heldCount)
		t.Logf("departure errors: %s", departures(timed(following.stop())))
	})
}

const heldCount = 30

// sendInside sends heldCount datagrams, by CLOCK_TAI without an option.
var sendInside = fmt.Sprintf("$inside send --to %s --count %d --cycle 10ms --lead 150ms ", atPodB, heldCount)

func (m *machines) heldOnce(t *testing.T, way guestPath, command string) {
	t.Helper()
	listener := listen(t, m.a.PodB, "udp", atPodB)
	tap := m.a.openTap(t, 4*heldCount)
	following := m.a.follow(t, way.identity)
	before := m.believes(t, way)
	m.one.run(t, "%s%s", way.in, command)
	after := m.believes(t, way)
	seen := awaitMarks(t, tap, heldCount)
	traced := timed(following.stop())
	if after.Sent-before.Sent != heldCount || len(after.Refused) > 0 {
		t.Errorf("ktsn-guest says %+v before and %+v after", before, after)
	}
	if strings.Contains(command, "--clock") {
		checkNoneEarly(t, traced, seen, heldCount)
	} else {
		checkHeld(t, traced, seen, heldCount, before, after)
	}
	checkMarksReceived(t, texts(t, listener), heldCount)
	t.Logf("departure errors: %s; the host's time is known within %v", departures(traced), time.Duration(after.BoundNs))
}

// checkNoneEarly is checkHeld without the machine's clock: what ktsnd was told is not compared with what the program asked for.
func checkNoneEarly(t *testing.T, traced []control.TracedMessage, seen []onWire, count int) {
	t.Helper()
	if len(traced) != count || len(seen) != count {
		t.Fatalf("ktsnd saw %d of %d messages, and %d were on the wire", len(traced), count, len(seen))
	}
	for i, message := range seen {
		if int(message.number) != i {
			t.Fatalf("message %d is in place %d", message.number, i)
		}
		if early := traced[i].DueTAI - min(message.wireTAI, traced[i].EndedTAI); early > 0 {
			t.Errorf("message %d left %d ns early", i, early)
		}
		if i > 0 {
			// The program's times are a cycle apart on any clock, within what clocks drift in it.
			apart, asked := traced[i].DueTAI-traced[i-1].DueTAI, message.txtime-seen[i-1].txtime
			if wrong := apart - asked; wrong > int64(1e6) || wrong < -int64(1e6) {
				t.Errorf("messages %d and %d are %d ns apart, and should be %d", i-1, i, apart, asked)
			}
		}
	}
}
