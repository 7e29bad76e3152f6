// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"slices"
)

// Percentiles are named in hundredths of a percent: integers, so that p99.9 needs no rounding.
const (
	P0_1  = 10
	P50   = 5000
	P90   = 9000
	P99   = 9900
	P99_9 = 9990
	whole = 10000
)

// Summary is a distribution of nanoseconds.
type Summary struct {
	Min   int64 `json:"min"`
	P50   int64 `json:"p50"`
	P90   int64 `json:"p90"`
	P99   int64 `json:"p99"`
	P99_9 int64 `json:"p99_9"`
	Max   int64 `json:"max"`
}

// Jitter is a distribution of signed jitter and of its absolute value.
type Jitter struct {
	Summary
	AbsP50 int64 `json:"abs_p50"`
	AbsP99 int64 `json:"abs_p99"`
}

// Spread is a distribution and how wide it is.
type Spread struct {
	Summary
	P0_1 int64 `json:"p0_1"`
	// SpanP99_9 is P99_9 - P0_1.
	SpanP99_9 int64 `json:"span_p99_9"`
}

// SummarizeSpread describes samples; nil when there are none.
func SummarizeSpread(samples []int64) *Spread {
	all := Summarize(samples)
	if all == nil {
		return nil
	}
	p0_1 := Percentile(slices.Sorted(slices.Values(samples)), P0_1)
	return &Spread{*all, p0_1, all.P99_9 - p0_1}
}

// Summarize describes samples, in any order, which it leaves as they are; nil when there are none.
func Summarize(samples []int64) *Summary {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	return &Summary{
		Min:   sorted[0],
		P50:   Percentile(sorted, P50),
		P90:   Percentile(sorted, P90),
		P99:   Percentile(sorted, P99),
		P99_9: Percentile(sorted, P99_9),
		Max:   sorted[len(sorted)-1],
	}
}

// SummarizeJitter describes signed jitter; nil when there are no samples.
func SummarizeJitter(samples []int64) *Jitter {
	signed := Summarize(samples)
	if signed == nil {
		return nil
	}
	absolute := make([]int64, len(samples))
	for i, sample := range samples {
		absolute[i] = max(sample, -sample)
	}
	slices.Sort(absolute)
	return &Jitter{*signed, Percentile(absolute, P50), Percentile(absolute, P99)}
}

// Percentile returns the smallest sample that at least that share of all, in hundredths of a percent, does not
// exceed. Samples are in ascending order, and there is at least one.
func Percentile(sorted []int64, hundredths int) int64 {
	return sorted[Rank(len(sorted), hundredths)-1]
}

// Rank returns the rank of a percentile in that many samples, counted from 1.
func Rank(count, hundredths int) int {
	return max((count*hundredths+whole-1)/whole, 1)
}

// minSamplesAbove is the number of samples above a percentile that make it reliable.
const minSamplesAbove = 10

// Supported reports whether that many samples are enough for a percentile: whether at least ten of them lie above it.
func Supported(count, hundredths int) bool {
	return count-Rank(count, hundredths) >= minSamplesAbove
}

// Event is an event of the message with that sequence number.
type Event struct {
	Sequence uint32
	// At is its time in nanoseconds.
	At int64
}

// JitterOf returns t(i) - (t(i-1) + cycle) for each pair of events with consecutive sequence numbers.
// Events may come in any order; a sequence number that comes twice counts with its first time.
func JitterOf(events []Event, cycleNs int64) []int64 {
	inOrder := slices.SortedFunc(slices.Values(events), func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.At, b.At))
	})
	inOrder = slices.CompactFunc(inOrder, func(a, b Event) bool { return a.Sequence == b.Sequence })
	var jitter []int64
	for i := 1; i < len(inOrder); i++ {
		if inOrder[i].Sequence == inOrder[i-1].Sequence+1 {
			jitter = append(jitter, inOrder[i].At-inOrder[i-1].At-cycleNs)
		}
	}
	return jitter
}

// Median returns the middle value, of an even number the mean of the two in the middle, and zero for none.
func Median[T int64 | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	lower, upper := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	return lower + (upper-lower)/2
}

// MedianSummary takes the median of each figure by itself over several summaries, of which nil ones do not
// count; nil when there is none.
func MedianSummary(summaries []*Summary) *Summary {
	summaries = withoutNil(summaries)
	if len(summaries) == 0 {
		return nil
	}
	median := func(get func(*Summary) int64) int64 { return medianOf(summaries, get) }
	return &Summary{
		Min:   median(func(s *Summary) int64 { return s.Min }),
		P50:   median(func(s *Summary) int64 { return s.P50 }),
		P90:   median(func(s *Summary) int64 { return s.P90 }),
		P99:   median(func(s *Summary) int64 { return s.P99 }),
		P99_9: median(func(s *Summary) int64 { return s.P99_9 }),
		Max:   median(func(s *Summary) int64 { return s.Max }),
	}
}

// MedianJitter is MedianSummary for jitter.
func MedianJitter(jitters []*Jitter) *Jitter {
	jitters = withoutNil(jitters)
	if len(jitters) == 0 {
		return nil
	}
	signed := make([]*Summary, len(jitters))
	for i, jitter := range jitters {
		signed[i] = &jitter.Summary
	}
	return &Jitter{
		Summary: *MedianSummary(signed),
		AbsP50:  medianOf(jitters, func(j *Jitter) int64 { return j.AbsP50 }),
		AbsP99:  medianOf(jitters, func(j *Jitter) int64 { return j.AbsP99 }),
	}
}

// MedianSpread is the median of each figure; nil when there are none.
func MedianSpread(spreads []*Spread) *Spread {
	spreads = withoutNil(spreads)
	if len(spreads) == 0 {
		return nil
	}
	all := make([]*Summary, len(spreads))
	for i, spread := range spreads {
		all[i] = &spread.Summary
	}
	return &Spread{
		Summary:   *MedianSummary(all),
		P0_1:      medianOf(spreads, func(s *Spread) int64 { return s.P0_1 }),
		SpanP99_9: medianOf(spreads, func(s *Spread) int64 { return s.SpanP99_9 }),
	}
}

func withoutNil[T any](values []*T) []*T {
	return slices.DeleteFunc(slices.Clone(values), func(value *T) bool { return value == nil })
}

func medianOf[T any](values []*T, get func(*T) int64) int64 {
	picked := make([]int64, len(values))
	for i, value := range values {
		picked[i] = get(value)
	}
	return Median(picked)
}
