// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

func TestGapOfTimedMessages(t *testing.T) {
	sent := make([]tsnperf.Sent, 5)
	at := func(number uint32, after time.Duration) tsnperf.Received {
		return tsnperf.Received{Sequence: number, Arrival: int64(after)}
	}
	// Message 4 came before 2, 3 not at all, and 0 twice.
	received := []tsnperf.Received{at(0, 0), at(0, time.Millisecond), at(1, 2*time.Millisecond), at(2, 9*time.Millisecond), at(4, 5*time.Millisecond)}
	if got, want := JudgeTimed(sent, received), (&Timed{Sent: 5, Lost: 1, Gap: 4 * time.Millisecond}); *got != *want {
		t.Errorf("found %+v, want %+v", got, want)
	}
	if got, want := JudgeTimed(sent, nil), (&Timed{Sent: 5, Lost: 5}); *got != *want {
		t.Errorf("without arrivals: found %+v, want %+v", got, want)
	}
}
