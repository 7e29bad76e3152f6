// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// outsidePerSide limits the points drawn beyond each whisker: more circles on top of each other show nothing new, and
// each needs space in the file.
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

// box is a distribution of nanoseconds as a box plot: the box from p25 to p75, whiskers at p1 and p99. Percentiles are
// samples, by nearest rank over all of them.
type box struct {
	count                                        int
	min, p1, p25, p50, p75, p90, p99, p99_9, max int64
	// outside are the drawn samples beyond the whiskers, ascending, including the extremes.
	outside []int64
}

// newBox reduces samples in ascending order; nil if there are none.
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

// thinned picks a limited number of samples, at even distances by rank, including the first and the last.
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
