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

// Stopped is the longest interruption of a processor at which a check in milliseconds still proves something.
const Stopped = time.Millisecond

// attempts limits the attempts of a check that failed while the machine was stopped.
const attempts = 3

// stops returns the longest time for which a processor did not run a thread that was due during a call, because of
// other programs or the host. Delays of that length prove nothing.
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

// Undisturbed repeats a check that the machine's interruptions can spoil. It repeats the check, at most three times, if
// it returns complaints and the machine was stopped for at least stopped meanwhile. It returns the complaints of the
// last attempt.
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
	runtime.LockOSThread() // never unlocked: the thread ends with its affinity
	var affinity unix.CPUSet
	affinity.Set(cpu)
	if unix.SchedSetaffinity(0, &affinity) != nil {
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
