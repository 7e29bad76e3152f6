// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestBenchVhostRelay measures how many frames a second a guest's relay hands over: one queue pair, filled by a front
// end without a guest as fast as possible, into a ring that is only emptied. The relay has its own CPU; the front end
// and the reader of the ring share the other, the reader first.
func TestBenchVhostRelay(t *testing.T) {
	for name, timed := range map[string]bool{"without a time": false, "with a record": true} {
		for _, bytes := range []int{64, 1024} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, bytes), func(t *testing.T) { benchVhostRelay(t, timed, bytes) })
		}
	}
}

func benchVhostRelay(t *testing.T, timed bool, bytes int) {
	const span = 3 * time.Second
	rig := newGuestRig(t, 1, false, "--records")
	drain := startDialogue(t, rig.NodeA, "ktsn-test-drain", on("0", "nice", []string{"-n", "-15", program(t, "ktsn-test-drain"), rig.socket}))
	if text := drain.line(t); text != "ready" {
		t.Fatalf("the ring is not emptied: %s, %s", text, drain.Stderr())
	}
	must(t, os.Chmod(rig.socket, 0o666))
	rig.relayCPU = "1"
	rig.startRelay(t)
	frame := append(rig.frame(rig.podA, ""), make([]byte, bytes)...)[:bytes]
	if timed {
		frame = withRecord(frame, testlab.ClockNow(unix.CLOCK_TAI))
	}
	rig.awaitCount(t, "both sessions stand", func(c relayed) bool { return c.Connected == connected|connectedU })
	rig.guestCPU = "0"
	before := cpuTime(t, rig.relay.PID())
	rig.flood = []string{strconv.FormatInt(span.Milliseconds(), 10), "0", fmt.Sprintf("%x", frame)}
	rig.startGuest(t)
	rig.awaitLine(t, "ready")
	offered := rig.line(patience)
	used := cpuTime(t, rig.relay.PID())
	counted := rig.count(t)
	handed := float64(counted.HandedTimed + counted.HandedUntimed)
	label := fmt.Sprintf("relay of a guest, %d bytes, timed %v: ", bytes, timed)
	record(t,
		reported(label+"handed over", handed/span.Seconds(), "frames/s"),
		reported(label+"handed over, of processor time", handed/(used-before).Seconds(), "frames/s"),
		reported(label+"dropped", float64(counted.drops())/span.Seconds(), "frames/s"))
	t.Logf("the front end offered %s in %v; the relay took %v of a processor", offered, span, used-before)
	drain.stdin.Close()
}
