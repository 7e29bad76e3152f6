// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// curvePoints limits the points of a curve: more than a drawing of this width has pixels.
const curvePoints = 1000

// curvePoint: a share of rank / count of all samples is at most ns.
type curvePoint struct {
	ns   int64
	rank int
}

// curve is an empirical distribution function, with few enough points to draw.
type curve struct {
	count  int
	points []curvePoint
}

// newCurve reduces samples in ascending order; nil if there are none. Half of the points are at even distances of rank,
// the others ever closer towards the last one, where the tail is; the first, the last and the percentiles in the tables
// are always included.
func newCurve(sorted []int64) *curve {
	count := len(sorted)
	if count == 0 {
		return nil
	}
	ranks := make([]int, 0, curvePoints)
	if count <= curvePoints {
		for rank := 1; rank <= count; rank++ {
			ranks = append(ranks, rank)
		}
	} else {
		ranks = thinnedRanks(ranks, count)
	}
	c := &curve{count: count, points: make([]curvePoint, len(ranks))}
	for i, rank := range ranks {
		c.points[i] = curvePoint{sorted[rank-1], rank}
	}
	return c
}

func thinnedRanks(ranks []int, count int) []int {
	for _, hundredths := range []int{rankP1, rankP25, rankP50, rankP75, rankP90, rankP99, rankP99_9} {
		ranks = append(ranks, stats.Rank(count, hundredths))
	}
	const even = curvePoints / 2
	for i := range even {
		ranks = append(ranks, 1+i*(count-1)/(even-1))
	}
	left := curvePoints - len(ranks)
	for i := range left {
		fromEnd := math.Pow(float64(count), float64(i)/float64(left)) // 1 .. below count
		ranks = append(ranks, count+1-int(fromEnd))
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// reach is the end of the axis of a distribution function for the bulk of all its curves: twice the largest p75,
// rounded up to a mark of the axis. The tail has its own drawing.
func reach(boxes []*box) int64 {
	largest := int64(1000) // a whole microsecond, whatever the samples
	for _, b := range boxes {
		largest = max(largest, 2*b.p75)
	}
	step := evenStep(microseconds(largest))
	return int64(math.Ceil(microseconds(largest)/step) * step * 1000)
}

// beyond is the share of samples, in ascending order, above a limit.
func beyond(sorted []int64, limit int64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	above, _ := slices.BinarySearch(sorted, limit+1)
	return float64(len(sorted)-above) / float64(len(sorted))
}
