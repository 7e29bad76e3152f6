// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// call is a message of a talker whose messages are due each millisecond, from 1 ms on, and handed over 1 ms ahead. Times in µs.
type call struct{ wakeup, start, end int64 }

func sentBy(calls []call) []tsnperf.Sent {
	var all []tsnperf.Sent
	for i, c := range calls {
		all = append(all, tsnperf.Sent{Sequence: uint32(i), Txtime: int64(i+1) * 1_000_000, Wakeup: c.wakeup * 1000, SendStart: c.start * 1000,
			SendEnd: c.end * 1000})
	}
	return all
}

func TestLateHandOversAreTheTalkers(t *testing.T) {
	for name, test := range map[string]struct {
		calls []call
		// late are the numbers of those that are the talker's fault.
		late []int64
	}{
		"all in time":                          {[]call{{10, 11, 12}, {1010, 1011, 1012}}, nil},
		"a late wake-up":                       {[]call{{10, 11, 12}, {1900, 1901, 1902}, {2010, 2011, 2012}}, []int64{2}},
		"a late wake-up, and others behind it": {[]call{{10, 11, 12}, {4000, 4001, 4002}, {4002, 4003, 4004}, {4004, 4005, 4006}, {4010, 4011, 4012}}, []int64{2, 3, 4}},
		"a call that waits for ktsnd":          {[]call{{10, 11, 4000}, {4000, 4001, 4002}, {4002, 4003, 4004}}, nil},
		"late, and then calls that wait":       {[]call{{950, 951, 952}, {1010, 1011, 3900}, {3900, 3901, 3902}}, []int64{1}},
		"calls that wait a little each":        {[]call{{10, 11, 1500}, {1500, 1501, 3000}, {3000, 3001, 4500}, {4500, 4501, 6000}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &handOvers{late: map[int64]bool{}}
			seen.add(sentBy(test.calls), time.Millisecond)
			var late []int64
			for _, txtime := range slices.Sorted(maps.Keys(seen.late)) {
				late = append(late, txtime/1_000_000)
			}
			if !slices.Equal(late, test.late) {
				t.Errorf("%v, want %v", late, test.late)
			}
		})
	}
}

func TestFailedCallsAndWakeUps(t *testing.T) {
	sent := sentBy([]call{{10, 11, 12}, {1030, 1031, 1032}, {2020, 2021, 2022}})
	sent[1].Errno = 11
	seen := &handOvers{late: map[int64]bool{}}
	seen.add(sent, time.Millisecond)
	if seen.failed != 1 || seen.wakeupNs() != 20_000 {
		t.Errorf("%d failed, woke up %d ns late", seen.failed, seen.wakeupNs())
	}
}

func TestLateHandOversAreSeparate(t *testing.T) {
	seen := &Observed{}
	seen.judge([]control.Departure{{RequestedTAI: 100, DepartedTAI: 107}, {RequestedTAI: 200, DepartedTAI: 5000}, {RequestedTAI: 300, DepartedTAI: 299}},
		&handOvers{late: map[int64]bool{200: true}})
	if !slices.Equal(seen.DepartureNs, []int64{7, -1}) || seen.HandedOverLate != 1 || seen.Early != 1 {
		t.Errorf("%+v", seen)
	}
}
