// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Stopped is for how long a processor must not have run what was due on it for what is about milliseconds to prove nothing.
const Stopped = time.Millisecond

// attempts are how often what failed while the machine was stopped is tried.
const attempts = 3

// stops watches the processors while something is done, and returns the longest time for which one of them did not run a
// thread that was due: what others on the machine, or its host, took. What is late then proves nothing.
func stops(t testing.TB, do func()) time.Duration {
	t.Helper()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var longest atomic.Int64
	var watchers sync.WaitGroup
	end := make(chan struct{})
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			watchers.Go(func() { watchProcessor(cpu, end, &longest) })
		}
	}
	func() {
		defer watchers.Wait()
		defer close(end)
		do()
	}()
	return time.Duration(longest.Load())
}

// Undisturbed runs what a stop of the machine can spoil, and again when it complains and the machine was seen to be stopped for so
// long meanwhile, three times at most. What it complains of while the machine ran, or each time, is wrong.
func Undisturbed(t testing.TB, stopped time.Duration, run func() []string) []string {
	t.Helper()
	for attempt := 1; ; attempt++ {
		var complaints []string
		lost := stops(t, func() { complaints = run() })
		if len(complaints) == 0 || lost < stopped {
			return complaints
		}
		t.Logf("attempt %d of %d: the machine was stopped for %v: %q", attempt, attempts, lost, complaints)
		if attempt == attempts {
			return complaints
		}
	}
}

func watchProcessor(cpu int, end <-chan struct{}, longest *atomic.Int64) {
	const nap = 500 * time.Microsecond
	runtime.LockOSThread() // and never unlocked: the thread ends with its affinity
	var own unix.CPUSet
	own.Set(cpu)
	if unix.SchedSetaffinity(0, &own) != nil {
		return
	}
	for {
		select {
		case <-end:
			return
		default:
		}
		began := time.Now()
		interval := unix.NsecToTimespec(int64(nap))
		_ = unix.Nanosleep(&interval, nil)
		late := int64(time.Since(began) - nap)
		for {
			before := longest.Load()
			if late <= before || longest.CompareAndSwap(before, late) {
				break
			}
		}
	}
}
