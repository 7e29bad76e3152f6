// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"errors"
	"math"
	"os"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// leastLead is how long before its time a message must be handed over to count: it is longer than ktsnd's busy-waiting
// before a departure (--spin).
const leastLead = 200 * time.Microsecond

// handOvers summarises how the talkers handed over their messages.
type handOvers struct {
	// late are the transmit times of messages whose talker woke too late, or had not finished earlier ones. Messages
	// that were late because a send call waited for ktsnd are not included.
	late map[int64]bool
	// failed is the number of failed send calls.
	failed int
	// cpuTime is the processor time of all talkers while they sent.
	cpuTime time.Duration
	// wakeups are the delays of the talkers' wake-ups.
	wakeups []int64
}

func readHandOvers(talkers []talker, lead time.Duration) (*handOvers, error) {
	all := &handOvers{late: map[int64]bool{}}
	for _, current := range talkers {
		sent, err := readFile(current.records, tsnperf.ReadTalker)
		used, cpuErr := readFile(current.cpuTime, tsnperf.ReadCPUTime)
		if err := errors.Join(err, cpuErr, os.Remove(current.records), os.Remove(current.cpuTime)); err != nil {
			return nil, err
		}
		all.cpuTime += used
		all.add(sent, lead)
	}
	return all, nil
}

// add adds the messages of one talker in order. It simulates send calls without duration: messages that are late even
// so are the talker's fault, all others ktsnd's.
func (h *handOvers) add(sent []tsnperf.Sent, lead time.Duration) {
	// The end of the previous call, and the end that it would have had without duration.
	ended, readyAt := int64(math.MinInt64), int64(0)
	for _, message := range sent {
		awake := message.Txtime - lead.Nanoseconds()
		if ended < awake {
			h.wakeups = append(h.wakeups, message.Wakeup-awake)
			readyAt = message.SendStart
		} else {
			readyAt = max(awake, readyAt+message.SendStart-ended)
		}
		if readyAt > message.Txtime-leastLead.Nanoseconds() {
			h.late[message.Txtime] = true
		}
		if message.Errno != 0 {
			h.failed++
		}
		ended = message.SendEnd
	}
}

func (h *handOvers) wakeupNs() int64 { return stats.Median(h.wakeups) }
