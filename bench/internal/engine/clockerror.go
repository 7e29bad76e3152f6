// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Both ends of a latency read a clock, and the latency is as wrong as these are against each other. A target estimates how wrong they
// may be and writes it beside what it measured; what follows from it for figures, ratios and assertions is here.

// knowClock adds to a run of namespaces what older benches did not write: they have one clock.
func (c *collector) knowClock(record *Record) {
	if record.Observed.ClockError == nil && c.profile.means().Name == Namespaces.Name {
		record.Observed.ClockError = results.OneClock()
	}
}

// doubtAbout is why a quotient of two latencies is not to be believed; empty where nothing speaks against it.
func doubtAbout(above, below *results.ClockError, denominator float64) string {
	doubt := cmp.Or(above.DoubtOf(), below.DoubtOf())
	if doubt == "" && below.CombinedNs() > 0 && float64(below.CombinedNs()) >= denominator {
		doubt = fmt.Sprintf("the clocks may be wrong by %s µs, which is more than the latency to divide by", results.Micros(below.CombinedNs()))
	}
	return doubt
}

// widened is a range of a quotient of latencies with the errors of their clocks granted. Of one clock it stays as it is.
func widened(low, high, numerator, denominator float64, above, below *results.ClockError) (least, most float64) {
	up, down := float64(above.CombinedNs()), float64(below.CombinedNs())
	if (up == 0 && down == 0) || numerator <= 0 || denominator <= down {
		return low, high
	}
	least = low * max(numerator-up, 0) / numerator * denominator / (denominator + down)
	most = high * (numerator + up) / numerator * denominator / (denominator - down)
	return least, most
}

// mostDoubts is how many different doubts are named, before they are counted.
const mostDoubts = 3

// doubts are warnings about the latencies that are not to be believed.
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
			return append(all, fmt.Sprintf("the latencies of %d more runs are not to be believed for such reasons", left))
		}
		limits := which[doubt]
		whose := limits[0]
		if len(limits) > 1 {
			whose = fmt.Sprintf("%s and %d more", limits[0], len(limits)-1)
		}
		all = append(all, fmt.Sprintf("the latencies of %s are not to be believed: %s", whose, doubt))
	}
	return all
}

// doubtful stands among the facts for a latency that is not to be believed.
type doubtful struct{ why string }

// doubtedFields are the fields of a run that depend on both clocks.
var doubtedFields = []string{"latency_ns"}

// doubtFields takes from the fields of a run what is not to be believed, unless the user wants it all the same.
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
