// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// ReadTimed is JudgeTimed of the records of tsnperf.
func ReadTimed(talker, listener string) (*Timed, error) {
	sent, err := tsnperf.ReadTalker(strings.NewReader(talker))
	if err != nil {
		return nil, err
	}
	received, err := tsnperf.ReadListener(strings.NewReader(listener))
	if err != nil {
		return nil, err
	}
	return JudgeTimed(sent, received), nil
}

// JudgeTimed compares sent with received timed messages.
func JudgeTimed(sent []tsnperf.Sent, received []tsnperf.Received) *Timed {
	numbers := map[uint32]bool{}
	at := make([]int64, len(received))
	for i := range received {
		numbers[received[i].Sequence] = true
		at[i] = received[i].Arrival
	}
	timed := &Timed{Sent: len(sent), Lost: len(sent) - len(numbers)}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		timed.Gap = max(timed.Gap, time.Duration(at[i]-at[i-1]))
	}
	return timed
}
