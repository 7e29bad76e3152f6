// SPDX-License-Identifier: Apache-2.0

package taprio

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const examples = "../../../examples/"

func read(t *testing.T, name string) *control.GateParameterTable {
	t.Helper()
	document, err := schedule.Read(examples + name)
	testlab.Must(t, err)
	return document.Table
}

func lines(commands []Command) (all []string) {
	for _, command := range commands {
		all = append(all, command.String())
	}
	return all
}

// kata returns the options of the paper on Kata containers (case 2): priority 6 is in class 1, all others are in class 3.
func kata() *Options {
	return &Options{
		Device: "eth1", Classes: control.TrafficClassMap{3, 3, 3, 3, 3, 3, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3},
		CodePoints: control.PriorityCodePoints{0, 6, 0, 0}, ETF: true, ETFClasses: []int{1}, Delta: 5 * time.Millisecond, VLAN: 3,
		Offload: []string{OffloadETF},
	}
}

func TestCommandsOfKataPaper(t *testing.T) {
	commands, err := Commands(read(t, "kata-schedule.yaml"), kata())
	testlab.Must(t, err)
	gates := "base-time 1588076872000000000 sched-entry S 01 200000 sched-entry S 02 100000 sched-entry S 04 100000 sched-entry S 08 100000 " +
		"sched-entry S 01 200000 sched-entry S 02 100000 sched-entry S 04 100000 sched-entry S 08 100000 cycle-time 1000000 clockid CLOCK_TAI"
	want := []string{
		"ethtool -L eth1 combined 4",
		"tc qdisc replace dev eth1 root pfifo",
		"tc qdisc replace dev eth1 parent root handle 100: taprio num_tc 4 map 3 3 3 3 3 3 1 3 3 3 3 3 3 3 3 3 queues 1@0 1@1 1@2 1@3 " + gates,
		"tc qdisc replace dev eth1 parent 100:2 etf clockid CLOCK_TAI delta 5000000 offload",
		"tc qdisc replace dev eth1 parent root handle 100: taprio " + gates,
		"ip link set dev eth1 up",
		"ip link add link eth1 name eth1.3 type vlan id 3 egress-qos-map 0:0 1:0 2:0 3:0 4:0 5:0 6:6 7:0 8:0 9:0 10:0 11:0 12:0 13:0 14:0 15:0",
		"ip link set dev eth1.3 up",
	}
	if got := lines(commands); !slices.Equal(got, want) {
		t.Errorf("the commands are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandsOfGatesOnly(t *testing.T) {
	commands, err := Commands(read(t, "schedule.yaml"), &Options{Device: "eth0", Classes: control.TrafficClassMap{1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7},
		Offload: []string{OffloadTaprio}})
	testlab.Must(t, err)
	text := strings.Join(lines(commands), "\n")
	for _, part := range []string{"combined 8", "num_tc 8 map 1 0 2 3 4 5 6 7 1 0", "1@7", "sched-entry S 80 300000 sched-entry S 60 300000 sched-entry S 1f 400000",
		"cycle-time 1000000 max-sdu 0 0 0 0 1500 0 0 0 flags 0x2"} {
		if !strings.Contains(text, part) {
			t.Errorf("the commands lack %q:\n%s", part, text)
		}
	}
	for _, part := range []string{"etf", "vlan", "clockid"} {
		if strings.Contains(text, part) {
			t.Errorf("the commands have %q:\n%s", part, text)
		}
	}
}

func TestLongEntryIsSplit(t *testing.T) {
	entry := control.GateControlEntry{OperationName: control.SetGateStates, TimeIntervalValue: 4_000_000_000, GateStatesValue: 1}
	table := &control.GateParameterTable{GateEnabled: true, AdminGateStates: allOpen, AdminCycleTime: control.CycleTime{Numerator: 10, Denominator: 1},
		AdminControlList: control.GateControlList{Entries: []control.GateControlEntry{entry}}}
	commands, err := Commands(table, &Options{Device: "eth0"})
	testlab.Must(t, err)
	want := "base-time 0 sched-entry S 01 4294967295 sched-entry S 01 4294967295 sched-entry S 01 1410065410 cycle-time 10000000000"
	if text := strings.Join(lines(commands), "\n"); !strings.Contains(text, want) {
		t.Errorf("the commands lack %q:\n%s", want, text)
	}
}

func TestCommandErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		part   string
	}{
		"invalid name":               {func(o *Options) { o.Device = "eth0; reboot" }, "is no name"},
		"invalid VLAN":               {func(o *Options) { o.VLAN = 4095 }, "VLAN 4095"},
		"long name of VLAN device":   {func(o *Options) { o.Device = "enp0s31f6abcd"; o.VLAN = 100 }, "longer than"},
		"etf without delta":          {func(o *Options) { o.Delta = 0 }, "delta 0s"},
		"missing class":              {func(o *Options) { o.ETFClasses = []int{4} }, "class 4 shall have etf, but there are only classes 0 to 3"},
		"etf classes without etf":    {func(o *Options) { o.ETF = false }, "etf is not enabled"},
		"offload of etf without etf": {func(o *Options) { o.ETF, o.ETFClasses = false, nil }, "etf is not enabled"},
		"unknown offload":            {func(o *Options) { o.Offload = []string{"mqprio"} }, `"mqprio"`},
	} {
		o := kata()
		test.change(o)
		if _, err := Commands(read(t, "kata-schedule.yaml"), o); err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%s: %v, want %q", name, err, test.part)
		}
	}
	if _, err := Commands(&control.GateParameterTable{}, kata()); err == nil || !strings.Contains(err.Error(), "gate-enabled is false") {
		t.Errorf("without a list: %v", err)
	}
}

func TestNotes(t *testing.T) {
	if notes := strings.Join(Notes(read(t, "kata-schedule.yaml"), kata()), "\n"); strings.Contains(notes, "before 6.4") || !strings.Contains(notes, "without a transmit time") {
		t.Errorf("the paper's notes are\n%s", notes)
	}
	o := &Options{Device: "eth0", Classes: control.TrafficClassMap{4, 5}}
	table := read(t, "schedule.yaml")
	table.AdminGateStates = 1
	notes := strings.Join(Notes(table, o), "\n")
	for _, part := range []string{"admin-gate-states", "TC7, TC6 open, and no priority leads there", "before 6.4"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes lack %q:\n%s", part, notes)
		}
	}
}
