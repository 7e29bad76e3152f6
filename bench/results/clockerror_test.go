// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"testing"
)

func ns(value int64) *int64 { return &value }

func TestClockErrorOf(t *testing.T) {
	tooLarge := ClockErrorOf(ns(1_000_000), ns(2_000_000))
	tooLarge.Doubt = "too large"
	for name, test := range map[string]struct {
		clockError  *ClockError
		text, doubt string
		combined    int64
		written     string
	}{
		"nobody said": {nil, "?", nobodySaid, 0, `null`},
		"one clock":   {OneClock(), "0", "", 0, `{"talker":0,"listener":0,"combined":0,"same_clock":true}`},
		"two clocks":  {ClockErrorOf(ns(850), ns(400)), "1.25", "", 1250, `{"talker":850,"listener":400,"combined":1250,"same_clock":false}`},
		"one unknown": {ClockErrorOf(nil, ns(400)), "?", nobodySaid, 0, `{"talker":null,"listener":400,"combined":null,"same_clock":false}`},
		"too large": {tooLarge, "3000!", "too large", 3_000_000,
			`{"talker":1000000,"listener":2000000,"combined":3000000,"same_clock":false,"doubt":"too large"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if test.clockError.Text() != test.text || test.clockError.DoubtOf() != test.doubt || test.clockError.CombinedNs() != test.combined {
				t.Errorf("%q, doubt %q, %d ns", test.clockError.Text(), test.clockError.DoubtOf(), test.clockError.CombinedNs())
			}
			if written, err := json.Marshal(test.clockError); err != nil || string(written) != test.written {
				t.Errorf("written as %s, %v", written, err)
			}
		})
	}
}

func TestWorstClock(t *testing.T) {
	doubted := ClockErrorOf(ns(1), ns(1))
	doubted.Doubt, doubted.AnyClock = "why", true
	for name, test := range map[string]struct {
		all  []*ClockError
		want string
	}{
		"none":                          {nil, "null"},
		"one clock":                     {[]*ClockError{OneClock(), OneClock()}, `{"talker":0,"listener":0,"combined":0,"same_clock":true}`},
		"the largest of each":           {[]*ClockError{ClockErrorOf(ns(5), ns(1)), ClockErrorOf(ns(2), ns(7))}, `{"talker":5,"listener":7,"combined":9,"same_clock":false}`},
		"one is not known":              {[]*ClockError{ClockErrorOf(ns(5), ns(1)), ClockErrorOf(ns(2), nil)}, `{"talker":5,"listener":null,"combined":null,"same_clock":false}`},
		"of one nobody said anything":   {[]*ClockError{OneClock(), nil}, "null"},
		"a doubt about one is of all":   {[]*ClockError{OneClock(), doubted}, `{"talker":1,"listener":1,"combined":2,"same_clock":false,"doubt":"why","any_clock":true}`},
		"the first of the doubts stays": {[]*ClockError{doubted, OneClock()}, `{"talker":1,"listener":1,"combined":2,"same_clock":false,"doubt":"why","any_clock":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			var alternations []Alternation
			for _, clockError := range test.all {
				alternations = append(alternations, Alternation{Distributions: Distributions{ClockError: clockError}})
			}
			got, err := json.Marshal(WorstClock(alternations))
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}
