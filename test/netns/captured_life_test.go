// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// startCapturedFlow starts the static Go talker in pod a, which sends until it is stopped.
func (c *captured) startCapturedFlow(t *testing.T, options ...string) *flow {
	t.Helper()
	f := listenFor(t, c.PodB, atPodB, unlimited)
	f.talker = start(t, c.PodA, "talker", goTalker(t, f.talkerFile, atPodB, append([]string{"--count", strconv.Itoa(unlimited)}, options...)...))
	return f
}

// awaitSent waits until count messages have left.
func (c *captured) awaitSent(t *testing.T, more uint64) {
	t.Helper()
	before := counters(t, c.client).Sent
	awaitCounters(t, c.client, fmt.Sprintf("%d more messages are sent", more), func(counted control.Counters) bool { return counted.Sent >= before+more })
}

// checkLosses checks that no message arrived early or twice and that each lost one is accounted for.
func checkLosses(t *testing.T, f *flow, accounted uint64) {
	t.Helper()
	for _, message := range f.received {
		if message.Arrival < message.Txtime || !message.Valid {
			t.Errorf("message %d arrived at %d, due at %d, intact: %v", message.Sequence, message.Arrival, message.Txtime, message.Valid)
		}
	}
	lost := f.lost(t)
	if uint64(len(lost)) > accounted {
		t.Errorf("%d of %d messages are missing, and %d accounted for: %v", len(lost), len(f.sent), accounted, firstOf(lost))
	}
	t.Logf("%d sent, %d received, %d lost, %d accounted for", len(f.sent), len(f.received), len(lost), accounted)
	f.checkWentOn(t, 200)
}

func firstOf(all []uint32) []uint32 { return all[:min(len(all), 20)] }

// newCapturedPod returns another pod of node a, attached until the end of the test or detach.
func (c *captured) newCapturedPod(t *testing.T, number int) (*topology.Namespace, *cniruntime.Side) {
	t.Helper()
	name := fmt.Sprintf("more-%d", number)
	pod := newNamespace(t, c.ID.String()+"-"+name)
	side := c.wiring.A.Another(name, pod, netip.AddrFrom4([4]byte{10, 42, 1, byte(10 + number)}))
	c.attachSide(t, side)
	return pod, side
}

// TestCapturedPodsComeAndGo checks that pods that are added and removed do not affect the frames of another.
func TestCapturedPodsComeAndGo(t *testing.T) {
	timing(t)
	for _, mode := range []capture.Mode{capture.Timed, capture.All} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			c := newCaptured(t, mode)
			running := c.startCapturedFlow(t)
			for i := range 6 {
				pod, side := c.newCapturedPod(t, i)
				c.awaitRelay(t, side.ContainerID)
				sending := start(t, pod, "talker", goTalker(t, t.TempDir()+"/sent", netip.AddrPortFrom(topology.PodAddressB, listenPort+1),
					"--count", "1000000"))
				c.awaitSent(t, 100)
				if i%2 == 0 { // else while it sends
					kill(t, sending)
				}
				must(t, side.Detach(t.Context()))
				c.awaitNoRelay(t, side.ContainerID)
			}
			interrupt(t, running.talker)
			running.drain(t)
			checkLosses(t, running, 0)
			c.checkDevices(t, 1)
		})
	}
}

// awaitNoRelay waits until a pod's relay is removed completely.
func (c *captured) awaitNoRelay(t *testing.T, pod string) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if c.hasRelay(t, pod) {
			return fmt.Errorf("ktsnd still serves a relay of %s; the supervisor's log: %s", pod, c.relays.Stderr())
		}
		return nil
	})
}

// checkDevices waits until node a has want devices of relays.
func (c *captured) checkDevices(t *testing.T, want int) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		devices := c.relayDevices(t)
		if len(devices) == want {
			return nil
		}
		return fmt.Errorf("want %d devices of relays, there are %+v", want, devices)
	})
}

// TestKilledDuringCaptureLosesNothingUncounted kills programs while frames flow: no frame leaves early or twice, and
// each lost one is accounted for.
func TestKilledDuringCaptureLosesNothingUncounted(t *testing.T) {
	timing(t)
	const kills = 5
	for name, test := range map[string]struct {
		kill func(*testing.T, *captured, *sum)
		// unread means that frames can be lost with the device where they wait for a relay.
		unread bool
	}{
		"the relay": {func(t *testing.T, c *captured, _ *sum) { c.killRelays(t) }, false},
		"ktsnd": {func(t *testing.T, c *captured, total *sum) {
			total.add(counters(t, c.client))
			kill(t, c.daemon)
			c.restoreDaemon(t)
		}, false},
		"the supervisor": {func(t *testing.T, c *captured, _ *sum) {
			relays := c.relayPIDs(t)
			kill(t, c.relays)
			awaitExit(t, relays)
			c.startRelays(t)
		}, true},
	} {
		for _, mode := range []capture.Mode{capture.Timed, capture.All} {
			t.Run(name+", mode "+mode.String(), func(t *testing.T) {
				t.Parallel()
				c := newCaptured(t, mode)
				running := c.startCapturedFlow(t)
				var total sum
				for range kills {
					c.awaitSent(t, 50)
					time.Sleep(rand.N(20 * time.Millisecond))
					test.kill(t, c, &total)
				}
				c.awaitRelay(t, identity)
				c.awaitSent(t, 50)
				served := c.countFrames(t).captured
				c.awaitSent(t, 50)
				interrupt(t, running.talker)
				c.awaitQuiet(t)
				running.drain(t)
				counted, ktsnd := c.countFrames(t), counters(t, c.client)
				total.add(ktsnd)
				// A relay can be killed between reading and counting a frame.
				accounted := total.uncertain + total.dropped + counted.refused + kills
				if test.unread {
					accounted += counted.captured - (ktsnd.Taken - ktsnd.Untimed)
				}
				if sent := uint64(len(running.sent)); counted.captured != sent {
					t.Errorf("%d frames got a record, and %d were sent", counted.captured, sent)
				}
				checkLosses(t, running, accounted)
				if test.unread {
					checkGaps(t, running.lost(t), kills, served)
				}
			})
		}
	}
}

// checkGaps checks that each kill causes at most one gap, and none after the first message that the last relay served.
func checkGaps(t *testing.T, lost []uint32, kills int, served uint64) {
	t.Helper()
	gaps := 0
	for i, number := range lost {
		if i == 0 || number != lost[i-1]+1 {
			gaps++
		}
		if uint64(number) > served {
			t.Errorf("message %d is missing, and the last relay served from message %d on", number, served)
		}
	}
	if gaps > kills {
		t.Errorf("%d messages are missing in %d gaps, and there were %d kills: %v", len(lost), gaps, kills, firstOf(lost))
	}
	t.Logf("%d missing in %d gaps, served from %d on", len(lost), gaps, served)
}

// awaitQuiet waits until a relay has handed over all waiting frames and no more leave.
func (c *captured) awaitQuiet(t *testing.T) {
	t.Helper()
	c.awaitRelay(t, identity)
	last, since := uint64(0), time.Now()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if time.Since(since) < time.Second {
			status := statusOf(t, c.client)
			timed := status.Counters.Sent - status.Counters.Untimed
			if timed != last || status.Pending > 0 || len(c.relayPIDs(t)) == 0 {
				last, since = timed, time.Now()
			}
			return fmt.Errorf("frames go on to leave: %+v", status)
		}
		return nil
	})
}
