// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// reported are the frames of the machine of node a that were dropped or lost by everybody's own account.
func (m *machines) reported(t *testing.T) uint64 {
	t.Helper()
	now, port := counters(t, m.a.client), m.a.port(t, machineIdentity)
	sum := now.Dropped() + now.Uncertain + relayDrops(t, m.a.relays) + relayDrops(t, m.relays) + port.NoRelay + port.Segments + port.NoRoom
	for _, device := range m.a.relayDevices(t) {
		sum += device.Attrs().Statistics.TxDropped
	}
	return sum
}

// disturbed has the machine send datagrams each of which waits on the host for most of a second, does something when half of them are
// handed over, and checks what came of them: none early, twice, or out of order, and none missing that nobody reports.
//
// Without a relay of vhost-user the machine's link is down, and its own kernel drops what programs send: linkGoes allows that.
func (m *machines) disturbed(t *testing.T, way guestPath, linkGoes bool, disturb func()) {
	t.Helper()
	const count, before600ms = 60, 15
	before, reported := m.believes(t, way), m.reported(t)
	tap := m.a.openTap(t, 20*count)
	finish := m.one.begin(t, way.in+"$inside send --to "+atPodB.String()+" --count 60 --cycle 20ms --lead 800ms")
	time.Sleep(count / 2 * 20 * time.Millisecond)
	disturb()
	if output, err := finish(t); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	after := m.believes(t, way)
	time.Sleep(1200 * time.Millisecond)
	seen := awaitMarks(t, tap, 0)
	checkUndisturbed(t, seen, before, after)
	lost := uint64(count - len(seen))
	if now := m.reported(t); linkGoes {
		if len(seen) < before600ms {
			t.Errorf("%d of %d messages left, and more were handed over before", len(seen), count)
		}
	} else if lost > now-min(reported, now) {
		t.Errorf("%d of %d messages are lost, and %d reported; ktsnd counts %+v", lost, count, now-min(reported, now), counters(t, m.a.client))
	}
	t.Logf("%d of %d messages left", len(seen), count)
}

// checkUndisturbed checks that none is early, or not behind the one before it.
func checkUndisturbed(t *testing.T, seen []onWire, before, after guestStatus) {
	t.Helper()
	least := min(before.AheadNs, after.AheadNs) - max(before.BoundNs, after.BoundNs)
	for i, message := range seen {
		if i > 0 && message.number <= seen[i-1].number {
			t.Errorf("message %d is behind message %d", message.number, seen[i-1].number)
		}
		if early := message.txtime + least - message.wireTAI; early > 0 {
			t.Errorf("message %d left %v early", message.number, time.Duration(early))
		}
	}
}

// handed are the frames with a transmit time that relays of node a have handed over.
func (m *machines) handed(t *testing.T) (sum uint64) {
	t.Helper()
	for _, supervisor := range []*process.Process{m.a.relays, m.relays} {
		for _, counted := range relayCounters(t, supervisor) {
			sum += counted.HandedTimed
		}
	}
	return sum
}

// outlive has frames of the machine under way while parts of the node are killed. ktsnd's end is the same for both paths.
func (m *machines) outlive(t *testing.T) {
	for name, way := range m.bothPaths() {
		t.Run(name, func(t *testing.T) {
			m.followHost(t, way)
			if way.device == tapDevice || longGuests {
				t.Run("of ktsnd", func(t *testing.T) { m.disturbed(t, way, false, m.restartDaemon) })
			}
			t.Run("of the relay", func(t *testing.T) {
				m.disturbed(t, way, way.device == vhostDevice, func() {
					if way.device == tapDevice {
						m.a.killRelays(t)
						m.a.awaitRelay(t, machineIdentity)
					} else {
						killChild(t, m.relays.PID())
					}
				})
			})
			m.one.run(t, "%sping -n -q -c 2 -i 0.2 -W 10 %s", way.in, ofOther.ipv4)
		})
	}
}

// restartDaemon has the next ktsnd run until the end of the whole.
func (m *machines) restartDaemon() {
	kill(m.whole, m.a.daemon)
	m.a.restoreDaemon(m.whole, "--link-speed", "1Gbit")
	m.a.awaitRelay(m.whole, machineIdentity)
}

// reset has the machine begin anew while frames of it wait on the host: these leave, and the next system works like the first.
func (m *machines) reset(t *testing.T) {
	m.one.qmp.do(t, "set-action", map[string]any{"reboot": "reset"})
	m.handedOverThen(t, func() {
		m.one.qmp.do(t, "system_reset", nil)
		m.one.awaitAgain(t)
	})
}

// killed is reset with QEMU killed and started again.
func (m *machines) killed(t *testing.T) {
	links := m.a.linksOfNode(t)
	m.handedOverThen(t, func() {
		m.one.kill(t)
		m.one.boot(t)
		m.one.await(m.whole)
	})
	if after := m.a.linksOfNode(t); !slices.Equal(links, after) {
		t.Errorf("the node's interfaces were %q and are %q", links, after)
	}
}

// handedOverThen has the machine hand frames over by both paths, which wait for seconds, ends the machine's system, and checks that
// they leave while it begins again; then that it works.
func (m *machines) handedOverThen(t *testing.T, begin func()) {
	t.Helper()
	const count = 20
	listener := listen(t, m.a.PodB, "udp", atPodB)
	handed := m.handed(t)
	for name, way := range m.bothPaths() {
		t.Run("hand over by "+name, func(t *testing.T) {
			m.followHost(t, way)
			m.one.run(t, "%s$inside send --to %s --count %d --cycle 1ms --lead 4s", way.in, atPodB, count)
		})
	}
	testlab.Eventually(t, 2*time.Second, time.Millisecond, func() error {
		if m.handed(t) < handed+2*count {
			return fmt.Errorf("the relays hand %d of %d frames over", m.handed(t)-handed, 2*count)
		}
		return nil
	})
	begin()
	if got := len(texts(t, listener)); got != 2*count {
		t.Errorf("%d of %d messages that were handed over before arrive", got, 2*count)
	}
	m.setUpOne(t)
	for name, way := range m.bothPaths() {
		t.Run("afterwards by "+name, func(t *testing.T) {
			m.one.run(t, "%sping -n -q -c 5 -i 0.05 -w 15 %s", way.in, ofOther.ipv4)
			m.one.run(t, "%sping -n -q -c 5 -i 0.05 -w 15 %s", way.in, ofPodB.ipv6)
			m.followHost(t, way)
			m.heldOnce(t, way, sendInside)
		})
	}
}
