// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"
)

func ascending(count int) []int64 {
	samples := make([]int64, count)
	for i := range samples {
		samples[i] = int64(i + 1)
	}
	return samples
}

func TestNewBox(t *testing.T) {
	b := newBox(ascending(1000))
	if b.count != 1000 || b.min != 1 || b.p1 != 10 || b.p25 != 250 || b.p50 != 500 || b.p75 != 750 || b.p90 != 900 ||
		b.p99 != 990 || b.p99_9 != 999 || b.max != 1000 {
		t.Errorf("got %+v", b)
	}
	want := append(ascending(9), 991, 992, 993, 994, 995, 996, 997, 998, 999, 1000)
	if !slices.Equal(b.outside, want) {
		t.Errorf("beyond the whiskers are %v", b.outside)
	}
}

func TestBoxOfFewSamples(t *testing.T) {
	if newBox(nil) != nil {
		t.Error("a box of nothing")
	}
	single := newBox([]int64{7})
	if single.min != 7 || single.p1 != 7 || single.p50 != 7 || single.max != 7 || len(single.outside) != 0 {
		t.Errorf("got %+v", single)
	}
	equal := newBox([]int64{5, 5, 5, 5})
	if equal.p25 != 5 || len(equal.outside) != 0 {
		t.Errorf("got %+v", equal)
	}
}

func TestOutliersAreThinned(t *testing.T) {
	b := newBox(ascending(100_000))
	if len(b.outside) != 2*outsidePerSide || !slices.IsSorted(b.outside) {
		t.Fatalf("%d points", len(b.outside))
	}
	if b.outside[0] != 1 || b.outside[outsidePerSide-1] != 999 || b.outside[outsidePerSide] != 99_001 ||
		b.outside[2*outsidePerSide-1] != 100_000 {
		t.Errorf("got %v", b.outside)
	}
}
