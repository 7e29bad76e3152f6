// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

// Rates are numbers of messages a second.
type Rates struct {
	Sent    float64 `json:"sent-per-second"`
	Late    float64 `json:"late-per-second"`
	Dropped float64 `json:"dropped-per-second"`
	// Pending is a number, not a rate.
	Pending uint64 `json:"pending"`
	// ErrorP50Ns and ErrorP99Ns are percentiles of the departure error; nil when nothing departed.
	ErrorP50Ns *int64 `json:"departure-error-p50-ns"`
	ErrorP99Ns *int64 `json:"departure-error-p99-ns"`
}

// Flow is a socket with its rates.
type Flow struct {
	Number   uint64 `json:"flow"`
	Identity string `json:"identity"`
	// Name is its pod's name, if known.
	Name          string `json:"name"`
	PID           int    `json:"pid"`
	LocalAddress  string `json:"local-address"`
	RemoteAddress string `json:"remote-address"`
	TrafficClass  uint8  `json:"traffic-class"`
	Rates
}

// Pod is a pod with the sum of the rates of its flows.
type Pod struct {
	Identity string `json:"identity"`
	Name     string `json:"name"`
	Flows    int    `json:"flows"`
	Rates
}

// View is the difference of two samples.
type View struct {
	At         time.Time `json:"at"`
	IntervalNs int64     `json:"interval-ns"`
	Clock      Clock     `json:"clock"`
	// Total counts all messages, including those of flows that are gone.
	Total Rates  `json:"total"`
	Pods  []Pod  `json:"pods"`
	Flows []Flow `json:"flows"`
	// DeparturesUnseen counts departures that ktsnd overwrote before they were read; the percentiles do not include them.
	DeparturesUnseen uint64 `json:"departures-unseen"`
}

// counts are the counters from which rates are computed.
type counts struct {
	sent, late, dropped, pending uint64
	errorsNs                     []int64
}

func (c *counts) add(other counts) {
	c.sent += other.sent
	c.late += other.late
	c.dropped += other.dropped
	c.errorsNs = append(c.errorsNs, other.errorsNs...)
}

func (c counts) rates(interval time.Duration) Rates {
	second := interval.Seconds()
	rates := Rates{Sent: float64(c.sent) / second, Late: float64(c.late) / second, Dropped: float64(c.dropped) / second,
		Pending: c.pending}
	if len(c.errorsNs) > 0 {
		slices.Sort(c.errorsNs)
		p50, p99 := stats.Percentile(c.errorsNs, 5000), stats.Percentile(c.errorsNs, 9900)
		rates.ErrorP50Ns, rates.ErrorP99Ns = &p50, &p99
	}
	return rates
}

// Compare returns the difference of two samples.
func Compare(before, after *Sample) *View {
	interval := max(after.At.Sub(before.At), time.Nanosecond)
	view := &View{At: after.At, IntervalNs: int64(interval), Clock: compareClocks(before, after), DeparturesUnseen: after.Overwritten}
	errors := errorsByFlow(after.Departures)
	total := counts{
		sent:    since(before.Counters.Sent, after.Counters.Sent),
		late:    since(before.Counters.Late(), after.Counters.Late()),
		dropped: since(before.Counters.Dropped(), after.Counters.Dropped()),
	}
	for _, departure := range after.Departures {
		total.errorsNs = append(total.errorsNs, departure.DepartedTAI-departure.RequestedTAI)
	}
	pods, names := map[string]*counts{}, map[string]string{}
	flows := map[string]int{}
	for _, pod := range after.Pods {
		names[pod.Identity] = pod.Name
	}
	for _, flow := range after.Flows {
		counted := flowCounts(find(before.Flows, flow.Number), flow, errors[flow.Number])
		view.Flows = append(view.Flows, Flow{flow.Number, flow.Identity, names[flow.Identity], flow.PID, flow.LocalAddress, flow.RemoteAddress,
			flow.TrafficClass, counted.rates(interval)})
		if pods[flow.Identity] == nil {
			pods[flow.Identity] = &counts{}
		}
		pods[flow.Identity].add(counted)
		flows[flow.Identity]++
	}
	for _, pod := range after.Pods {
		var counted counts
		if counts := pods[pod.Identity]; counts != nil {
			counted = *counts
		}
		counted.pending = pod.Pending + pod.UntimedPending
		total.pending += counted.pending
		view.Pods = append(view.Pods, Pod{pod.Identity, pod.Name, flows[pod.Identity], counted.rates(interval)})
	}
	view.Total = total.rates(interval)
	return view
}

// since returns the increase of a counter, 0 if it was reset.
func since(before, after uint64) uint64 {
	return after - min(before, after)
}

func find(flows []control.Flow, number uint64) control.Flow {
	i := slices.IndexFunc(flows, func(flow control.Flow) bool { return flow.Number == number })
	if i < 0 {
		return control.Flow{}
	}
	return flows[i]
}

func errorsByFlow(departures []control.Departure) map[uint64][]int64 {
	errors := map[uint64][]int64{}
	for _, departure := range departures {
		errors[departure.Flow] = append(errors[departure.Flow], departure.DepartedTAI-departure.RequestedTAI)
	}
	return errors
}

func flowCounts(before, after control.Flow, errorsNs []int64) counts {
	return counts{since(before.Sent, after.Sent), since(before.Late, after.Late), since(before.Dropped, after.Dropped),
		after.Pending, errorsNs}
}

// Order is the sort order of pods and flows.
type Order string

// orders lists all orders with their keys on the keyboard.
var orders = []struct {
	order Order
	key   byte
	more  func(a, b Rates) int
}{
	{"rate", 'r', func(a, b Rates) int { return cmp.Compare(b.Sent, a.Sent) }},
	{"late", 'l', func(a, b Rates) int { return cmp.Compare(b.Late, a.Late) }},
	{"drops", 'd', func(a, b Rates) int { return cmp.Compare(b.Dropped, a.Dropped) }},
	{"error", 'e', func(a, b Rates) int { return cmp.Compare(errorOf(b), errorOf(a)) }},
	{"pending", 'p', func(a, b Rates) int { return cmp.Compare(b.Pending, a.Pending) }},
}

// Orders lists the names of all orders.
func Orders() string {
	var names []string
	for _, row := range orders {
		names = append(names, string(row.order))
	}
	return strings.Join(names, ", ")
}

// ParseOrder parses the name of an order.
func ParseOrder(name string) (Order, error) {
	for _, row := range orders {
		if string(row.order) == name {
			return row.order, nil
		}
	}
	return "", fmt.Errorf("%q is no order; accepted are %s", name, Orders())
}

// OrderOfKey returns the order of a key.
func OrderOfKey(key byte) (Order, bool) {
	for _, row := range orders {
		if row.key == key {
			return row.order, true
		}
	}
	return "", false
}

// errorOf sorts entries without departures last.
func errorOf(rates Rates) int64 {
	if rates.ErrorP99Ns == nil {
		return -1 << 63
	}
	return *rates.ErrorP99Ns
}

// Sort sorts the largest first; ties are ordered by name and number, so that lines do not jump.
func (v *View) Sort(order Order) {
	more := func(Rates, Rates) int { return 0 }
	for _, row := range orders {
		if row.order == order {
			more = row.more
		}
	}
	slices.SortFunc(v.Pods, func(a, b Pod) int {
		return cmp.Or(more(a.Rates, b.Rates), strings.Compare(cmp.Or(a.Name, a.Identity), cmp.Or(b.Name, b.Identity)), strings.Compare(a.Identity, b.Identity))
	})
	slices.SortFunc(v.Flows, func(a, b Flow) int {
		return cmp.Or(more(a.Rates, b.Rates), cmp.Compare(a.Number, b.Number))
	})
}
