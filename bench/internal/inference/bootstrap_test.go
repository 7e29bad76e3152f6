// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn is a sample of exponential latencies with that median, in parts.
func drawn(random *rand.Rand, parts, each int, median float64) [][]int64 {
	all := make([][]int64, parts)
	for i := range all {
		for range each {
			all[i] = append(all[i], int64(random.ExpFloat64()/math.Ln2*median))
		}
	}
	return all
}

func TestRatioRangeCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, hundredths := range []int{5000, 9900} {
		const trials = 200
		held := 0
		for range trials {
			resampled, other := NewResampled(drawn(random, 5, 500, 4000)), NewResampled(drawn(random, 5, 500, 10000))
			low, high, ok := RatioRange(random, resampled, other, hundredths, 300, 0.95, InTurns)
			if !ok || low > high {
				t.Fatalf("the range is %v to %v, %v", low, high, ok)
			}
			if low <= 0.4 && 0.4 <= high {
				held++
			}
		}
		// A bootstrap of five parts is a little too narrow; the seed is fixed, so this cannot flicker.
		if share := float64(held) / trials; share < 0.85 || share > 0.995 {
			t.Errorf("p%v: %v of the ranges of 95 %% hold the true ratio", hundredths/100, share)
		}
	}
}

func TestRangeIsWiderWhenRepetitionsDiffer(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	calm := drawn(random, 5, 1000, 5000)
	restless := make([][]int64, 5)
	for i := range restless {
		restless[i] = drawn(random, 1, 1000, 5000*(0.5+0.25*float64(i)))[0]
	}
	other := NewResampled(drawn(random, 5, 1000, 10000))
	width := func(parts [][]int64) float64 {
		low, high, _ := RatioRange(rand.New(rand.NewPCG(5, 6)), NewResampled(parts), other, 5000, 500, 0.95, Apart)
		return high - low
	}
	if width(restless) < 3*width(calm) {
		t.Errorf("restless repetitions give a range of %v, calm ones %v", width(restless), width(calm))
	}
}

func TestMissingPartsKeepPairing(t *testing.T) {
	const parts = 6
	// sample has one block a part, so that what was drawn of each part is its block's weight.
	sample := func(missing ...int) (*Resampled, map[int]int) {
		blocks, all := map[int]int{}, make([][]int64, parts)
		for i := range all {
			if !slices.Contains(missing, i) {
				blocks[i], all[i] = len(blocks), make([]int64, leastBlock)
			}
		}
		for len(all[len(all)-1]) == 0 { // what was not measured at the end is not there
			all = all[:len(all)-1]
		}
		return NewResampled(all), blocks
	}
	for name, missing := range map[string][2][]int{
		"none":                                {nil, nil},
		"the first two of one":                {{0, 1}, nil},
		"the last two of the other":           {nil, {4, 5}},
		"the same two of both":                {{2, 3}, {2, 3}},
		"two of one and another two of both":  {{0, 1}, {4, 5}},
		"all but one, and all but the others": {{1, 2, 3, 4, 5}, {0}},
	} {
		t.Run(name, func(t *testing.T) {
			resampled, ofOne := sample(missing[0]...)
			other, ofOther := sample(missing[1]...)
			random := rand.New(rand.NewPCG(9, 10))
			for range 200 {
				drawBoth(random, resampled, other, InTurns)
				if resampled.count == 0 || other.count == 0 {
					t.Fatalf("%d and %d samples were drawn", resampled.count, other.count)
				}
				for part, block := range ofOne {
					if there, both := ofOther[part]; both && resampled.weights[block] != other.weights[there] {
						t.Fatalf("part %d was drawn %d times of one and %d times of the other", part, resampled.weights[block], other.weights[there])
					}
				}
			}
		})
	}
}

func TestSameSeedGivesTheSameRange(t *testing.T) {
	parts := drawn(rand.New(rand.NewPCG(7, 8)), 3, 300, 5000)
	ranges := func(seed uint64) [2]float64 {
		low, high, _ := RatioRange(rand.New(rand.NewPCG(seed, 0)), NewResampled(parts), NewResampled(parts[1:]), 5000, 200, 0.95, InTurns)
		return [2]float64{low, high}
	}
	if ranges(1) != ranges(1) {
		t.Error("one seed gives two ranges")
	}
}

func TestResampledPercentiles(t *testing.T) {
	// One block a part and one part: every draw is the sample itself.
	sample := make([]int64, 0, leastBlock)
	for i := range leastBlock {
		sample = append(sample, int64(i+1))
	}
	r := NewResampled([][]int64{sample})
	r.draw(rand.New(rand.NewPCG(1, 1)), []int{0})
	for hundredths, want := range map[int]int64{5000: leastBlock / 2, 9900: leastBlock, 10000: leastBlock, 1: 1} {
		if got := r.percentile(hundredths); got != want {
			t.Errorf("percentile %d is %d, want %d", hundredths, got, want)
		}
	}
}

func TestRangeOfNothing(t *testing.T) {
	zeros := NewResampled([][]int64{make([]int64, 100)})
	if NewResampled(nil) != nil || NewResampled([][]int64{{}, {}}) != nil {
		t.Error("a sample of nothing")
	}
	for name, pair := range map[string][2]*Resampled{"no sample": {nil, zeros}, "nothing to compare with": {zeros, nil}, "zero": {zeros, zeros}} {
		if _, _, ok := RatioRange(rand.New(rand.NewPCG(1, 1)), pair[0], pair[1], 5000, 10, 0.95, InTurns); ok {
			t.Errorf("%s has a range", name)
		}
	}
}

func TestFewSamples(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for count := 1; count < 25; count++ {
		part := make([]int64, count)
		for i := range part {
			part[i] = int64(i + 1)
		}
		resampled := NewResampled([][]int64{part, part})
		low, high, ok := RatioRange(random, resampled, resampled, 5000, 100, 0.95, InTurns)
		if !ok || low > 1 || high < 1 {
			t.Errorf("%d samples: %v to %v, %v", count, low, high, ok)
		}
	}
}
