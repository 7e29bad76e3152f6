// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// upTo returns 1 to n, shuffled.
func upTo(n int) []int64 {
	all := make([]int64, n)
	for i, value := range rand.Perm(n) {
		all[i] = int64(value) + 1
	}
	return all
}

func TestPercentile(t *testing.T) {
	for name, test := range map[string]struct {
		samples []int64
		want    *Summary
	}{
		"no samples, no figures":        {nil, nil},
		"one sample is every figure":    {[]int64{7}, &Summary{7, 7, 7, 7, 7, 7}},
		"of two the lower is median":    {[]int64{9, 5}, &Summary{5, 5, 9, 9, 9, 9}},
		"of three the middle is median": {[]int64{9, 5, 6}, &Summary{5, 6, 9, 9, 9, 9}},
		"a hundred":                     {upTo(100), &Summary{1, 50, 90, 99, 100, 100}},
		"a thousand":                    {upTo(1000), &Summary{1, 500, 900, 990, 999, 1000}},
		"one more than a thousand":      {upTo(1001), &Summary{1, 501, 901, 991, 1000, 1001}},
		"negative ones":                 {[]int64{-5, -1, -3}, &Summary{-5, -3, -1, -1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.samples)
			if got := Summarize(test.samples); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if !slices.Equal(before, test.samples) {
				t.Error("the caller's samples were moved")
			}
		})
	}
}

func TestJitterOf(t *testing.T) {
	const cycle = 1000
	for name, test := range map[string]struct {
		events []Event
		want   []int64
	}{
		"a perfect cycle":                        {[]Event{{0, 5}, {1, 1005}, {2, 2005}}, []int64{0, 0}},
		"signed both ways":                       {[]Event{{0, 0}, {1, 1010}, {2, 2000}}, []int64{10, -10}},
		"a lost message makes no jitter":         {[]Event{{0, 0}, {2, 2000}, {3, 3001}}, []int64{1}},
		"order of arrival does not matter":       {[]Event{{1, 1007}, {0, 0}}, []int64{7}},
		"of a duplicate the first arrival count": {[]Event{{0, 0}, {1, 1900}, {1, 1003}}, []int64{3}},
		"one message":                            {[]Event{{0, 0}}, nil},
		"none":                                   {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := JitterOf(test.events, cycle); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestSummarizeJitter(t *testing.T) {
	got := SummarizeJitter([]int64{-10, 1, 2, -3, 4})
	want := &Jitter{Summary{-10, 1, 4, 4, 4, 4}, 3, 10}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if SummarizeJitter(nil) != nil {
		t.Error("figures without samples")
	}
}

func TestMedianSummary(t *testing.T) {
	got := MedianSummary([]*Summary{{1, 10, 5, 6, 7, 8}, nil, {2, 20, 4, 7, 6, 9}, {3, 15, 6, 5, 5, 1}})
	if want := (&Summary{2, 15, 5, 6, 6, 8}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	jitter := MedianJitter([]*Jitter{{Summary{P50: 1}, 5, 9}, {Summary{P50: 2}, 4, 7}, {Summary{P50: 3}, 6, 8}})
	if want := (&Jitter{Summary{P50: 2}, 5, 8}); !reflect.DeepEqual(jitter, want) {
		t.Errorf("got %+v, want %+v", jitter, want)
	}
	spread := MedianSpread([]*Spread{{Summary{P50: 1}, 5, 9}, nil, {Summary{P50: 2}, 4, 7}, {Summary{P50: 3}, 6, 8}})
	if want := (&Spread{Summary{P50: 2}, 5, 8}); !reflect.DeepEqual(spread, want) {
		t.Errorf("got %+v, want %+v", spread, want)
	}
	if MedianSummary(nil) != nil || MedianJitter([]*Jitter{nil}) != nil || MedianSpread([]*Spread{nil}) != nil {
		t.Error("figures out of nothing")
	}
	if got := Median([]float64{0.3, 0.1, 0.2, 0.4}); got != 0.25 {
		t.Errorf("the median of four is %v", got)
	}
}

func TestSupported(t *testing.T) {
	for name, test := range map[string]struct {
		count, hundredths int
		want              bool
	}{
		"p50 of 20":       {20, P50, true},
		"p50 of 19":       {19, P50, false},
		"p99 of 1,000":    {1000, P99, true},
		"p99 of 999":      {999, P99, false},
		"p99.9 of 10,000": {10_000, P99_9, true},
		"p99.9 of 9,999":  {9_999, P99_9, false},
		"p50 of nothing":  {0, P50, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Supported(test.count, test.hundredths); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func TestSummarizeSpread(t *testing.T) {
	got := SummarizeSpread(upTo(10_000))
	if got.P0_1 != 10 || got.P99_9 != 9990 || got.SpanP99_9 != 9980 || got.Min != 1 {
		t.Errorf("got %+v", got)
	}
	if SummarizeSpread(nil) != nil {
		t.Error("a spread of nothing")
	}
}
