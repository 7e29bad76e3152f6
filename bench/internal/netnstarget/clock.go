// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// clockReads are enough for a p99.
const clockReads = 10_000

// measureClock bounds the accuracy of a stamp, by reading the clock with a system call: all stamps are readings of this
// machine's CLOCK_TAI or, on the wire, of the same clock by the kernel.
func measureClock() (results.Clock, error) {
	taken := make([]int64, clockReads)
	last, err := readTAI()
	if err != nil {
		return results.Clock{}, err
	}
	for i := range taken {
		now, err := readTAI()
		if err != nil {
			return results.Clock{}, err
		}
		taken[i], last = now-last, now
	}
	reads := stats.Summarize(taken)
	return results.Clock{ReadNs: reads.P50, ReadP99Ns: reads.P99,
		About: fmt.Sprintf("Talker, ktsnd, link and listener have one clock, CLOCK_TAI of this machine: there is no error of "+
			"synchronisation. A system call that reads it takes %d ns in the median and %d ns at p99; the programs read it without "+
			"one, which takes less.", reads.P50, reads.P99)}, nil
}

func readTAI() (int64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &now); err != nil {
		return 0, fmt.Errorf("read CLOCK_TAI: %w", err)
	}
	return now.Nano(), nil
}
