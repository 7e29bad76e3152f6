// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const millisecond = 1_000_000

// list returns a schedule with an entry of 100 ms for each state.
func list(at, base, cycle, extension int64, states ...uint8) scenario.Schedule {
	table := scenario.Table{GateEnabled: true, AdminGateStates: 255, CycleTimeExtension: extension * millisecond,
		CycleTime: scenario.CycleTime{Numerator: cycle, Denominator: 1000},
		BaseTime:  scenario.BaseTime{Nanoseconds: base * millisecond}}
	for i, state := range states {
		table.ControlList.Entries = append(table.ControlList.Entries, scenario.GateEntry{Index: i,
			Operation: "set-gate-states", TimeInterval: 100 * millisecond, GateStates: state})
	}
	return scenario.Schedule{At: at * millisecond, Table: table}
}

func TestWindow(t *testing.T) {
	for _, test := range []struct {
		name      string
		schedules []scenario.Schedule
		at        int64
		want      string
	}{
		{"an entry ends where the next begins", []scenario.Schedule{list(-600, 0, 200, 0, 1, 2)}, 100, "cycle 0 entry 1"},
		{"cycles follow each other", []scenario.Schedule{list(-600, 0, 200, 0, 1, 2)}, 450, "cycle 2 entry 0"},
		{"a base time that is past counts its cycles", []scenario.Schedule{list(-600, -1000, 200, 0, 1, 2)}, 0,
			"cycle 5 entry 0"},
		{"before the base time there is no schedule", []scenario.Schedule{list(-600, 300, 200, 0, 1, 2)}, 299,
			"before the schedule"},
		{"a schedule that is over before its cycle holds its last entry", []scenario.Schedule{list(-600, 0, 400, 0, 1, 2)},
			350, "cycle 0 entry 1"},
		{"a schedule that is longer than its cycle is cut", []scenario.Schedule{list(-600, 0, 150, 0, 1, 2)}, 160,
			"cycle 1 entry 0"},
		{"a change is at its base time", []scenario.Schedule{list(-600, 0, 200, 0, 1, 2), list(100, 300, 200, 0, 1, 2)}, 299,
			"schedule 0 cycle 1 entry 0"},
		{"after it the new schedule counts", []scenario.Schedule{list(-600, 0, 200, 0, 1, 2), list(100, 300, 200, 0, 1, 2)},
			300, "schedule 1 cycle 0 entry 0"},
		{"a change to a base time that is past waits for a cycle",
			[]scenario.Schedule{list(-600, 0, 200, 0, 1, 2), list(110, -50, 200, 0, 1, 2)}, 149, "schedule 0 cycle 0 entry 1"},
		{"and comes with it", []scenario.Schedule{list(-600, 0, 200, 0, 1, 2), list(110, -50, 200, 0, 1, 2)}, 150,
			"schedule 1 cycle 1 entry 0"},
		{"the cycle before a change that is near is extended",
			[]scenario.Schedule{list(-600, 0, 200, 60, 1, 2), list(110, 460, 200, 0, 1, 2)}, 410, "schedule 0 cycle 1 entry 1"},
		{"and is not when the change is not near",
			[]scenario.Schedule{list(-600, 0, 200, 50, 1, 2), list(110, 460, 200, 0, 1, 2)}, 410, "schedule 0 cycle 2 entry 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			what := &scenario.Scenario{Strategy: scenario.TAS, Schedules: test.schedules}
			if got := what.Window(test.at * millisecond); got != test.want {
				t.Errorf("%d ms: %s, want %s", test.at, got, test.want)
			}
		})
	}
}

// The kernel numbers classes in reverse: 7, the most important here, is 0 there.
func TestCommandsForTaprio(t *testing.T) {
	schedule := list(-600, -100, 250, 20, 0x80, 0x41)
	schedule.Table.QueueMaxSDUTable = []scenario.QueueMaxSDU{{TrafficClass: 6, Bytes: 1000}}
	what := &scenario.Scenario{Strategy: scenario.TAS, Schedules: []scenario.Schedule{schedule},
		Messages: []scenario.Message{{ID: 1}}}
	want := []string{"qdisc replace dev d root handle 100: stab overhead 24 taprio num_tc 8 " +
		"map 6 7 5 4 3 2 1 0 6 7 5 4 3 2 1 0 queues 1@0 1@1 1@2 1@3 1@4 1@5 1@6 1@7 base-time 900000000 " +
		"sched-entry S 01 100000000 sched-entry S 82 100000000 cycle-time 250000000 cycle-time-extension 20000000 " +
		"clockid CLOCK_TAI max-sdu 0 1000 0 0 0 0 0 0"}
	if got := what.Commands("d", 0, 1_000_000_000); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReplayLines(t *testing.T) {
	at := int64(30)
	what := &scenario.Scenario{Strategy: scenario.TAS, Schedules: []scenario.Schedule{list(-600, 0, 200, 0, 1, 2)},
		Messages: []scenario.Message{{ID: 7, Priority: 1, PayloadBytes: 64, HandedOver: 20, TransmitTime: &at}}, Until: 40}
	want := `strategy tas
link-speed-bps 10000000
guard-band-ns 20000
delta-ns 500000
tolerance-ns 10000
schedule 999999999400000000 255 1000000000000000000 200000000 0
entry 100000000 1
entry 100000000 2
message 1000000000000000020 7 1000000000000000030 0 130 92 0
until 1000000000000000040
`
	if got := what.ReplayLines(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	good, err := os.ReadFile(filepath.Join("..", "scenarios", "cycle-longer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, replacement, complaint string }{
		{"an unknown field", `"short"`, `"sort"`, `unknown field "sort"`},
		{"a name inside", `"title"`, `"name": "x", "title"`, "name: it is the file's name"},
		{"a window that is too short for an emulated machine", `100000000`, `10000000`, "time-interval-value of at least"},
		{"a message that comes twice", `"id": 2`, `"id": 1`, "message 1: there are two of them"},
		{"a message without payload", `"payload-bytes": 64`, `"payload-bytes": 4`, "payload-bytes 4; give 18 to"},
		{"a transmit time in one message only", `"payload-bytes": 64,`, `"payload-bytes": 64, "txtime-ns": 5,`,
			"all messages have a txtime-ns, or none has"},
		{"a deviation of a message that does not exist", `"messages": [1, 3]`, `"messages": [99]`, "message 99 does not exist"},
		{"a deviation without reason", `"reason": "`, `"reason": "", "x": "`, `unknown field "x"`},
		{"too little time to set up", `-600000000`, `-60000`, "setting up takes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			content := strings.Replace(string(good), test.old, test.replacement, 1)
			if content == string(good) {
				t.Fatalf("%q is not in the scenario", test.old)
			}
			if _, err := scenario.Parse("x", []byte(content)); err == nil || !strings.Contains(err.Error(), test.complaint) {
				t.Errorf("error %v, want one with %q", err, test.complaint)
			}
		})
	}
}
