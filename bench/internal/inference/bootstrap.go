// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"

	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

const (
	// bootstrapBlocks and leastBlock limit the blocks of a sample. Values within a block stay together, because
	// neighbours are correlated (a pause of the machine makes many messages late).
	bootstrapBlocks = 100
	leastBlock      = 50
	// gridValues is the number of different values of a resampled percentile, and the additional number in the upper
	// twentieth.
	gridValues = 1024
)

// Resampled is a sample prepared for resampling.
type Resampled struct {
	// grid are values of the sample, ascending; below[g*blocks+b] counts those of block b that are grid[g] or less.
	grid  []int64
	below []uint32
	sizes []int
	// byPart has the blocks of each part; those of an empty part are none.
	byPart [][]int
	// weights is how often each block was drawn in the current round, count the samples in them.
	weights []int
	count   int
}

// NewResampled takes a sample in parts (the repetitions of a run), each in order of time; nil if it is empty. A part in
// which nothing was measured is empty and keeps its index: parts of several samples correspond by index.
func NewResampled(parts [][]int64) *Resampled {
	r := &Resampled{}
	var all []int64
	var blocks [][]int64
	for _, part := range parts {
		all = append(all, part...)
		var local []int
		size := max(leastBlock, (len(part)*len(parts)+bootstrapBlocks-1)/bootstrapBlocks)
		for block := range slices.Chunk(part, size) {
			local = append(local, len(blocks))
			blocks = append(blocks, block)
			r.sizes = append(r.sizes, len(block))
		}
		r.byPart = append(r.byPart, local)
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	r.grid = gridOf(all)
	r.below = make([]uint32, len(r.grid)*len(blocks))
	r.weights = make([]int, len(blocks))
	for b, block := range blocks {
		sorted := slices.Sorted(slices.Values(block))
		at := 0
		for g, value := range r.grid {
			for at < len(sorted) && sorted[at] <= value {
				at++
			}
			r.below[g*len(blocks)+b] = uint32(at)
		}
	}
	return r
}

// gridOf picks values at even distances by rank, more of them in the upper twentieth, and the largest.
func gridOf(sorted []int64) []int64 {
	count := len(sorted)
	var grid []int64
	for _, from := range []int{0, count - max(count/20, 1)} {
		for i := range gridValues {
			grid = append(grid, sorted[from+i*(count-from)/gridValues])
		}
	}
	grid = append(grid, sorted[count-1])
	slices.Sort(grid)
	return slices.Compact(grid)
}

// draw draws blocks with replacement from parts, which may be listed more than once. Parts that the sample does not
// have count as empty.
func (r *Resampled) draw(random *rand.Rand, parts []int) {
	clear(r.weights)
	r.count = 0
	for _, part := range parts {
		if part >= len(r.byPart) {
			continue
		}
		blocks := r.byPart[part]
		for range blocks {
			block := blocks[random.IntN(len(blocks))]
			r.weights[block]++
			r.count += r.sizes[block]
		}
	}
}

// percentile returns a percentile of the last drawn sample.
func (r *Resampled) percentile(hundredths int) int64 {
	rank := stats.Rank(r.count, hundredths)
	blocks := len(r.weights)
	at := sort.Search(len(r.grid)-1, func(g int) bool {
		sum := 0
		for b, below := range r.below[g*blocks : (g+1)*blocks] {
			sum += r.weights[b] * int(below)
		}
		return sum >= rank
	})
	return r.grid[at]
}

// Pairing is how two samples were taken.
type Pairing bool

// In turns, so that disturbances during a part of one also hit that part of the other; or apart.
const (
	InTurns Pairing = true
	Apart   Pairing = false
)

// RatioRange returns the range of the ratio of two percentiles with a confidence below 1, by a bootstrap in two stages:
// parts are drawn with replacement, and blocks within them. For samples taken in turns the same parts are drawn, so
// that common noise cancels out; a sample without a drawn part adds nothing. It returns false if a percentile of the
// second can be zero.
func RatioRange(random *rand.Rand, resampled, other *Resampled, hundredths, rounds int, confidence float64,
	pairing Pairing) (low, high float64, ok bool) {
	if resampled == nil || other == nil {
		return 0, 0, false
	}
	ratios := make([]float64, rounds)
	for i := range ratios {
		drawBoth(random, resampled, other, pairing)
		base := other.percentile(hundredths)
		if base <= 0 {
			return 0, 0, false
		}
		ratios[i] = float64(resampled.percentile(hundredths)) / float64(base)
	}
	slices.Sort(ratios)
	tail := (1 - confidence) / 2
	return stat.Quantile(tail, stat.Empirical, ratios, nil), stat.Quantile(1-tail, stat.Empirical, ratios, nil), true
}

// drawBoth draws both samples, again while one is empty. It ends, because neither sample is empty and all parts can be
// drawn.
func drawBoth(random *rand.Rand, resampled, other *Resampled, pairing Pairing) {
	if pairing == InTurns {
		for again := true; again; again = resampled.count == 0 || other.count == 0 {
			parts := drawParts(random, max(len(resampled.byPart), len(other.byPart)))
			resampled.draw(random, parts)
			other.draw(random, parts)
		}
		return
	}
	for _, sample := range []*Resampled{resampled, other} {
		for again := true; again; again = sample.count == 0 {
			sample.draw(random, drawParts(random, len(sample.byPart)))
		}
	}
}

func drawParts(random *rand.Rand, count int) []int {
	parts := make([]int, count)
	for i := range parts {
		parts[i] = random.IntN(count)
	}
	return parts
}
