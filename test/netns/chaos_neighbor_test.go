// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/topology"
)

// departed follows the departures of one flow while it sends: others may overwrite them soon.
type departed struct {
	// errors by the time asked for, in TAI.
	errors     map[int64]time.Duration
	end, ended chan struct{}
}

// firstFlow is ktsnd's number for the first socket that it gets to know.
const firstFlow = 1

func followFirstFlow(t *testing.T, client *control.Client) *departed {
	t.Helper()
	followed := &departed{errors: map[int64]time.Duration{}, end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(followed.ended)
		for after, last := uint64(0), false; !last; {
			select {
			case <-followed.end:
				last = true
			case <-time.After(10 * time.Millisecond):
			}
			page, _, err := client.Departures(t.Context(), after)
			if err != nil {
				t.Errorf("follow the departures: %v", err)
				return
			}
			for _, departure := range page {
				after = departure.Sequence
				if departure.Flow == firstFlow {
					followed.errors[departure.RequestedTAI] = time.Duration(departure.DepartedTAI - departure.RequestedTAI)
				}
			}
		}
	}()
	return followed
}

func (d *departed) stop() {
	close(d.end)
	<-d.ended
}

// handedOver gives the errors of the messages that the talker handed over in time. For the others ktsnd can do
// nothing: the talker itself did not get a processor, which is the scheduler's to share out.
func (d *departed) handedOver(sent []perf.Sent) (errors []time.Duration, late int) {
	const spare = 200 * time.Microsecond
	for _, message := range sent {
		if message.SendEnd > message.Txtime-int64(spare) {
			late++
		} else if departure, ok := d.errors[message.Txtime]; ok {
			errors = append(errors, departure)
		}
	}
	return errors, late
}

// measured is how a good pod fares beside a neighbour.
type measured struct {
	p50, p99, worst time.Duration
	lost            int
	calledLate      int // by the talker itself
	unseen          int // overwritten before they could be read
	neighborSent    uint64
}

// measureBeside sends periodic messages, at that priority, beside a neighbour in that mode; "" is none.
func measureBeside(t *testing.T, mode string, priority, count int) measured {
	t.Helper()
	const cycle = time.Millisecond
	lab := newLab(t)
	options := []string{}
	if runtime.NumCPU() > 1 {
		options = append(options, "--cpu", strconv.Itoa(runtime.NumCPU()-1))
	}
	_, client := lab.startDaemon(t, options...)
	enemy := lab.addHostile(t, client)
	heard := lab.startCounter(t, hostilePort)
	talkerFile, listenerFile := filepath.Join(lab.Dir, "talker.csv"), filepath.Join(lab.Dir, "listener.csv")
	listener := lab.startListener(t, count, listenerFile)
	command := exec.Command(program(t, "tsnperf"), "talker", "--quiet", "--clock", "tai", "--count", strconv.Itoa(count),
		"--csv", talkerFile, "--cycle", cycle.String(), "--lead", "5ms", "--start", "+800ms", "--priority", strconv.Itoa(priority),
		"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String())
	command.Env = lab.preloaded(t)
	talker := start(t, lab.PodA, "talker", command)
	time.Sleep(300 * time.Millisecond)
	following := followFirstFlow(t, client)
	var running *attack
	if mode != "" {
		running = enemy.start(t, mode, time.Duration(count)*cycle+time.Second)
	}
	if err := finish(t, talker); err != nil {
		t.Fatal(err)
	}
	following.stop()
	if running != nil {
		if said := running.achieved(t); said[achievement[mode]] == 0 {
			t.Fatalf("the neighbour achieved nothing: %v", said)
		}
	}
	if err := finish(t, listener); err != nil {
		t.Fatal(err)
	}
	errors, calledLate := following.handedOver(read(t, talkerFile, perf.ReadTalker))
	return measured{quantile(errors, 0.5), quantile(errors, 0.99), quantile(errors, 1),
		count - len(read(t, listenerFile, perf.ReadListener)), calledLate, count - calledLate - len(errors), heard.count()}
}

func (m measured) String() string {
	return fmt.Sprintf("departure error p50 %8v p99 %9v worst %10v; lost %d, handed over late by the talker %d, not seen %d",
		m.p50, m.p99, m.worst, m.lost, m.calledLate, m.unseen)
}

// achievement is what a neighbour must have got done for the measurement to mean anything.
var achievement = map[string]string{"flood": "filled", "bell": "rings", "scribble": "written", "register": "registered", "alarm": "held"}

// A measurement, not a verdict, but for what is lost: run it on a machine that has nothing else to do.
func TestChaosBesideAHostileNeighbor(t *testing.T) {
	const count = 3000
	for _, class := range []struct {
		name     string
		priority int
	}{{"same class", 0}, {"higher class", 6}} {
		alone := measureBeside(t, "", class.priority, count)
		t.Logf("%s %-9s %v", class.name, "alone", alone)
		for _, mode := range []string{"flood", "bell", "scribble"} {
			beside := measureBeside(t, mode, class.priority, count)
			t.Logf("%s %-9s %v; the neighbour sent %d", class.name, mode, beside, beside.neighborSent)
			if beside.lost != 0 {
				t.Errorf("%s, %s: %d messages were lost", class.name, mode, beside.lost)
			}
			name := fmt.Sprintf("beside %s, %s: ", mode, class.name)
			record(t,
				limited(name+"departure error p99, times that without", ratio(beside.p99, alone.p99), "", 1.5),
				limited(name+"messages lost", float64(beside.lost), "messages", 0),
				reported(name+"departure error p99", float64(beside.p99), "ns"),
				reported(name+"without: departure error p99", float64(alone.p99), "ns"))
		}
	}
}
