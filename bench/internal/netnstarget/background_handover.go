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

// leastLead is how long before its time a message must be handed over to count as ktsnd's: it is longer than ktsnd is awake
// before a departure (--spin).
const leastLead = 200 * time.Microsecond

// handOvers is what the talkers say of how they handed their messages over.
type handOvers struct {
	// late are the transmit times of messages whose talker woke too late, or was not through with those before. A message that
	// was late because a send call waited for ktsnd is not among them.
	late map[int64]bool
	// failed are send calls.
	failed int
	// cpuTime is what all talkers took while they sent.
	cpuTime time.Duration
	// wakeups are how late talkers woke from a sleep.
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

// add takes the messages of one talker, in their order. It goes through them once more with send calls that take no time: what is
// late then is so because of the talker, all else because of ktsnd.
func (h *handOvers) add(sent []tsnperf.Sent, lead time.Duration) {
	// When the call before had ended, and when the talker would have been through if calls took no time.
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
