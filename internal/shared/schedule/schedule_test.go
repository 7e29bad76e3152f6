// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

const (
	example = "../../../examples/schedule.yaml"
	gigabit = 1_000_000_000
)

// exampleTable returns testdata/table.json as a generic value and as text.
func exampleTable(t *testing.T) (table map[string]any, text []byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/table.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	return table, text
}

// threeWindows returns the table of the example files.
func threeWindows() *control.GateParameterTable {
	return &control.GateParameterTable{
		GateEnabled:     true,
		AdminGateStates: 255,
		AdminControlList: control.GateControlList{Entries: []control.GateControlEntry{
			{Index: 0, OperationName: "set-gate-states", TimeIntervalValue: 300000, GateStatesValue: 128},
			{Index: 1, OperationName: "set-gate-states", TimeIntervalValue: 300000, GateStatesValue: 96},
			{Index: 2, OperationName: "set-gate-states", TimeIntervalValue: 400000, GateStatesValue: 31},
		}},
		AdminCycleTime:   control.CycleTime{Numerator: 1, Denominator: 1000},
		QueueMaxSDUTable: []control.QueueMaxSDU{{TrafficClass: 4, QueueMaxSDU: 1500}},
	}
}

func TestExampleFile(t *testing.T) {
	document, err := Read(example)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(document.Table, threeWindows()) {
		t.Errorf("got %+v", document.Table)
	}
	if err := document.Check(gigabit); err != nil {
		t.Error(err)
	}
}

func TestTableMayBeBareOrWrapped(t *testing.T) {
	_, table := exampleTable(t)
	for name, text := range map[string]string{
		"bare":                      string(table),
		"wrapped":                   `{"gate-parameter-table":` + string(table) + `}`,
		"with the module's name":    `{"ieee802-dot1q-sched:gate-parameter-table":` + string(table) + `}`,
		"with the bridge module's":  `{"ieee802-dot1q-sched-bridge:gate-parameter-table":` + string(table) + `}`,
		"indented by tabs":          "{\n\t\"gate-parameter-table\":\n\t" + string(table) + "\n}\n",
		"JSON as the value in YAML": "# a comment\n---\ngate-parameter-table: " + string(table) + "\n...\n",
		"operations with their module": strings.ReplaceAll(string(table), `"set-gate-states"`,
			`"ieee802-dot1q-sched:set-gate-states"`),
		"64 bits as a string": strings.Replace(string(table), `"seconds":0`, `"seconds":"0"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			document, err := Parse("s.json", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(document.Table, threeWindows()) {
				t.Errorf("got %+v", document.Table)
			}
		})
	}
}

func TestYANGDefaults(t *testing.T) {
	const list = "admin-control-list: {gate-control-entry: [{index: 0, operation-name: set-gate-states, " +
		"time-interval-value: 1000, gate-states-value: 0x80}]}\n"
	entries := control.GateControlList{Entries: []control.GateControlEntry{
		{OperationName: "set-gate-states", TimeIntervalValue: 1000, GateStatesValue: 128}}}
	for name, test := range map[string]struct {
		text string
		want control.GateParameterTable
	}{
		"nothing but that gates are not enabled": {"gate-enabled: false\n",
			control.GateParameterTable{AdminGateStates: 255, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1}}},
		"an empty table": {"gate-parameter-table: {}\n",
			control.GateParameterTable{AdminGateStates: 255, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1}}},
		"gates enabled": {"gate-enabled: true\nadmin-cycle-time: {numerator: 1, denominator: 1_000}\n" + list,
			control.GateParameterTable{GateEnabled: true, AdminGateStates: 255, AdminControlList: entries,
				AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1000}}},
		"half of a base time": {"admin-base-time: {nanoseconds: 5}\n",
			control.GateParameterTable{AdminGateStates: 255, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1},
				AdminBaseTime: control.PTPTime{Nanoseconds: 5}}},
		"a class without its limit": {"queue-max-sdu-table: [traffic-class: 3]\n",
			control.GateParameterTable{AdminGateStates: 255, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1},
				QueueMaxSDUTable: []control.QueueMaxSDU{{TrafficClass: 3}}}},
		"an empty control list": {"admin-control-list: {}\n",
			control.GateParameterTable{AdminGateStates: 255, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := Parse("s.yaml", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*document.Table, test.want) {
				t.Errorf("got %+v, want %+v", *document.Table, test.want)
			}
			if err := document.Check(gigabit); err != nil {
				t.Error(err)
			}
		})
	}
}

// change puts a value at a place such as "gate-parameter-table/queue-max-sdu-table/0/traffic-class".
func change(t *testing.T, root any, place string, value any, remove bool) {
	t.Helper()
	first, rest, deeper := strings.Cut(place, "/")
	switch at := root.(type) {
	case map[string]any:
		if deeper {
			change(t, at[first], rest, value, remove)
		} else if at[first] = value; remove {
			delete(at, first)
		}
	case []any:
		index, err := strconv.Atoi(first)
		if err != nil {
			t.Fatal(err)
		}
		if deeper {
			change(t, at[index], rest, value, remove)
		} else {
			at[index] = value
		}
	default:
		t.Fatalf("nothing at %s", place)
	}
}

// escapeControls writes control characters, which a file of YAML has as escapes only; json.Marshal leaves C1 as they are.
func escapeControls(text []byte) []byte {
	var escaped []byte
	for _, char := range string(text) {
		if char >= 0x7f && unicode.IsControl(char) {
			escaped = fmt.Appendf(escaped, `\u%04x`, char)
		} else {
			escaped = utf8.AppendRune(escaped, char)
		}
	}
	return escaped
}

// TestRefusals changes one value of the example.
func TestRefusals(t *testing.T) {
	data, err := os.ReadFile("testdata/refusals.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Place        string           `json:"place"`
		Value        *json.RawMessage `json:"value"`
		Field        string           `json:"field"`
		Message      string           `json:"message"`
		LinkSpeedBps int64            `json:"link-speed-bps"`
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	hasNull := strings.Contains(string(data), `"value": null`)
	for _, test := range cases {
		t.Run(test.Field+" "+test.Message, func(t *testing.T) {
			table, _ := exampleTable(t)
			root := map[string]any{tableName: table}
			var value any
			if test.Value != nil {
				if err := json.Unmarshal(*test.Value, &value); err != nil {
					t.Fatal(err)
				}
			}
			isNull := test.Value == nil && hasNull && strings.HasPrefix(test.Message, "is null")
			change(t, root, test.Place, value, test.Value == nil && !isNull)
			text, err := json.MarshalIndent(root, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			document, err := Parse("s.json", escapeControls(text))
			if test.LinkSpeedBps > 0 {
				if err != nil {
					t.Fatal(err)
				}
				err = document.Check(test.LinkSpeedBps)
			}
			var refusal *Error
			if !errors.As(err, &refusal) {
				t.Fatalf("accepted, %v", err)
			}
			if refusal.Field != test.Field || refusal.Message != test.Message || refusal.Line == 0 {
				t.Errorf("got %v", refusal)
			}
		})
	}
}

// TestVerdicts reads whole schedules. Without a field a schedule is accepted.
func TestVerdicts(t *testing.T) {
	data, err := os.ReadFile("testdata/verdicts.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name         string          `json:"name"`
		Table        json.RawMessage `json:"gate-parameter-table"`
		LinkSpeedBps int64           `json:"link-speed-bps"`
		Field        string          `json:"field"`
		Message      string          `json:"message"`
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, test := range cases {
		t.Run(test.Name, func(t *testing.T) {
			document, err := Parse("s.json", test.Table)
			if err == nil {
				err = document.Check(test.LinkSpeedBps)
			}
			if test.Field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Field != test.Field || refusal.Message != test.Message {
				t.Errorf("got %v, want %s: %s", err, test.Field, test.Message)
			}
		})
	}
}

// TestCheckTable checks a table of an object of the API, for which there is no file.
func TestCheckTable(t *testing.T) {
	table := threeWindows()
	if err := CheckTable(table, gigabit); err != nil {
		t.Error(err)
	}
	if err := CheckTable(&control.GateParameterTable{AdminGateStates: 255}, 0); err != nil {
		t.Error(err)
	}
	table.AdminControlList.Entries[2].TimeIntervalValue = 100
	const want = "ktsnd refused gate-parameter-table.admin-control-list.gate-control-entry[2].time-interval-value: is 100; must be at least 672, " +
		"the time of the smallest frame at 1 Gbit/s"
	if err := CheckTable(table, gigabit); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestReadInvalidFiles(t *testing.T) {
	const cycle = "gate-enabled: true\nadmin-cycle-time:\n  numerator: 1\n  denominator: 1000\n"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":          {"", "s.yaml: is empty; must hold a gate-parameter-table"},
		"only a comment":   {"# nothing\n", "s.yaml: is empty; must hold a gate-parameter-table"},
		"no YAML":          {"a: [1\n", "s.yaml:1: is neither YAML nor JSON: did not find expected ',' or ']'"},
		"a second one":     {"a: 1\n---\nb: 1\n", "s.yaml:2: begins a second document; a file holds one schedule"},
		"another kind":     {"- 1\n", "s.yaml:1: gate-parameter-table: is a list; must be an object with gate-enabled, admin-gate-states, admin-control-list, admin-cycle-time, admin-cycle-time-extension, admin-base-time, queue-max-sdu-table"},
		"a name twice":     {"gate-enabled: true\ngate-enabled: false\n", `s.yaml:2: has the field "gate-enabled" twice`},
		"something beside": {"gate-parameter-table: {}\ncycle: 1\n", `s.yaml:2: has an unknown field "cycle"; there is only gate-parameter-table`},
		"a field of another place": {"gate-enabled: true\n\nbase-time: 0\n",
			`s.yaml:3: gate-parameter-table: has an unknown field "base-time"; there are only gate-enabled, admin-gate-states, admin-control-list, admin-cycle-time, admin-cycle-time-extension, admin-base-time, queue-max-sdu-table`},
		"an alias": {"admin-gate-states: &all 255\n",
			"s.yaml:1: has an anchor, alias, tag or merge key, which schedules cannot have; write the value itself"},
		"a tag": {"admin-gate-states: !!int 255\n",
			"s.yaml:1: has an anchor, alias, tag or merge key, which schedules cannot have; write the value itself"},
		"a merge key": {"<<: {gate-enabled: true}\n",
			"s.yaml:1: has an anchor, alias, tag or merge key, which schedules cannot have; write the value itself"},
		"a key that is a number": {"5: true\n", "s.yaml:1: has a key that is 5; names of fields are strings"},
		"another word for true": {"\ngate-enabled: yes\n",
			`s.yaml:2: gate-parameter-table.gate-enabled: is "yes"; must be true or false`},
		"a number with a unit": {"admin-cycle-time-extension: 10us\n",
			`s.yaml:1: gate-parameter-table.admin-cycle-time-extension: is "10us"; must be a whole number from 0 to 4294967295`},
		"a number that looks octal": {"admin-gate-states: 010\n",
			"s.yaml:1: gate-parameter-table.admin-gate-states: is 010; must be written without a 0 in front"},
		"a number beyond 64 bits": {"admin-gate-states: 99999999999999999999\n",
			`s.yaml:1: gate-parameter-table.admin-gate-states: is 99999999999999999999; must be a whole number from 0 to 255`},
		"a number in hexadecimal that is too large": {"admin-gate-states: 0x100\n",
			"s.yaml:1: gate-parameter-table.admin-gate-states: is 0x100; must be a whole number from 0 to 255"},
		"a string where 32 bits are a number": {"admin-base-time: {nanoseconds: '5'}\n",
			`s.yaml:1: gate-parameter-table.admin-base-time.nanoseconds: is "5"; must be a whole number from 0 to 999999999`},
		"seconds beyond the bound as a string": {"admin-base-time:\n  seconds: '9000000001'\n",
			`s.yaml:2: gate-parameter-table.admin-base-time.seconds: is "9000000001"; must be a whole number from 0 to 9000000000`},
		"a field without its value": {"admin-base-time:\n",
			"s.yaml:1: gate-parameter-table.admin-base-time: is null; must be an object with seconds, nanoseconds"},
		"no cycle time though gates are enabled": {"\ngate-enabled: true\n",
			"s.yaml:2: gate-parameter-table.admin-cycle-time: is missing; it is required"},
		"no control list though gates are enabled": {cycle,
			"s.yaml:1: gate-parameter-table.admin-control-list.gate-control-entry: has 0 entries; must have 1 to 256 when gate-enabled is true"},
		"an interval that no frame fits": {cycle + "admin-control-list:\n  gate-control-entry:\n" +
			"  - {index: 0, operation-name: set-gate-states, gate-states-value: 1, time-interval-value: 1000}\n" +
			"  - index: 1\n    operation-name: set-gate-states\n    gate-states-value: 1\n    time-interval-value: 671\n",
			"s.yaml:11: gate-parameter-table.admin-control-list.gate-control-entry[1].time-interval-value: is 671; must be at least 672, the time of the smallest frame at 1 Gbit/s"},
		"a class twice": {"queue-max-sdu-table:\n- traffic-class: 1\n- traffic-class: 1\n",
			"s.yaml:3: gate-parameter-table.queue-max-sdu-table[1].traffic-class: is 1, which an entry before it is too; must be there once"},
		"a file that is too long": {strings.Repeat("#", maxFileBytes+1), "s.yaml: is longer than 1048576 bytes, and no schedule is"},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := Parse("s.yaml", []byte(test.text))
			if err == nil {
				err = document.Check(gigabit)
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestReadMissingFile(t *testing.T) {
	_, err := Read(filepath.Join(t.TempDir(), "nowhere.yaml"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestLongestList(t *testing.T) {
	var text strings.Builder
	text.WriteString("gate-enabled: true\nadmin-cycle-time: {numerator: 1, denominator: 1}\n" +
		"admin-control-list:\n  gate-control-entry:\n")
	for i := range control.MaxControlListLength {
		text.WriteString("  - index: " + strconv.Itoa(i) + "\n    operation-name: set-gate-states\n" +
			"    time-interval-value: 1000\n    gate-states-value: 1\n")
	}
	document, err := Parse("s.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(document.Table.AdminControlList.Entries); got != control.MaxControlListLength {
		t.Errorf("got %d entries", got)
	}
}

func TestLinkSpeeds(t *testing.T) {
	for text, want := range map[string]int64{"1Mbit": 1e6, "100Mbit": 1e8, "2500Mbit": 25e8, "1Gbit": 1e9, "1000Gbit": 1e12} {
		if again, err := ParseLinkSpeed(LinkSpeed(want)); err != nil || again != want {
			t.Errorf("%d is written as %q, which is read as %d, %v", want, LinkSpeed(want), again, err)
		}
		if got, err := ParseLinkSpeed(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "0Gbit", "-1Gbit", "1.5Gbit", "1001Gbit", "1gbit", "1 Gbit", "1kbit", "1Gbit/s",
		"99999999999999Mbit"} {
		if got, err := ParseLinkSpeed(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for bps, want := range map[int64]string{1e9: "1 Gbit/s", 25e8: "2500 Mbit/s", 1e12: "1000 Gbit/s", 9600: "9600 bit/s", 0: "0 bit/s"} {
		if got := FormatLinkSpeed(bps); got != want {
			t.Errorf("%d is %q, want %q", bps, got, want)
		}
	}
}

func TestFormatNs(t *testing.T) {
	for ns, want := range map[int64]string{0: "0 ns", 999: "999 ns", 1000: "1 µs", 1001: "1.001 µs", 300000: "300 µs",
		1500000: "1.5 ms", 1234567: "1234.567 µs", 3600e9: "3600 s", 1000000001: "1000000.001 µs"} {
		if got := FormatNs(ns, false); got != want {
			t.Errorf("%d is %q, want %q", ns, got, want)
		}
	}
	if got := FormatNs(1500, true); got != "1.5 us" {
		t.Errorf("in ASCII %q", got)
	}
	if got := FormatTime(control.PTPTime{Seconds: 1767225600, Nanoseconds: 7}); got != "2026-01-01T00:00:00 TAI + 7 ns" {
		t.Errorf("got %q", got)
	}
}

func TestYAMLKeepsNamesAndOrder(t *testing.T) {
	var out strings.Builder
	if err := WriteYAML(&out, threeWindows()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "gate-enabled: true\nadmin-gate-states: 255\nadmin-control-list:\n") {
		t.Errorf("got\n%s", out.String())
	}
	document, err := Parse("s.yaml", []byte(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(document.Table, threeWindows()) {
		t.Errorf("read again it is %+v", document.Table)
	}
}
