// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

func TestTakeRequested(t *testing.T) {
	sent := []tsnperf.Sent{{Sequence: 0, Txtime: 1000}, {Sequence: 1, Txtime: 2000}, {Sequence: 2, Txtime: 3000}, {Sequence: 3, Txtime: 4000}}
	departures := []control.Departure{
		{Flow: 1, RequestedTAI: 1010}, {Flow: 1, RequestedTAI: 1995}, {Flow: 1, RequestedTAI: 4020},
		{Flow: 2, RequestedTAI: 1001}, {Flow: 2, RequestedTAI: 3001}, // of another pod
		{Flow: 1, RequestedTAI: 9000}, {Flow: 1, RequestedTAI: 100}, // of no message
	}
	TakeRequested(sent, departures, 1000*time.Nanosecond)
	var times []int64
	for _, message := range sent {
		times = append(times, message.Txtime)
	}
	if want := []int64{1010, 1995, 3000, 4020}; !slices.Equal(times, want) {
		t.Errorf("got %v, want %v", times, want)
	}
}
