// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// reportedLosses returns the frames of node a's machine that were dropped or lost according to all counters.
func (m *machines) reportedLosses(t *testing.T) uint64 {
	t.Helper()
	now, port := counters(t, m.a.client), m.a.port(t, machineIdentity)
	sum := now.Dropped() + now.Uncertain + relayDrops(t, m.a.relays) + relayDrops(t, m.relays) + port.NoRelay + port.Segments + port.NoRoom
	for _, device := range m.a.relayDevices(t) {
		sum += device.Attrs().Statistics.TxDropped
	}
	return sum
}

// checkDisturbance makes the machine send datagrams that wait on the host for most of a second, runs disturb when half
// of them are handed over, and checks them: none early, twice or out of order, and each missing one reported.
//
// Without a relay of vhost-user the machine's link is down and its kernel drops what programs send: linkGoes allows
// that.
func (m *machines) checkDisturbance(t *testing.T, way guestPath, linkGoes bool, disturb func()) {
	t.Helper()
	const count, before600ms = 60, 15
	before, reported := m.guestClock(t, way), m.reportedLosses(t)
	tap := m.a.openTap(t, 20*count)
	finish := m.machine.begin(t, way.in+"$inside send --to "+atPodB.String()+" --count 60 --cycle 20ms --lead 800ms")
	time.Sleep(count / 2 * 20 * time.Millisecond)
	disturb()
	if output, err := finish(t); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	after := m.guestClock(t, way)
	time.Sleep(1200 * time.Millisecond)
	seen := awaitMarks(t, tap, 0)
	checkUndisturbed(t, seen, before, after)
	lost := uint64(count - len(seen))
	if now := m.reportedLosses(t); linkGoes {
		if len(seen) < before600ms {
			t.Errorf("%d of %d messages left, and more were handed over before", len(seen), count)
		}
	} else if lost > now-min(reported, now) {
		t.Errorf("%d of %d messages are lost, and %d reported; ktsnd counts %+v", lost, count, now-min(reported, now), counters(t, m.a.client))
	}
	t.Logf("%d of %d messages left", len(seen), count)
}

// checkUndisturbed checks that no message is early or out of order.
func checkUndisturbed(t *testing.T, seen []markedPacket, before, after guestStatus) {
	t.Helper()
	least := min(before.AheadNs, after.AheadNs) - max(before.BoundNs, after.BoundNs)
	for i, message := range seen {
		if i > 0 && message.number <= seen[i-1].number {
			t.Errorf("message %d follows message %d", message.number, seen[i-1].number)
		}
		if early := message.txtime + least - message.wireTAI; early > 0 {
			t.Errorf("message %d left %v early", message.number, time.Duration(early))
		}
	}
}

// handedFrames returns the frames with a transmit time that relays of node a have handed over.
func (m *machines) handedFrames(t *testing.T) (sum uint64) {
	t.Helper()
	for _, supervisor := range []*process.Process{m.a.relays, m.relays} {
		for _, counted := range relayCounters(t, supervisor) {
			sum += counted.HandedTimed
		}
	}
	return sum
}

// outlive kills parts of the node while frames of the machine wait. The end of ktsnd is the same for both paths.
func (m *machines) outlive(t *testing.T) {
	for name, way := range m.bothPaths() {
		t.Run(name, func(t *testing.T) {
			m.followHost(t, way)
			if way.device == tapDevice || longGuests {
				t.Run("ktsnd", func(t *testing.T) { m.checkDisturbance(t, way, false, m.restartDaemon) })
			}
			t.Run("relay", func(t *testing.T) {
				m.checkDisturbance(t, way, way.device == vhostDevice, func() {
					if way.device == tapDevice {
						m.a.killRelays(t)
						m.a.awaitRelay(t, machineIdentity)
					} else {
						killChild(t, m.relays.PID())
					}
				})
			})
			m.machine.run(t, "%sping -n -q -c 2 -i 0.2 -W 10 %s", way.in, ofOther.ipv4)
		})
	}
}

// restartDaemon starts the next ktsnd, which runs until the end of the whole test.
func (m *machines) restartDaemon() {
	kill(m.whole, m.a.daemon)
	m.a.restoreDaemon(m.whole, "--link-speed", "1Gbit")
	m.a.awaitRelay(m.whole, machineIdentity)
}

// reset resets the machine while its frames wait on the host: they leave, and the next system works like the first.
func (m *machines) reset(t *testing.T) {
	m.machine.qmp.do(t, "set-action", map[string]any{"reboot": "reset"})
	m.handedOverThen(t, func() {
		m.machine.qmp.do(t, "system_reset", nil)
		m.machine.awaitAgain(t)
	})
}

// checkKilledMachine is reset with a killed and restarted QEMU.
func (m *machines) checkKilledMachine(t *testing.T) {
	links := m.a.linksOfNode(t)
	m.handedOverThen(t, func() {
		m.machine.kill(t)
		m.machine.boot(t)
		m.machine.awaitReady(m.whole)
	})
	if after := m.a.linksOfNode(t); !slices.Equal(links, after) {
		t.Errorf("the node's interfaces were %q and are %q", links, after)
	}
}

// handedOverThen hands over frames by both paths that wait for seconds, ends the machine's system, and checks that they
// leave while it boots again, and that it works afterwards.
func (m *machines) handedOverThen(t *testing.T, begin func()) {
	t.Helper()
	const count = 20
	listener := listen(t, m.a.PodB, "udp", atPodB)
	handed := m.handedFrames(t)
	for name, way := range m.bothPaths() {
		t.Run("hand over by "+name, func(t *testing.T) {
			m.followHost(t, way)
			m.machine.run(t, "%s$inside send --to %s --count %d --cycle 1ms --lead 4s", way.in, atPodB, count)
		})
	}
	testlab.Eventually(t, 2*time.Second, time.Millisecond, func() error {
		if m.handedFrames(t) < handed+2*count {
			return fmt.Errorf("the relays hand %d of %d frames over", m.handedFrames(t)-handed, 2*count)
		}
		return nil
	})
	begin()
	if got := len(receivedTexts(t, listener)); got != 2*count {
		t.Errorf("%d of %d messages that were handed over before arrive", got, 2*count)
	}
	m.setUpOne(t)
	for name, way := range m.bothPaths() {
		t.Run("afterwards by "+name, func(t *testing.T) {
			m.machine.run(t, "%sping -n -q -c 5 -i 0.05 -w 15 %s", way.in, ofOther.ipv4)
			m.machine.run(t, "%sping -n -q -c 5 -i 0.05 -w 15 %s", way.in, ofPodB.ipv6)
			m.followHost(t, way)
			m.heldOnce(t, way, sendInside)
		})
	}
}

// followHost starts ktsn-guest for an interface of node a's machine until the end of the test, and returns when the
// host's time is known there.
func (m *machines) followHost(t *testing.T, way guestPath) {
	t.Helper()
	m.machine.run(t, `%[1]sktsn-guest run --interface %[2]s >>/out/ktsn-guest.%[2]s 2>&1 &
echo $! >/tmp/ktsn-guest.pid
for _ in $(seq 100); do
	! %[1]sktsn-guest status --interface %[2]s 2>/dev/null | grep -q 'is known' || exit 0
	sleep 0.1
done
cat /out/ktsn-guest.%[2]s
exit 1`, way.in, way.device)
	t.Cleanup(func() { m.machine.run(t, "kill $(cat /tmp/ktsn-guest.pid)") })
}

// guestClock returns the status of ktsn-guest.
func (m *machines) guestClock(t *testing.T, way guestPath) guestStatus {
	t.Helper()
	output := m.machine.run(t, "%sktsn-guest status --interface %s -o json", way.in, way.device)
	var all []guestStatus
	if err := json.Unmarshal([]byte(output), &all); err != nil || len(all) != 1 {
		t.Fatalf("ktsn-guest reports %q: %v", output, err)
	}
	return all[0]
}

// timedMessages returns the messages with a transmit time.
func timedMessages(traced []control.TracedMessage) []control.TracedMessage {
	return slices.DeleteFunc(traced, func(message control.TracedMessage) bool { return message.Outcome == "untimed" })
}

// held sends datagrams of each kind from programs in the machine: one of this repository, and a static C program
// without libktsn.
func (m *machines) held(t *testing.T) {
	const program = "sender"
	p := &plan{to: atPodB, count: heldCount, clock: unix.CLOCK_TAI, leadNs: 150_000_000, cycle: 10_000_000}
	sender := cProgram(t, muslCompiler(t), "sendmsg", p)
	copyTo(t, sender.Path, filepath.Join(m.machine.machine.Out, program))
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
	t.Run("a pod for comparison", func(t *testing.T) {
		listener := listen(t, m.a.PodB, "udp", atPodB)
		following := m.a.followPodA(t)
		m.a.send(t, exec.Command(sender.Path, sender.Args[1:]...))
		checkMarksReceived(t, receivedTexts(t, listener), heldCount)
		t.Logf("departure errors: %s", formatDepartures(timedMessages(following.stop())))
	})
}

const heldCount = 30

// sendInside sends heldCount datagrams with CLOCK_TAI and without options.
var sendInside = fmt.Sprintf("$inside send --to %s --count %d --cycle 10ms --lead 150ms ", atPodB, heldCount)

func (m *machines) heldOnce(t *testing.T, way guestPath, command string) {
	t.Helper()
	listener := listen(t, m.a.PodB, "udp", atPodB)
	tap := m.a.openTap(t, 4*heldCount)
	following := m.a.follow(t, way.identity)
	before := m.guestClock(t, way)
	m.machine.run(t, "%s%s", way.in, command)
	after := m.guestClock(t, way)
	seen := awaitMarks(t, tap, heldCount)
	traced := timedMessages(following.stop())
	if after.Sent-before.Sent != heldCount || len(after.Refused) > 0 {
		t.Errorf("ktsn-guest reports %+v before and %+v after", before, after)
	}
	if strings.Contains(command, "--clock") {
		checkNoneEarly(t, traced, seen, heldCount)
	} else {
		checkHeld(t, traced, seen, heldCount, before, after)
	}
	checkMarksReceived(t, receivedTexts(t, listener), heldCount)
	t.Logf("departure errors: %s; the host's time is known within %v", formatDepartures(traced), time.Duration(after.BoundNs))
}

// checkNoneEarly is checkHeld without the machine's clock: the times given to ktsnd are not compared with the requested
// ones.
func checkNoneEarly(t *testing.T, traced []control.TracedMessage, seen []markedPacket, count int) {
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
			// The program's times are a cycle apart on any clock, up to the drift within it.
			apart, asked := traced[i].DueTAI-traced[i-1].DueTAI, message.txtime-seen[i-1].txtime
			if wrong := apart - asked; wrong > int64(1e6) || wrong < -int64(1e6) {
				t.Errorf("messages %d and %d are %d ns apart, and should be %d", i-1, i, apart, asked)
			}
		}
	}
}

const (
	// flooding is the lowest message number of a flood. The pod's messages have lower ones.
	flooding = 1 << 20
	// podPriority maps to the class of the second of threeWindows, that of a flood to the third.
	podPriority, podWindow, floodWindow = 6, 1, 2
)

// writeFlood writes the frames that the machine sends repeatedly: without a time, and with one that has passed.
func (m *machines) writeFlood(t *testing.T, way guestPath) {
	t.Helper()
	f := &framing{source: parseMAC(t, way.mac), destination: interfaceMAC(t, m.a.PodB), from: way.addresses.ipv4, to: topology.PodAddressB,
		port: listenPort + 1, inside: markedPayload(flooding, 0, 64)}
	var text strings.Builder
	for _, record := range []*ownRecord{nil, {version: 1}} {
		f.record = record
		fmt.Fprintln(&text, hex.EncodeToString(f.frame(t, 0)))
	}
	must(t, os.WriteFile(filepath.Join(m.machine.machine.Out, "flood."+way.device), []byte(text.String()), 0o644))
}

// beginFlood fills the machine's queues of both paths from both of its CPUs.
func (m *machines) beginFlood(t *testing.T, span time.Duration) (finish func(*testing.T) (string, error)) {
	t.Helper()
	var script strings.Builder
	for _, way := range m.bothPaths() {
		m.writeFlood(t, way)
		for processor := range 2 {
			fmt.Fprintf(&script, "%staskset -c %d $inside frames --device %s --file /out/flood.%s --flood %v &\n", way.in, processor, way.device, way.device, span)
		}
	}
	return m.machine.begin(t, script.String()+"wait")
}

// podSends sends a message from pod a in the middle of each of its windows and returns its trace.
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
		t.Fatal("the pod continues to send")
	}
	time.Sleep(2 * 50 * time.Millisecond)
	return timedMessages(following.stop())
}

// flood floods from the machine while a pod sends: both keep to their windows, and the pod's messages arrive in order
// and not early.
func (m *machines) flood(t *testing.T) {
	must(t, m.a.client.ScheduleSet(t.Context(), threeWindows()))
	waitForSchedule(t, m.a.client)
	const count = 6
	passed, tap := m.passedFrames(t), m.a.openTap(t, 300_000)
	finish := m.beginFlood(t, 3*time.Second)
	time.Sleep(300 * time.Millisecond)
	traced := m.podSends(t, count)
	output, err := finish(t)
	must(t, err)
	time.Sleep(3 * window)
	seen := awaitMarks(t, tap, 0)
	m.checkFlooded(t, seen, traced, count, m.passedFrames(t)-passed)
	t.Logf("the machine sent %q frames", strings.Fields(output))
	if longGuests {
		m.floodFigures(t)
	}
	m.machine.run(t, "ping -n -q -c 5 -i 0.05 -w 15 %s", ofPodB.ipv4)
}

// passedFrames returns the machine's frames that the bridge forwarded because ktsnd or a relay did not answer.
func (m *machines) passedFrames(t *testing.T) uint64 {
	t.Helper()
	sum := m.a.port(t, machineIdentity).Passed
	for _, counted := range relayCounters(t, m.relays) {
		sum += counted.Bypassed
	}
	return sum
}

func (m *machines) checkFlooded(t *testing.T, seen []markedPacket, traced []control.TracedMessage, count int, passed uint64) {
	t.Helper()
	var ofPod []markedPacket
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
		formatDepartures(traced))
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

// releasedCount is the number of held messages and of messages that the machine releases.
const releasedCount = 100

// checkRelease compares messages that the host holds with the same messages released by the machine's own etf (one of
// two queues below mqprio), which the host forwards at once.
func (m *machines) checkRelease(t *testing.T) {
	way := m.bothPaths()["tap"]
	const send = "%s$inside send --to %s --count %d --cycle 10ms --lead 100ms --priority 3"
	var before guestStatus
	var held, released []int64
	t.Run("held", func(t *testing.T) {
		m.followHost(t, way)
		before = m.guestClock(t, way)
		tap := m.a.openTap(t, 4*releasedCount)
		m.machine.run(t, send, way.in, atPodB, releasedCount)
		held = behindTimes(awaitMarks(t, tap, releasedCount), before)
	})
	t.Run("released", func(t *testing.T) {
		m.machine.run(t, `ktsn-guest detach --interface %[1]s
tc qdisc replace dev %[1]s root handle 100: mqprio num_tc 2 map 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 queues 1@0 1@1 hw 0
tc qdisc replace dev %[1]s parent 100:2 etf clockid CLOCK_TAI delta 500000`, way.device)
		t.Cleanup(func() { m.machine.run(t, "tc qdisc del dev %s root", way.device) })
		tap := m.a.openTap(t, 4*releasedCount)
		m.machine.run(t, send, way.in, atPodB, releasedCount)
		time.Sleep(500 * time.Millisecond)
		seen := awaitMarks(t, tap, 0)
		for i := 1; i < len(seen); i++ {
			if seen[i].number <= seen[i-1].number {
				t.Errorf("message %d follows message %d", seen[i].number, seen[i-1].number)
			}
		}
		released = behindTimes(seen, before)
	})
	if len(held) != releasedCount || len(released) == 0 {
		t.Fatalf("%d of %d messages that are held left, and %d that the machine released", len(held), releasedCount, len(released))
	}
	if early := -held[0]; early > before.BoundNs+int64(time.Millisecond) {
		t.Errorf("a message that was held left %v early", time.Duration(early))
	}
	record(t, reported("messages that left, held by the host", float64(len(held)), ""),
		reported("messages that left, released by the machine's etf", float64(len(released)), ""),
		reported("wire less transmit time, p50, held", spread(held, stats.P50), "µs"), reported("the same, p99", spread(held, stats.P99), "µs"),
		reported("wire less transmit time, p50, released", spread(released, stats.P50), "µs"), reported("the same, p99", spread(released, stats.P99), "µs"),
		limited("p99 held in parts of that released", spread(held, stats.P99)/spread(released, stats.P99), "", 0.2))
}

// behindTimes returns, sorted, how long after their times messages were on the wire, by the machine's estimate of the
// host's clock.
func behindTimes(seen []markedPacket, known guestStatus) (all []int64) {
	for _, message := range seen {
		all = append(all, message.wireTAI-message.txtime-known.AheadNs)
	}
	slices.Sort(all)
	return all
}

// spread returns a percentile of the sorted values' distance from 0 in microseconds.
func spread(all []int64, parts int) float64 {
	distances := make([]int64, len(all))
	for i, value := range all {
		distances[i] = max(value, -value)
	}
	slices.Sort(distances)
	return float64(stats.Percentile(distances, parts)) / 1e3
}
