// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	// flooding is what messages of a flood have for a number, and more; those of the pod have less.
	flooding = 1 << 20
	// podPriority leads to the class of the second of threeWindows, that of a flood to the third.
	podPriority, podWindow, floodWindow = 6, 1, 2
)

// writeFlood writes frames that the machine sends again and again: without a time, and with one that has passed.
func (m *machines) writeFlood(t *testing.T, way guestPath) {
	t.Helper()
	f := &framing{source: parseMAC(t, way.mac), destination: interfaceMAC(t, m.a.PodB), from: way.addresses.ipv4, to: topology.PodAddressB,
		port: listenPort + 1, inside: marked(flooding, 0, 64)}
	var text strings.Builder
	for _, record := range []*ownRecord{nil, {version: 1}} {
		f.record = record
		fmt.Fprintln(&text, hex.EncodeToString(f.frame(t, 0)))
	}
	if err := os.WriteFile(filepath.Join(m.one.machine.Out, "flood."+way.device), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// beginFlood has both processors of the machine fill its queues at both paths.
func (m *machines) beginFlood(t *testing.T, span time.Duration) (finish func(*testing.T) (string, error)) {
	t.Helper()
	var script strings.Builder
	for _, way := range m.bothPaths() {
		m.writeFlood(t, way)
		for processor := range 2 {
			fmt.Fprintf(&script, "%staskset -c %d $inside frames --device %s --file /out/flood.%s --flood %v &\n", way.in, processor, way.device, way.device, span)
		}
	}
	return m.one.begin(t, script.String()+"wait")
}

// podSends has pod a send a message in the middle of each of its windows, and returns its trace.
func (m *machines) podSends(t *testing.T, count int) []control.TracedMessage {
	t.Helper()
	following := m.a.followPodA(t)
	sending := start(t, m.a.PodA, "send", exec.Command(program(t, "ktsn-test-inside"), "send", "--to", atPodB.String(), "--count", fmt.Sprint(count),
		"--cycle", (3*window).String(), "--offset", (3*window/2).String(), "--lead", "50ms", "--priority", fmt.Sprint(podPriority)))
	select {
	case <-sending.Done():
		if err := sending.Wait(); err != nil {
			t.Fatalf("%v: %s", err, sending.Stderr())
		}
	case <-time.After(time.Duration(count)*3*window + patience):
		t.Fatal("the pod goes on to send")
	}
	time.Sleep(2 * 50 * time.Millisecond)
	return timed(following.stop())
}

// flood has the machine flood while a pod sends: both keep to their windows, and the pod's messages arrive, in order and not early.
func (m *machines) flood(t *testing.T) {
	if err := m.a.client.ScheduleSet(t.Context(), threeWindows()); err != nil {
		t.Fatal(err)
	}
	waitForSchedule(t, m.a.client)
	const count = 6
	passed, tap := m.passed(t), m.a.openTap(t, 300_000)
	finish := m.beginFlood(t, 3*time.Second)
	time.Sleep(300 * time.Millisecond)
	traced := m.podSends(t, count)
	output, err := finish(t)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * window)
	seen := awaitMarks(t, tap, 0)
	m.checkFlooded(t, seen, traced, count, m.passed(t)-passed)
	t.Logf("the machine sent %q frames", strings.Fields(output))
	if longGuests {
		m.floodFigures(t)
	}
	m.one.run(t, "ping -n -q -c 5 -i 0.05 -w 15 %s", ofPodB.ipv4)
}

// passed are the frames of the machine that the bridge forwarded because ktsnd or a relay did not answer.
func (m *machines) passed(t *testing.T) uint64 {
	t.Helper()
	sum := m.a.port(t, machineIdentity).Passed
	for _, counted := range relayCounters(t, m.relays) {
		sum += counted.Bypassed
	}
	return sum
}

func (m *machines) checkFlooded(t *testing.T, seen []onWire, traced []control.TracedMessage, count int, passed uint64) {
	t.Helper()
	var ofPod []onWire
	var flooded, outside uint64
	for _, message := range seen {
		at := message.wireTAI % (3 * window.Nanoseconds()) / window.Nanoseconds()
		if message.number < flooding {
			if ofPod = append(ofPod, message); at != podWindow {
				t.Errorf("message %d of the pod was on the wire in window %d", message.number, at)
			}
			continue
		}
		flooded++
		if at != floodWindow {
			outside++
		}
	}
	if len(traced) != count {
		t.Errorf("ktsnd saw %d of %d messages of the pod", len(traced), count)
	}
	for i, message := range traced {
		if late := message.EndedTAI - message.DueTAI; late > int64(time.Millisecond) {
			t.Logf("message %d of the pod left %v late (%s): it was taken %v before its time", i, time.Duration(late), message.Outcome,
				time.Duration(message.DueTAI-message.TakenTAI))
		}
	}
	for i, message := range ofPod {
		if int(message.number) != i || message.wireTAI < message.txtime {
			t.Errorf("in place %d is message %d of the pod, %v late", i, message.number, time.Duration(message.wireTAI-message.txtime))
		}
	}
	if len(ofPod) != count {
		t.Errorf("%d of %d messages of the pod were on the wire", len(ofPod), count)
	}
	if outside > flooded/10_000 || passed > 0 {
		t.Errorf("%d of %d frames of the flood were outside their windows, and the bridge forwarded %d", outside, flooded, passed)
	}
	if flooded < 1000 {
		t.Errorf("the flood was of %d frames", flooded)
	}
	t.Logf("%d frames of the flood on the wire, %d outside their windows, %d by the bridge; departure errors of the pod: %s", flooded, outside, passed,
		departures(traced))
}

// floodFigures compares departures of a pod with and without the flood.
func (m *machines) floodFigures(t *testing.T) {
	const count = 100
	p99 := func() float64 {
		var errors []int64
		for _, message := range m.podSends(t, count) {
			errors = append(errors, message.EndedTAI-message.DueTAI)
		}
		slices.Sort(errors)
		return float64(stats.Percentile(errors, stats.P99))
	}
	quiet := p99()
	finish := m.beginFlood(t, time.Duration(count)*3*window+time.Second)
	beside := p99()
	if _, err := finish(t); err != nil {
		t.Error(err)
	}
	record(t, reported("departure error of a pod, p99, beside a machine that does nothing", quiet/1e3, "µs"),
		reported("departure error of a pod, p99, beside a machine that floods all queues", beside/1e3, "µs"),
		limited("the second in parts of the first", beside/quiet, "", 1.5))
}
