// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse holds that no file makes the program fail in another way than with a sentence, and that a schedule which
// was accepted can be drawn and means the same when it is written out and read again.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"gate-enabled":true,"admin-cycle-time":{"numerator":3,"denominator":4},"admin-base-time":{"seconds":"5"}}`))
	f.Add([]byte("ieee802-dot1q-sched:gate-parameter-table: {queue-max-sdu-table: [traffic-class: 3]}\n"))
	f.Add([]byte("gate-enabled: &x true\nadmin-gate-states: *x\n<<: *x\n? k\n: v\n--- |\n text\n"))
	f.Add([]byte("gate-enabled: true\nadmin-cycle-time: {numerator: 1, denominator: 100000}\nadmin-control-list:\n" +
		"  gate-control-entry:\n  - {index: 0, operation-name: set-gate-states, time-interval-value: 672, gate-states-value: 0x80}\n" +
		"  - {index: 1, operation-name: set-gate-states, time-interval-value: 20000, gate-states-value: 0b1111}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		document, err := Parse("s.yaml", data)
		if err != nil {
			checkSentence(t, err)
			return
		}
		checkSame(t, document)
		if err := document.Check(gigabit); err != nil {
			checkSentence(t, err)
			return
		}
		cycle := Cycle{TimeNs: document.Table.AdminCycleTime.Nanoseconds(), Entries: document.Table.AdminControlList.Entries}
		cycle.Notes(Link{SpeedBps: gigabit}, true)
		checkDrawing(t, cycle)
	})
}

func checkSentence(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); !strings.HasPrefix(text, "s.yaml:") || strings.Contains(text, "\n") {
		t.Errorf("says %q", text)
	}
}

func checkSame(t *testing.T, document *Document) {
	t.Helper()
	text, err := json.Marshal(document.Table)
	if err != nil {
		t.Fatal(err)
	}
	// A table without this list has it as null in Go, which the client of ktsnd avoids in its own way.
	again, err := Parse("s.json", []byte(strings.Replace(string(text), `"queue-max-sdu-table":null`, `"queue-max-sdu-table":[]`, 1)))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !reflect.DeepEqual(again.Table, document.Table) {
		t.Errorf("%s is %+v, was %+v", text, again.Table, document.Table)
	}
}

func checkDrawing(t *testing.T, cycle Cycle) {
	t.Helper()
	for _, style := range []Style{{Width: 80}, {Width: 40, ASCII: true}} {
		for line := range strings.Lines(cycle.Draw(style)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.Contains(line, "this column") { // the legend
				continue
			}
			if width := utf8.RuneCountInString(line); width != style.Width {
				t.Fatalf("a line of %d columns instead of %d: %s", width, style.Width, line)
			}
		}
	}
}
