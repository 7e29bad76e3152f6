// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package netns_test

import (
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
	errors      []time.Duration
	overwritten uint64
	end, ended  chan struct{}
}

// firstFlow is ktsnd's number for the first socket that it gets to know.
const firstFlow = 1

func followFirstFlow(t *testing.T, client *control.Client) *departed {
	t.Helper()
	followed := &departed{end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(followed.ended)
		for after, last := uint64(0), false; !last; {
			select {
			case <-followed.end:
				last = true
			case <-time.After(50 * time.Millisecond):
			}
			page, overwritten, err := client.Departures(t.Context(), after)
			if err != nil {
				t.Errorf("follow the departures: %v", err)
				return
			}
			followed.overwritten += overwritten
			for _, departure := range page {
				after = departure.Sequence
				if departure.Flow == firstFlow {
					followed.errors = append(followed.errors, time.Duration(departure.DepartedTAI-departure.RequestedTAI))
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

// measured is how a good pod fares beside a neighbour.
type measured struct {
	p50, p99, worst time.Duration
	lost            int
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
	listenerFile := filepath.Join(lab.Dir, "listener.csv")
	listener := lab.startListener(t, count, listenerFile)
	command := exec.Command(program(t, "tsnperf"), "talker", "--quiet", "--clock", "tai", "--count", strconv.Itoa(count),
		"--cycle", cycle.String(), "--lead", "1ms", "--start", "+800ms", "--priority", strconv.Itoa(priority),
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
		running.achieved(t)
	}
	if err := finish(t, listener); err != nil {
		t.Fatal(err)
	}
	return measured{quantile(following.errors, 0.5), quantile(following.errors, 0.99), quantile(following.errors, 1),
		count - len(read(t, listenerFile, perf.ReadListener)), heard.count.Load()}
}

// A measurement, not a verdict, but for what is lost: run it on a machine that has nothing else to do.
func TestChaosBesideAHostileNeighbor(t *testing.T) {
	const count = 3000
	for name, priority := range map[string]int{"in the same class": 0, "in a higher class": 6} {
		alone := measureBeside(t, "", priority, count)
		t.Logf("%-18s %-9s departure error p50 %8v p99 %8v worst %10v lost %d", name, "alone", alone.p50, alone.p99, alone.worst,
			alone.lost)
		for _, mode := range []string{"flood", "bell", "scribble"} {
			beside := measureBeside(t, mode, priority, count)
			t.Logf("%-18s %-9s departure error p50 %8v p99 %8v worst %10v lost %d; p99 is %.2f times that without, limit 1.5; "+
				"the neighbour sent %d", name, mode, beside.p50, beside.p99, beside.worst, beside.lost,
				float64(beside.p99)/float64(alone.p99), beside.neighborSent)
			if beside.lost != 0 {
				t.Errorf("%s, %s: %d messages were lost", name, mode, beside.lost)
			}
		}
	}
}
