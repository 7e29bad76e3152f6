// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/plot"
)

func labels(ticks []plot.Tick) []string {
	var all []string
	for _, tick := range ticks {
		if tick.Label != "" {
			all = append(all, tick.Label)
		}
	}
	slices.Sort(all)
	return all
}

func TestSymlog(t *testing.T) {
	if middle := (symlog{}).Normalize(-100, 100, 0); math.Abs(middle-0.5) > 1e-9 {
		t.Errorf("zero is at %v", middle)
	}
	last := -1.0
	for x := -1e6; x < 1e6; x += 1e3 {
		at := (symlog{}).Normalize(-1e6, 1e6, x)
		if at <= last {
			t.Fatalf("%v is not above what is smaller", x)
		}
		last = at
	}
}

func TestTicks(t *testing.T) {
	for name, test := range map[string]struct {
		ticks []plot.Tick
		want  []string
	}{
		"a wide axis has powers of ten":       {upright.Ticks(5, 20_000), []string{"1,000", "10", "10,000", "100"}},
		"a narrow one has steps between them": {upright.Ticks(15, 300), []string{"100", "20", "200", "50"}},
		"below a drawing there is less room":  {across.Ticks(10, 30_000), []string{"1,000", "10", "10,000", "100"}},
		"and beside it more":                  {upright.Ticks(15, 30_000), []string{"1,000", "10,000", "100", "2,000", "20", "20,000", "200", "5,000", "50", "500"}},
		"below zero":                          {upright.Ticks(-100, 100), []string{"0", "1", "10", "100", "−1", "−10", "−100"}},
		"shares":                              {shareTicks{}.Ticks(0.0002, 1), []string{"0.1 %", "1 %", "10 %", "100 %"}},
		"even steps":                          {evenTicks(40), []string{"0", "10", "15", "20", "25", "30", "35", "40", "5"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := labels(test.ticks); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestThousands(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0.00", 8: "0.01", -8: "−0.01", 9_990: "9.99", 12_340: "12.3", 999_400: "999", 999_500: "1,000",
		-1_000_000: "−1,000", 27_557_352: "27,557",
	} {
		if got := micros(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
	for value, want := range map[float64]string{0: "0", 999: "999", 1e6: "1,000,000", -1000: "−1,000", 0.25: "0.25"} {
		if got := thousands(value); got != want {
			t.Errorf("%v is %q, want %q", value, got, want)
		}
	}
}
