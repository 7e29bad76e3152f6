// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/conformance"
	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// result returns the result of one side: outcomes of the messages 1, 2, ..., of which those in order left.
func result(outcomes []conformance.Outcome, order ...uint32) *conformance.Result {
	built := &conformance.Result{Outcomes: map[uint32]conformance.Outcome{}, Order: order}
	for i, outcome := range outcomes {
		built.Outcomes[uint32(i+1)] = outcome
	}
	return built
}

func TestCompare(t *testing.T) {
	type outcomes = []conformance.Outcome
	deviation := scenario.Deviation{Messages: []uint32{2}, Shaper: "held", Kernel: "dropped", Kind: "k", Reason: "r"}
	for _, test := range []struct {
		name           string
		shaper, kernel *conformance.Result
		deviations     []scenario.Deviation
		complaint      string
	}{
		{name: "equal sides are fine",
			shaper: result(outcomes{"a", "b"}, 1, 2), kernel: result(outcomes{"a", "b"}, 1, 2)},
		{name: "another window is a difference",
			shaper: result(outcomes{"a", "b"}, 1, 2), kernel: result(outcomes{"a", "c"}, 1, 2),
			complaint: "message 2: shaper: b, kernel: c"},
		{name: "another order is a difference",
			shaper: result(outcomes{"a", "a"}, 1, 2), kernel: result(outcomes{"a", "a"}, 2, 1),
			complaint: "order: shaper: [1 2], kernel: [2 1]"},
		{name: "another reason is a difference",
			shaper: result(outcomes{"dropped: missed"}), kernel: result(outcomes{"dropped: txtime"}),
			complaint: "message 1: shaper: dropped: missed, kernel: dropped: txtime"},
		{name: "the kernel need not give a reason",
			shaper: result(outcomes{"dropped: max-sdu"}), kernel: result(outcomes{"dropped"})},
		{name: "a message that one side holds is a difference",
			shaper: result(outcomes{"held"}), kernel: result(outcomes{"dropped"}),
			complaint: "message 1: shaper: held, kernel: dropped"},
		{name: "a declared difference is fine, and its message is not in the order",
			shaper: result(outcomes{"a", "held"}, 1), kernel: result(outcomes{"a", "dropped"}, 1),
			deviations: []scenario.Deviation{deviation}},
		{name: "a declared difference that is another is a difference",
			shaper: result(outcomes{"a", "held"}, 1), kernel: result(outcomes{"a", "b"}, 1, 2),
			deviations: []scenario.Deviation{deviation}, complaint: "declared is shaper: held, kernel: dropped"},
		{name: "a declared difference that is not there is a difference",
			shaper: result(outcomes{"a", "b"}, 1, 2), kernel: result(outcomes{"a", "b"}, 1, 2),
			deviations: []scenario.Deviation{deviation}, complaint: "message 2: both: b; declared is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			what := &scenario.Scenario{Deviations: test.deviations}
			for id := range test.shaper.Outcomes {
				what.Messages = append(what.Messages, scenario.Message{ID: id})
			}
			complaints := strings.Join(conformance.Compare(what, test.shaper, test.kernel), "\n")
			if test.complaint == "" && complaints != "" || !strings.Contains(complaints, test.complaint) {
				t.Errorf("complaints: %q, want %q", complaints, test.complaint)
			}
		})
	}
}

func TestKernelResult(t *testing.T) {
	what := &scenario.Scenario{Strategy: scenario.ETF, Grid: 100, Messages: []scenario.Message{{ID: 1}, {ID: 2}, {ID: 3}}}
	report := func(change func(*scenario.Report)) *scenario.Report {
		report := &scenario.Report{
			Sent: []scenario.Sent{{ID: 1}, {ID: 2, Refused: true}, {ID: 3}}, Configured: []int64{what.SetUpAt()},
			Departures: []scenario.Departure{{ID: 1, At: 250}}, Held: 1,
		}
		change(report)
		return report
	}
	for _, test := range []struct {
		name   string
		change func(*scenario.Report)
		want   string
	}{
		{"what left is in its window, what was refused dropped, the rest held", func(*scenario.Report) {},
			"field 2, dropped, held"},
		{"the error queue gives the reason", func(report *scenario.Report) {
			report.Reported = []scenario.Reported{{ID: 3, Reason: scenario.Missed}}
			report.Held = 0
		}, "field 2, dropped, dropped: missed"},
		{"a frame that the qdiscs lost is noticed", func(report *scenario.Report) { report.Held = 0 },
			"1 messages neither left nor were dropped, but the qdiscs hold 0"},
		{"a message that left twice is noticed", func(report *scenario.Report) {
			report.Departures = append(report.Departures, scenario.Departure{ID: 1, At: 350})
		}, "message 1: field 3, and before that: field 2"},
		{"a message that nobody sent is noticed", func(report *scenario.Report) {
			report.Departures = append(report.Departures, scenario.Departure{ID: 4})
		}, "message 4 was never handed over"},
		{"a guest that is late proves nothing", func(report *scenario.Report) { report.Latest = 20_000_000 },
			"the guest was 20000000 ns late"},
		{"a guest that sends late proves nothing", func(report *scenario.Report) { report.Sent[2].At = 11_000_000 },
			"the guest sent message 3 11000000 ns late"},
		{"a guest that fails proves nothing", func(report *scenario.Report) { report.Failure = "no tc" },
			"the guest reports: no tc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := conformance.KernelResult(what, report(test.change))
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = string(result.Outcomes[1] + ", " + result.Outcomes[2] + ", " + result.Outcomes[3])
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
