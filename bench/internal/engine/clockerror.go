// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// A latency is a difference of two clock readings, so it is as wrong as the clocks differ. A target estimates the error
// and stores it with the measurement. This file applies it to figures, ratios and assertions.

// doubtAbout returns why a quotient of two latencies cannot be trusted, "" if it can.
func doubtAbout(above, below *results.ClockError, denominator float64) string {
	doubt := cmp.Or(above.DoubtOf(), below.DoubtOf())
	if doubt == "" && below.CombinedNs() > 0 && float64(below.CombinedNs()) >= denominator {
		doubt = fmt.Sprintf("the clocks may be wrong by %s µs, which is more than the latency to divide by", results.Micros(below.CombinedNs()))
	}
	return doubt
}

// widened extends the range of a quotient of latencies by their clocks' errors. With one clock it is unchanged.
func widened(low, high, numerator, denominator float64, above, below *results.ClockError) (least, most float64) {
	up, down := float64(above.CombinedNs()), float64(below.CombinedNs())
	if (up == 0 && down == 0) || numerator <= 0 || denominator <= down {
		return low, high
	}
	least = low * max(numerator-up, 0) / numerator * denominator / (denominator + down)
	most = high * (numerator + up) / numerator * denominator / (denominator - down)
	return least, most
}

// mostDoubts is the number of different doubts that are listed before the rest is counted.
const mostDoubts = 3

// doubts returns warnings about latencies that cannot be trusted.
func doubts(runs []*results.Run) []string {
	which := map[string][]string{}
	var order []string
	for _, run := range runs {
		if doubt := run.ClockError.DoubtOf(); doubt != "" && run.Latency != nil {
			if which[doubt] == nil {
				order = append(order, doubt)
			}
			which[doubt] = append(which[doubt], run.Key().String())
		}
	}
	var all []string
	for i, doubt := range order {
		if i == mostDoubts {
			left := 0
			for _, more := range order[i:] {
				left += len(which[more])
			}
			return append(all, fmt.Sprintf("the latencies of %d more runs cannot be trusted for such reasons", left))
		}
		limits := which[doubt]
		whose := limits[0]
		if len(limits) > 1 {
			whose = fmt.Sprintf("%s and %d more", limits[0], len(limits)-1)
		}
		all = append(all, fmt.Sprintf("the latencies of %s cannot be trusted: %s", whose, doubt))
	}
	return all
}

// doubtful replaces a latency that cannot be trusted in the facts.
type doubtful struct{ why string }

// doubtedFields are the fields of a run that depend on both clocks.
var doubtedFields = []string{"latency_ns"}

// doubtFields replaces the fields of a run that cannot be trusted, unless the user wants them anyway.
func doubtFields(run *results.Run, fields map[string]any) {
	why := run.ClockError.DoubtOf()
	if why == "" || run.ClockError != nil && run.ClockError.AnyClock {
		return
	}
	medians, _ := fields["median_of_alternations"].(map[string]any)
	for _, group := range []map[string]any{fields, medians} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			if slices.Contains(doubtedFields, name) && group[name] != nil {
				group[name] = doubtful{why}
			}
		}
	}
}
