// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"sort"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// TakeRequested replaces the transmit times of messages from a virtual machine by those that ktsnd got: for each
// message the nearest departure, within half a cycle, of the flow that has most of them. The machine's error about the
// host's time is much smaller. A message without a departure keeps its time.
func TakeRequested(sent []tsnperf.Sent, departures []control.Departure, cycle time.Duration) {
	near := func(d *control.Departure) bool {
		at := nearest(sent, d.RequestedTAI)
		return at >= 0 && 2*max(d.RequestedTAI-sent[at].Txtime, sent[at].Txtime-d.RequestedTAI) < cycle.Nanoseconds()
	}
	requested := map[int]int64{}
	for _, departure := range ofLargestFlow(departures, near) {
		requested[nearest(sent, departure.RequestedTAI)] = departure.RequestedTAI
	}
	for at, txtime := range requested {
		sent[at].Txtime = txtime
	}
}

// nearest returns the message with the nearest time, -1 if there is none. The times ascend.
func nearest(sent []tsnperf.Sent, tai int64) int {
	after := sort.Search(len(sent), func(i int) bool { return sent[i].Txtime >= tai })
	switch {
	case after == len(sent):
		return after - 1
	case after > 0 && tai-sent[after-1].Txtime < sent[after].Txtime-tai:
		return after - 1
	}
	return after
}
