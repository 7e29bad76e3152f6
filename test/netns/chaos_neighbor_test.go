// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package netns_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/topology"
)

// followed are the messages of a good pod, as ktsnd saw them, read while they leave.
type followed struct {
	messages   []control.TracedMessage
	end, ended chan struct{}
}

// followPodA traces pod a's messages only: a neighbour may send so many that to read those as well would disturb both.
func (l *lab) followPodA(t *testing.T) *followed {
	t.Helper()
	client, err := control.Dial(t.Context(), l.control)
	if err == nil {
		err = client.TraceStart(t.Context(), identity, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	following := &followed{end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(following.ended)
		defer client.Close()
		for after, last := uint64(0), false; !last; {
			select {
			case <-following.end:
				last = true
			case <-time.After(100 * time.Millisecond):
			}
			page, overwritten, err := client.TraceRead(t.Context(), after)
			if err != nil || overwritten != 0 {
				t.Errorf("follow pod a: %v; %d messages were overwritten", err, overwritten)
				return
			}
			if len(page) > 0 {
				after = page[len(page)-1].Sequence
			}
			following.messages = append(following.messages, page...)
		}
	}()
	return following
}

func (f *followed) stop() []control.TracedMessage {
	close(f.end)
	<-f.ended
	return f.messages
}

// turn is a time, in TAI, during which a neighbour did one thing.
type turn struct {
	mode     string
	from, to int64
}

// alone is the mode of a neighbour that does nothing.
const alone = "alone"

// achievement is what a neighbour must have got done for the measurement to mean anything.
var achievement = map[string]string{"flood": "filled", "bell": "rings", "scribble": "written"}

// take has the neighbour do it for a while. What is measured begins when it has begun, and ends before it does.
func (h *hostile) take(t *testing.T, mode string, length time.Duration) turn {
	t.Helper()
	const before, after = 150 * time.Millisecond, 50 * time.Millisecond
	var running *attack
	if mode != alone {
		running = h.start(t, mode, before+length+after)
	}
	time.Sleep(before)
	taken := turn{mode: mode, from: clockTAI()}
	time.Sleep(length)
	taken.to = clockTAI()
	if running != nil {
		if said := running.achieved(t); said[achievement[mode]] == 0 {
			t.Fatalf("the neighbour achieved nothing: %v", said)
		}
	}
	time.Sleep(after)
	return taken
}

// fared is how a good pod's messages did in one turn.
type fared struct {
	p50, p99, worst time.Duration
	count           int
	lost            int
	calledLate      int // by the talker itself
}

func (f fared) String() string {
	return fmt.Sprintf("departure error p50 %8v p99 %9v worst %10v of %d; lost %d, handed over late by the talker %d",
		f.p50, f.p99, f.worst, f.count, f.lost, f.calledLate)
}

// fare takes the messages that were due in a turn. For those that the talker did not hand over in time ktsnd can do
// nothing: the talker itself did not get a processor, which is the scheduler's to share out.
func (o turn) fare(traced []control.TracedMessage, sent []perf.Sent, received []perf.Received) fared {
	const spare = 200 * time.Microsecond
	arrived := map[int64]bool{}
	for _, message := range received {
		arrived[message.Txtime] = true
	}
	late := map[int64]bool{}
	result := fared{}
	for _, message := range sent {
		if message.Txtime < o.from || message.Txtime >= o.to {
			continue
		}
		if !arrived[message.Txtime] {
			result.lost++
		}
		if message.SendEnd > message.Txtime-int64(spare) {
			late[message.Txtime] = true
			result.calledLate++
		}
	}
	var errors []time.Duration
	for _, message := range traced {
		if message.DueTAI >= o.from && message.DueTAI < o.to && !late[message.DueTAI] {
			errors = append(errors, time.Duration(message.EndedTAI-message.DueTAI))
		}
	}
	result.count = len(errors)
	result.p50, result.p99, result.worst = quantile(errors, 0.5), quantile(errors, 0.99), quantile(errors, 1)
	return result
}

// beside sends periodic messages from pod a, at that priority, while a neighbour has its turns in each mode, and without
// it between them, and returns how they fared by mode.
func beside(t *testing.T, modes []string, turns, priority int) map[string][]fared {
	t.Helper()
	const cycle, length = time.Millisecond, time.Second
	lab := newLab(t)
	options := []string{}
	if runtime.NumCPU() > 1 {
		options = append(options, "--cpu", strconv.Itoa(runtime.NumCPU()-1))
	}
	_, client := lab.startDaemon(t, options...)
	enemy := lab.addHostile(t, client)
	lab.startCounter(t, hostilePort)
	talkerFile, listenerFile := filepath.Join(lab.Dir, "talker.csv"), filepath.Join(lab.Dir, "listener.csv")
	listener := lab.startListener(t, forGood, listenerFile)
	following := lab.followPodA(t)
	talker := lab.startServedTalker(t, "--count", "1000000", "--csv", talkerFile, "--cycle", cycle.String(), "--lead", "5ms",
		"--start", "+500ms", "--priority", strconv.Itoa(priority),
		"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String())
	time.Sleep(time.Second)
	var all []turn
	for range turns {
		for _, mode := range modes {
			all = append(all, enemy.take(t, mode, length))
		}
	}
	interrupt(t, talker)
	drain(t, listener)
	traced := following.stop()
	sent, received := read(t, talkerFile, perf.ReadTalker), read(t, listenerFile, perf.ReadListener)
	byMode := map[string][]fared{}
	for _, one := range all {
		result := one.fare(traced, sent, received)
		t.Logf("%-9s %v", one.mode, result)
		byMode[one.mode] = append(byMode[one.mode], result)
	}
	return byMode
}

// median p99 of the turns, and what was lost in all of them.
func summarize(all []fared) (p99 time.Duration, lost int) {
	var p99s []time.Duration
	for _, one := range all {
		p99s = append(p99s, one.p99)
		lost += one.lost
	}
	return quantile(p99s, 0.5), lost
}

// A measurement, not a verdict, but for what is lost: run it on a machine that has nothing else to do. The neighbour's
// modes and none have their turns in one run, so that what disturbs the machine disturbs all; what counts is the median
// of the turns.
func TestChaosBesideAHostileNeighbor(t *testing.T) {
	const turns = 7
	hostileModes := []string{"flood", "bell", "scribble"}
	for _, class := range []struct {
		name     string
		priority int
	}{{"same class", 0}, {"higher class", 6}} {
		t.Run(class.name, func(t *testing.T) {
			byMode := beside(t, append([]string{alone}, hostileModes...), turns, class.priority)
			without, _ := summarize(byMode[alone])
			record(t, reported(class.name+", no neighbour: departure error p99, median of the turns", float64(without), "ns"))
			for _, mode := range hostileModes {
				with, lost := summarize(byMode[mode])
				if lost != 0 {
					t.Errorf("beside %s %d messages were lost", mode, lost)
				}
				name := fmt.Sprintf("%s, beside %s: ", class.name, mode)
				record(t,
					limited(name+"departure error p99, times that without", ratio(with, without), "", 1.5),
					limited(name+"messages lost", float64(lost), "messages", 0),
					reported(name+"departure error p99, median of the turns", float64(with), "ns"))
			}
		})
	}
}
