// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

func TestNewCurve(t *testing.T) {
	for _, count := range []int{1, 2, 999, 1000, 1001, 5000, 60_000} {
		sorted := ascending(count)
		c := newCurve(sorted)
		if c.count != count || len(c.points) > curvePoints || len(c.points) < min(count, curvePoints/2) {
			t.Errorf("%d samples: %d points", count, len(c.points))
		}
		ranks := make([]int, len(c.points))
		for i, point := range c.points {
			ranks[i] = point.rank
			if point.ns != sorted[point.rank-1] {
				t.Errorf("%d samples: rank %d is %d ns", count, point.rank, point.ns)
			}
		}
		if !slices.IsSorted(ranks) || len(slices.Compact(slices.Clone(ranks))) != len(ranks) {
			t.Errorf("%d samples: ranks are not ascending", count)
		}
		for _, hundredths := range []int{0, rankP1, rankP25, rankP50, rankP75, rankP90, rankP99, rankP99_9, 10_000} {
			if rank := stats.Rank(count, hundredths); !slices.Contains(ranks, rank) {
				t.Errorf("%d samples: %d hundredths, rank %d, is missing", count, hundredths, rank)
			}
		}
		if last := max(count-3, 1); count > 10 && !slices.Contains(ranks, last) {
			t.Errorf("%d samples: the tail is thinned", count)
		}
	}
	if newCurve(nil) != nil {
		t.Error("a curve of nothing")
	}
}

func TestReach(t *testing.T) {
	for p75, want := range map[int64]int64{
		0: 1_000, 20_600: 50_000, 99_000: 200_000, 1_000_000: 2_000_000, -5: 1_000,
	} {
		if got := reach([]*box{{p75: p75}, {p75: p75 / 2}}); got != want {
			t.Errorf("p75 of %d ns: the axis ends at %d, want %d", p75, got, want)
		}
	}
}

func TestBeyond(t *testing.T) {
	if got := beyond(ascending(10), 8); got != 0.2 {
		t.Errorf("got %v", got)
	}
	if beyond(ascending(10), 10) != 0 || beyond(nil, 0) != 0 {
		t.Error("something is beyond the end")
	}
}
