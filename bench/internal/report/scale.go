// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// symlog is logarithmic on both sides of zero and linear within about one unit of it, so that microseconds and a tail
// of milliseconds fit into one drawing, and negative jitter as well.
type symlog struct{}

// Normalize implements plot.Normalizer.
func (symlog) Normalize(low, high, x float64) float64 {
	return (math.Asinh(x) - math.Asinh(low)) / (math.Asinh(high) - math.Asinh(low))
}

// symlogTicks are powers of ten of either sign and zero; the steps between them have no label unless few powers are
// visible.
type symlogTicks struct {
	// few is the number of labels up to which the steps 2 and 5 get some too.
	few int
}

// Labels of a vertical axis do not overlap, those of a horizontal one do.
var (
	upright = symlogTicks{few: 3}
	across  = symlogTicks{few: 2}
)

// Ticks implements plot.Ticker.
func (s symlogTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	majors := 0
	add := func(value float64, major bool) {
		if value < low || value > high {
			return
		}
		tick := plot.Tick{Value: value}
		if major {
			tick.Label = thousands(value)
			majors++
		}
		ticks = append(ticks, tick)
	}
	add(0, true)
	for decade := 1.0; decade <= max(math.Abs(low), math.Abs(high)); decade *= 10 {
		for step := 1.0; step < 10; step++ {
			add(decade*step, step == 1)
			add(-decade*step, step == 1)
		}
	}
	if majors > s.few {
		return ticks
	}
	for i := range ticks {
		if digit := leadingDigit(ticks[i].Value); digit == 2 || digit == 5 {
			ticks[i].Label = thousands(ticks[i].Value)
		}
	}
	return ticks
}

func leadingDigit(value float64) byte {
	return strconv.FormatFloat(math.Abs(value), 'e', -1, 64)[0] - '0'
}

// shareTicks label a logarithmic axis of shares with percentages.
type shareTicks struct{}

// Ticks implements plot.Ticker.
func (shareTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for exponent := int(math.Floor(math.Log10(low))); exponent <= 0; exponent++ {
		decade := math.Pow10(exponent)
		if decade >= low*0.999 && decade <= high {
			ticks = append(ticks, plot.Tick{Value: decade, Label: strconv.FormatFloat(decade*100, 'g', 3, 64) + " %"})
		}
	}
	return ticks
}

// evenStep is a round distance of marks, with four to eight marks up to a limit.
func evenStep(limit float64) float64 {
	decade := math.Pow10(int(math.Floor(math.Log10(limit))))
	for _, step := range []float64{0.2, 0.25, 0.5, 1} {
		if limit/(decade*step) <= 8 {
			return decade * step
		}
	}
	return decade * 2
}

// evenTicks mark a linear axis from zero.
func evenTicks(limit float64) []plot.Tick {
	step := evenStep(limit)
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= limit*1.001; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: thousands(float64(i) * step)})
	}
	return ticks
}

// thousands formats a whole number with a comma after every third digit, and others unchanged.
func thousands(value float64) string {
	text := strconv.FormatFloat(math.Abs(value), 'f', -1, 64)
	if value == math.Trunc(value) {
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
	}
	if value < 0 {
		return "−" + text
	}
	return text
}
