// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func flow(number uint64, identity string, sent, late, dropped, pending uint64) control.Flow {
	return control.Flow{Number: number, Identity: identity, LocalAddress: "10.42.1.2:40000", Taken: sent + dropped + pending,
		Sent: sent, Late: late, Dropped: dropped, Pending: pending}
}

// two samples, two seconds apart: flow 1 sent 100 of which 4 were late, flow 2 of the other pod dropped 2, flow 3 is
// new, and flow 9 is gone.
func twoSamples() (before, after *Sample) {
	before = &Sample{At: begin, Counters: control.Counters{Sent: 1000},
		Flows: []control.Flow{flow(1, "a", 900, 10, 0, 0), flow(2, "b", 50, 0, 1, 0), flow(9, "a", 50, 0, 0, 0)}}
	after = &Sample{At: begin.Add(2 * time.Second), Counters: control.Counters{Sent: 1110, LateWakeup: 4, DropClosed: 2},
		Pods:        []control.Pod{{Identity: "a", Pending: 3}, {Identity: "b"}, {Identity: "c"}},
		Flows:       []control.Flow{flow(1, "a", 1000, 14, 0, 2), flow(2, "b", 50, 0, 3, 0), flow(3, "a", 10, 0, 0, 1)},
		Overwritten: 7}
	for i := range int64(100) {
		after.Departures = append(after.Departures, control.Departure{Flow: 1, RequestedTAI: 5000, DepartedTAI: 5000 + i + 1})
	}
	after.Departures = append(after.Departures, control.Departure{Flow: 3, RequestedTAI: 0, DepartedTAI: 2000})
	return before, after
}

func TestCompare(t *testing.T) {
	view := Compare(twoSamples())
	if view.IntervalNs != 2e9 || view.DeparturesUnseen != 7 {
		t.Errorf("view %+v", view)
	}
	if total := view.Total; total.Sent != 55 || total.Late != 2 || total.Dropped != 1 || total.Pending != 3 || *total.ErrorP99Ns != 100 {
		t.Errorf("in total %+v", total)
	}
	for i, want := range []struct {
		number              uint64
		sent, late, dropped float64
		pending             uint64
	}{{1, 50, 2, 0, 2}, {2, 0, 0, 1, 0}, {3, 5, 0, 0, 1}} {
		got := view.Flows[i]
		if got.Number != want.number || got.Sent != want.sent || got.Late != want.late || got.Dropped != want.dropped ||
			got.Pending != want.pending {
			t.Errorf("flow %+v, want %+v", got, want)
		}
	}
	if *view.Flows[0].ErrorP50Ns != 50 || *view.Flows[0].ErrorP99Ns != 99 || view.Flows[1].ErrorP50Ns != nil {
		t.Errorf("percentiles %v %v", view.Flows[0], view.Flows[1])
	}
	if a := view.Pods[0]; a.Flows != 2 || a.Sent != 55 || a.Pending != 3 || *a.ErrorP99Ns != 100 {
		t.Errorf("pod a %+v", a)
	}
	if c := view.Pods[2]; c.Flows != 0 || c.Sent != 0 || c.ErrorP50Ns != nil {
		t.Errorf("pod c %+v", c)
	}
}

func TestCompareAfterReset(t *testing.T) {
	before, after := twoSamples()
	view := Compare(after, before)
	if view.Total.Sent != 0 || view.Flows[0].Sent != 0 {
		t.Errorf("view %+v", view)
	}
}

func TestSort(t *testing.T) {
	for order, want := range map[Order][]uint64{
		"rate": {1, 3, 2}, "late": {1, 2, 3}, "drops": {2, 1, 3}, "error": {3, 1, 2}, "pending": {1, 3, 2},
	} {
		view := Compare(twoSamples())
		view.Sort(order)
		var got []uint64
		for _, flow := range view.Flows {
			got = append(got, flow.Number)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %s: %v, want %v", order, got, want)
		}
	}
}

func TestOrders(t *testing.T) {
	keys := map[byte]bool{'q': true}
	for _, row := range orders {
		order, known := OrderOfKey(row.key)
		parsed, err := ParseOrder(string(row.order))
		if !known || order != row.order || err != nil || parsed != row.order || keys[row.key] {
			t.Errorf("%s: %v %v %v", row.order, order, parsed, err)
		}
		keys[row.key] = true
	}
	if _, err := ParseOrder("beauty"); err == nil || !strings.Contains(err.Error(), "rate, late") {
		t.Errorf("got %v", err)
	}
}

func TestPrint(t *testing.T) {
	view := Compare(twoSamples())
	var text strings.Builder
	if err := view.Print(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"03:04:07, over 2s: 55 msg/s, 2.0 late/s, 1.0 drops/s, 3 pending, departure error p50 51ns p99 100ns\n",
		"7 departures were overwritten",
		"a    2      55     2.0     0.0     3        51ns  100ns\n",
		"c    0      0      0.0     0.0     0        -     -\n",
		"3     a    -    10.42.1.2:40000  any  0   5      0.0     0.0     1        2µs   2µs\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestPrintClock(t *testing.T) {
	for sentence, test := range map[string]struct {
		before, after control.Clock
		lost          uint64
		want          string
	}{
		"it is good": {control.Clock{Steps: 3}, control.Clock{State: control.ClockSynchronized, ErrorBoundNs: 850, Steps: 3}, 0,
			"p99 100ns\nclock synchronized, error at most 850ns\n7 departures"},
		"nobody knows": {control.Clock{}, control.Clock{State: control.ClockUnknown, ErrorBoundNs: -1}, 0, "\nclock unknown, error unknown\n"},
		"it was set": {control.Clock{Steps: 1}, control.Clock{State: control.ClockUnsynchronized, ErrorBoundNs: 3e9, Steps: 3, LastStepNs: -2e9}, 5,
			"\nclock unsynchronized, error at most 3s; set 2 times, last by -2s; 5 messages left by a clock that is lost to their network\n"},
		"ktsnd is of a release before it": {control.Clock{}, control.Clock{}, 0, "p99 100ns\n7 departures"},
	} {
		t.Run(sentence, func(t *testing.T) {
			before, after := twoSamples()
			before.Clock, after.Clock, after.Counters.ClockLost = test.before, test.after, test.lost
			var text strings.Builder
			if err := Compare(before, after).Print(&text, false); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), test.want) {
				t.Errorf("no %q in\n%s", test.want, text.String())
			}
		})
	}
}

func TestPrintPodNames(t *testing.T) {
	before, after := twoSamples()
	after.Pods[0].Name, after.Pods[1].Name = "factory/axis-1", "factory/axis-0"
	view := Compare(before, after)
	view.Sort("pending")
	if view.Pods[0].Name != "factory/axis-1" || view.Flows[0].Name != "factory/axis-1" || view.Flows[0].Identity != "a" {
		t.Errorf("pods %+v, flows %+v", view.Pods, view.Flows)
	}
	for wide, wants := range map[bool][]string{
		false: {"factory/axis-1  2      55 ", "c               0      0 ", "1     factory/axis-1  -    10.42.1.2"},
		true:  {"POD             IDENTITY  FLOWS ", "factory/axis-1  a         2      55 ", "c               c         0 ", "1     factory/axis-1  a         -    10.42.1.2"},
	} {
		var text strings.Builder
		if err := view.Print(&text, wide); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(text.String(), want) {
				t.Errorf("wide %v: no %q in\n%s", wide, want, text.String())
			}
		}
	}
}

func TestClip(t *testing.T) {
	if got := Clip("one µs\ntwo\nthree\n", 2, 5); got != "one µ\ntwo" {
		t.Errorf("got %q", got)
	}
}

// fakeSource has sent as many messages as there are departures.
type fakeSource struct {
	sent uint64
	Source
}

func (f *fakeSource) Status(context.Context) (*control.Status, error) {
	return &control.Status{Counters: control.Counters{Sent: f.sent}}, nil
}
func (f *fakeSource) Pods(context.Context) ([]control.Pod, error)   { return nil, nil }
func (f *fakeSource) Flows(context.Context) ([]control.Flow, error) { return nil, nil }
func (f *fakeSource) Departures(_ context.Context, after uint64) (all []control.Departure, overwritten uint64, err error) {
	for sequence := after + 1; sequence <= f.sent; sequence++ {
		all = append(all, control.Departure{Sequence: sequence})
	}
	return all, 0, nil
}

func TestTakeReadsEachDepartureOnce(t *testing.T) {
	source := &fakeSource{sent: 70000}
	var before *Sample
	for i, want := range []int{0, 0, 5, 0, 3} {
		if i >= 2 {
			source.sent += uint64(want)
		}
		sample, err := Take(t.Context(), source, func() time.Time { return begin }, before)
		if err != nil {
			t.Fatal(err)
		}
		if len(sample.Departures) != want {
			t.Errorf("sample %d has %d departures, want %d", i, len(sample.Departures), want)
		}
		before = sample
	}
}

func TestPIDText(t *testing.T) {
	if got := PIDText(0) + PIDText(4712); got != "-4712" {
		t.Errorf("shown as %q", got)
	}
}
