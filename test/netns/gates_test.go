// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// window is a third of the cycle of threeWindows, longer than any disturbance of the machine.
const window = 100 * time.Millisecond

// threeWindows opens the gate of class 7, then that of class 6, then those of the others.
func threeWindows() *control.GateParameterTable {
	table := &control.GateParameterTable{GateEnabled: true, AdminGateStates: 255,
		AdminCycleTime: control.CycleTime{Numerator: 3, Denominator: 10}}
	for index, states := range []uint8{0x80, 0x40, 0x3f} {
		table.AdminControlList.Entries = append(table.AdminControlList.Entries, control.GateControlEntry{
			Index: uint32(index), OperationName: "set-gate-states",
			TimeIntervalValue: uint32(window.Nanoseconds()), GateStatesValue: states})
	}
	return table
}

// sendAt sends one message from pod a and returns once the program has ended.
func (l *lab) sendAt(t *testing.T, options []string, offset time.Duration, text string) {
	t.Helper()
	arguments := slices.Concat(options, connectedTo(atPodB), []string{strconv.FormatInt(offset.Microseconds(), 10) + ":" + text})
	command := exec.Command(program(t, "ktsn-test-send"), arguments...)
	command.Env = l.preloaded(t)
	must(t, finish(t, start(t, l.PodA, "ktsn-test-send", command)))
}

func TestEachClassLeavesInItsWindow(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	must(t, client.ScheduleSet(t.Context(), threeWindows()))
	waitForSchedule(t, client)
	for name, test := range map[string]struct {
		priority string
		window   int64
	}{
		"the highest priority": {"7", 0}, "the one below": {"6", 1}, "no priority": {"0", 2},
		"the lowest": {"1", 2}, "one above those that everybody may have": {"14", 1},
	} {
		t.Run(name, func(t *testing.T) {
			tap := lab.openTap(t, 100)
			lab.receive(t, 12, func() {
				for i := range 12 {
					lab.sendAt(t, []string{"--priority", test.priority}, time.Duration(i)*25*time.Millisecond, "x")
				}
			})
			seen := &observed{}
			seen.addPackets(t, tap)
			cycle := 3 * window.Nanoseconds()
			for _, wire := range seen.wireTAI {
				if got := wire % cycle / window.Nanoseconds(); got != test.window {
					t.Errorf("on the wire %v after the begin of a cycle, which is window %d, want %d",
						time.Duration(wire%cycle), got, test.window)
				}
			}
			if len(seen.wireTAI) != 12 {
				t.Errorf("%d frames on the wire, want 12", len(seen.wireTAI))
			}
		})
	}
	counters := awaitSettled(t, client)
	if counters.LateGate == 0 || counters.Sent != counters.Taken {
		t.Errorf("counted %+v", counters)
	}
}

// waitForSchedule waits until no change is pending.
func waitForSchedule(t *testing.T, client *control.Client) *control.Schedule {
	t.Helper()
	return testlab.EventuallyValue(t, patience, 10*time.Millisecond, func() (*control.Schedule, error) {
		schedule, err := client.Schedule(t.Context())
		must(t, err)
		if !schedule.Table.ConfigPending {
			return schedule, nil
		}
		return nil, errors.New("the schedule stays pending")
	})
}

func TestEtfDropsLateFrames(t *testing.T) {
	timing(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	must(t, client.StrategySet(t.Context(), "etf"))
	arrivals := lab.receive(t, 1, func() {
		lab.sendAt(t, nil, -time.Millisecond, "late")
		lab.sendAt(t, []string{"--deadline"}, 20*time.Millisecond, "deadline")
		if counted := awaitSettled(t, client); counted.DropTxtime != 2 || counted.Taken != 2 {
			t.Errorf("%d of %d messages dropped for their transmit time, want 2", counted.DropTxtime, counted.Taken)
		}
		// A busy machine may wake up late, and then the message is rightly dropped.
		for begun := time.Now(); awaitSettled(t, client).Sent == 0; {
			if time.Since(begun) > patience {
				t.Fatalf("nothing leaves: %+v", counters(t, client))
			}
			lab.sendAt(t, nil, 20*time.Millisecond, "in time")
		}
	})
	if arrivals[0].text != "in time" {
		t.Errorf("%q arrived", arrivals[0].text)
	}
	must(t, client.StrategySet(t.Context(), "tas"))
	lab.receive(t, 1, func() { lab.sendAt(t, nil, -time.Millisecond, "late") })
}

func TestFramesCarryTheirClassInTheVLANTag(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t, "--vlan", "3")
	for priority, pcp := range map[string]uint8{"0": 0, "1": 1, "2": 2, "6": 6} {
		t.Run("priority "+priority, func(t *testing.T) {
			tap := lab.openTap(t, 100)
			lab.sendAt(t, []string{"--priority", priority}, 5*time.Millisecond, "tagged")
			awaitSettled(t, client)
			awaitWire(t, tap, 1, isTunnelled)
			tags := tagsOf(stopTap(t, tap))
			if len(tags) != 1 || tags[0] != (wiretap.VLANTag{ID: 3, PCP: pcp}) {
				t.Errorf("tags on the wire %+v, want VLAN 3 with PCP %d once", tags, pcp)
			}
		})
	}
}

// isTunnelled reports whether a frame is a pod's datagram.
func isTunnelled(frame wiretap.Packet) bool {
	datagram, err := wiretap.Dissect(frame.Head)
	return err == nil && datagram.VNI == topology.VNI
}

// tagsOf returns the VLAN tags of the UDP frames.
func tagsOf(frames []wiretap.Packet) []wiretap.VLANTag {
	var tags []wiretap.VLANTag
	for _, packet := range frames {
		if isTunnelled(packet) {
			tag := wiretap.VLANTag{}
			if packet.VLAN != nil {
				tag = *packet.VLAN
			}
			tags = append(tags, tag)
		}
	}
	return tags
}
