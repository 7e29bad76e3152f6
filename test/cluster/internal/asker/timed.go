// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

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
