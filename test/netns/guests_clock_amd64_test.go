// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// hostTime is the machine's estimate of the host's time, between two reads of its counter: test/netns/inside.
type hostTime struct {
	Before, After       uint64
	TAI, Ahead, BoundNs int64
	Known               bool
}

// reading is the host's clock at a value of its counter.
type reading struct {
	tsc uint64
	tai int64
}

// checkClockBound compares the machine's estimate with the host's clock: the machine's counter is the host's plus a
// constant, which exchanges over shared memory bound to microseconds.
func (m *machines) checkClockBound(t *testing.T) {
	way := m.bothPaths()["tap"]
	m.followHost(t, way)
	t.Run("idle", func(t *testing.T) { m.checkBound(t, way, "", func() {}) })
	t.Run("loaded CPUs", func(t *testing.T) {
		m.checkBound(t, way, "for _ in 1 2 3; do timeout 5 sh -c 'while :; do :; done' >/dev/null 2>&1 & done\n", func() {})
	})
	t.Run("QEMU stopped for two seconds", func(t *testing.T) {
		m.checkBound(t, way, "", func() { m.pauseQEMU(t, 2*time.Second) })
	})
}

func (m *machines) pauseQEMU(t *testing.T, pause time.Duration) {
	t.Helper()
	must(t, syscall.Kill(m.machine.pid(t), syscall.SIGSTOP))
	time.Sleep(pause)
	must(t, syscall.Kill(m.machine.pid(t), syscall.SIGCONT))
}

func (m *machines) checkBound(t *testing.T, way guestPath, before string, meanwhile func()) {
	t.Helper()
	const exchanges = 3000
	page, err := guestclock.Map(m.page)
	must(t, err)
	finish := m.machine.begin(t, fmt.Sprintf("%s$inside belief --device %s --answers %d --for 3s", before, way.device, exchanges))
	asked, err := page.Ask(exchanges, time.Minute)
	must(t, err)
	end, readings := make(chan struct{}), make(chan []reading)
	go func() { readings <- readHost(end) }()
	meanwhile()
	output, err := finish(t)
	close(end)
	truth := <-readings
	must(t, err)
	least, most := constant(asked)
	if most < least {
		t.Fatal("the machine's counter is not the host's plus a constant")
	}
	checkBelieved(t, output, truth, least, most)
}

// constant returns the minimum and maximum difference between the machine's counter and the host's.
func constant(asked []guestclock.Exchange) (least, most int64) {
	least, most = math.MinInt64, math.MaxInt64
	for _, exchange := range asked {
		least, most = max(least, int64(exchange.Guest-exchange.After)), min(most, int64(exchange.Guest-exchange.Before))
	}
	return least, most
}

// readHost reads clock and counter of the host until the end of the context.
func readHost(end <-chan struct{}) (all []reading) {
	for {
		best, took := reading{}, uint64(math.MaxUint64)
		for range 4 {
			before := guestclock.TSC()
			tai := testlab.ClockNow(unix.CLOCK_TAI)
			if after := guestclock.TSC(); after-before < took {
				best, took = reading{before + (after-before)/2, tai}, after-before
			}
		}
		all = append(all, best)
		select {
		case <-end:
			return all
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// checkBelieved checks that no estimate is further from the host's clock than its bound plus the uncertainty of the
// comparison.
func checkBelieved(t *testing.T, output string, truth []reading, least, most int64) {
	t.Helper()
	perTick := float64(truth[len(truth)-1].tai-truth[0].tai) / float64(truth[len(truth)-1].tsc-truth[0].tsc)
	width := int64(float64(most-least) / 2 * perTick)
	var errors, bounds []int64
	for line := range strings.Lines(output) {
		var estimate hostTime
		if err := json.Unmarshal([]byte(line), &estimate); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		at := estimate.Before + (estimate.After-estimate.Before)/2 - uint64(least+(most-least)/2)
		tai, known := taiAt(truth, at)
		if !estimate.Known || !known {
			continue
		}
		within := width + int64(float64(estimate.After-estimate.Before)/2*perTick) + 1000 // of the host's own reading
		wrong := estimate.TAI + estimate.Ahead - tai
		if wrong > estimate.BoundNs+within || wrong < -estimate.BoundNs-within {
			t.Errorf("the estimate is wrong by %d ns, and its bound is %d; the comparison is uncertain by %d", wrong, estimate.BoundNs, within)
		}
		errors, bounds = append(errors, max(wrong, -wrong)), append(bounds, estimate.BoundNs)
	}
	if len(errors) < 10 {
		t.Fatalf("there are %d beliefs to compare:\n%s", len(errors), output)
	}
	slices.Sort(errors)
	slices.Sort(bounds)
	t.Logf("%d beliefs; true error p50 %v, p99 %v, most %v; bound p50 %v, most %v; compared within %v", len(errors),
		time.Duration(stats.Percentile(errors, stats.P50)), time.Duration(stats.Percentile(errors, stats.P99)), time.Duration(errors[len(errors)-1]),
		time.Duration(stats.Percentile(bounds, stats.P50)), time.Duration(bounds[len(bounds)-1]), time.Duration(width))
}

// taiAt returns the host's clock between two close readings.
func taiAt(all []reading, tsc uint64) (int64, bool) {
	behind, _ := slices.BinarySearchFunc(all, tsc, func(r reading, tsc uint64) int {
		if r.tsc <= tsc {
			return -1
		}
		return 1
	})
	if behind == 0 || behind == len(all) {
		return 0, false
	}
	before, after := all[behind-1], all[behind]
	part := float64(tsc-before.tsc) / float64(after.tsc-before.tsc)
	return before.tai + int64(math.Round(part*float64(after.tai-before.tai))), true
}

// checkClockContradiction makes clocks jump: the hypervisor stops the machine, and the host's clock is set.
func (m *machines) checkClockContradiction(t *testing.T) {
	way := m.bothPaths()["tap"]
	t.Run("the machine is paused", func(t *testing.T) {
		m.followHost(t, way)
		jumps := m.jumpsSaid(t, way)
		m.machine.qmp.do(t, "stop", nil)
		time.Sleep(2 * time.Second)
		m.machine.qmp.do(t, "cont", nil)
		m.awaitJump(t, way, jumps+1)
		m.checkBound(t, way, "", func() {})
		m.heldOnce(t, way, sendInside)
	})
	t.Run("the host's clock is set", func(t *testing.T) {
		must(t, m.clock.Stop(patience))
		step := m.serveSteppedClock(t)
		m.followHost(t, way)
		before := m.guestClock(t, way)
		for i, by := range []time.Duration{300 * time.Millisecond, 0} {
			jumps := m.jumpsSaid(t, way)
			step <- by
			m.awaitJump(t, way, jumps+1)
			after := m.guestClock(t, way)
			moved := time.Duration(after.AheadNs - before.AheadNs)
			if off := (moved - by).Abs(); off > time.Duration(before.BoundNs+after.BoundNs)+time.Millisecond {
				t.Errorf("step %d: what the host is ahead has moved by %v, and its clock was set by %v", i, moved, by)
			}
		}
	})
	m.startClock()
}

const jumpSaid = "the host's clock was set, or this machine stood still"

func (m *machines) jumpsSaid(t *testing.T, way guestPath) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.machine.machine.Out, "ktsn-guest."+way.device))
	must(t, err)
	return strings.Count(string(text), jumpSaid)
}

func (m *machines) awaitJump(t *testing.T, way guestPath, want int) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if m.jumpsSaid(t, way) < want {
			return fmt.Errorf("ktsn-guest never reports %q", jumpSaid)
		}
		return nil
	})
}

// serveSteppedClock runs `ktsn vm clock` with a clock that the test sets.
func (m *machines) serveSteppedClock(t *testing.T) chan<- time.Duration {
	t.Helper()
	conn, err := net.Dial("unix", m.tap.Clock)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	stepped := &steppedClock{Conn: conn, step: make(chan time.Duration, 1)}
	go func() { ended <- hosttime.Serve(ctx, stepped, 0) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return stepped.step
}

// steppedClock adds to the times of replies.
type steppedClock struct {
	net.Conn
	step chan time.Duration
	by   time.Duration
}

// Write changes both readings of CLOCK_TAI in hosttime.Reply.
func (s *steppedClock) Write(reply []byte) (int, error) {
	select {
	case s.by = <-s.step:
	default:
	}
	changed := slices.Clone(reply)
	for _, at := range []int{8, 16} {
		binary.LittleEndian.PutUint64(changed[at:], binary.LittleEndian.Uint64(changed[at:])+uint64(s.by))
	}
	return s.Conn.Write(changed)
}
