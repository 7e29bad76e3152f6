// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// outsidePerSide bounds the points drawn beyond each whisker: a hundred circles on top of each other say no
// more than these do, and each costs room in the file.
const outsidePerSide = 20

// Percentiles in hundredths of a percent.
const (
	rankP1    = 100
	rankP25   = 2500
	rankP50   = 5000
	rankP75   = 7500
	rankP90   = 9000
	rankP99   = 9900
	rankP99_9 = 9990
)

// box is a distribution of nanoseconds as a box plot shows it: the box from p25 to p75, whiskers at p1 and p99.
// Percentiles are samples, by nearest rank over all of them.
type box struct {
	count                                        int
	min, p1, p25, p50, p75, p90, p99, p99_9, max int64
	// outside are the samples beyond the whiskers that are drawn, ascending; the extremes are among them.
	outside []int64
}

// newBox reduces samples in ascending order; nil when there are none.
func newBox(sorted []int64) *box {
	if len(sorted) == 0 {
		return nil
	}
	at := func(hundredths int) int64 { return stats.Percentile(sorted, hundredths) }
	b := &box{
		count: len(sorted),
		min:   sorted[0], p1: at(rankP1), p25: at(rankP25), p50: at(rankP50), p75: at(rankP75), p90: at(rankP90),
		p99: at(rankP99), p99_9: at(rankP99_9), max: sorted[len(sorted)-1],
	}
	low, high := 0, len(sorted)
	for low < len(sorted) && sorted[low] < b.p1 {
		low++
	}
	for high > 0 && sorted[high-1] > b.p99 {
		high--
	}
	b.outside = append(thinned(sorted[:low], outsidePerSide), thinned(sorted[high:], outsidePerSide)...)
	return b
}

// thinned picks at most so many samples, at even distances by rank, the first and the last among them.
func thinned(sorted []int64, most int) []int64 {
	if len(sorted) <= most {
		return append([]int64(nil), sorted...)
	}
	picked := make([]int64, most)
	for i := range picked {
		picked[i] = sorted[i*(len(sorted)-1)/(most-1)]
	}
	return picked
}
