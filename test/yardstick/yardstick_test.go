// SPDX-License-Identifier: Apache-2.0

// Package yardstick compares the schedules of internal/shared/streams with those of tsnkit. scripts/yardstick.sh installs it.
package yardstick

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outcome reports whether a method found a schedule, and after how many seconds.
type outcome struct {
	solved  bool
	seconds float64
}

func (o *outcome) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&o.solved, &o.seconds})
}

// yardstickCase is a line of yardstick.py.
type yardstickCase struct {
	Seed                  int
	KTSN                  outcome
	Message               string
	Frames, Late, Missing int
	Methods               map[string]outcome
}

const python = "../../build-yardstick/bin/python3"

// compare runs cases and reports late frames of ktsn's results.
func compare(t *testing.T, size, methods string, limitSeconds, from, to int) (cases []yardstickCase) {
	t.Helper()
	arguments := []string{"yardstick.py", filepath.Join(cmp.Or(os.Getenv("KTSN_BIN_DIR"), "../../bin"), "ktsn"), t.TempDir(), size, methods,
		strconv.Itoa(limitSeconds)}
	for seed := from; seed < to; seed++ {
		arguments = append(arguments, strconv.Itoa(seed))
	}
	command := exec.Command(python, arguments...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("%v; run scripts/yardstick.sh --install", err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var c yardstickCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		t.Logf("%s", lines.Text())
		if c.Late > 0 || c.Missing > 0 || c.KTSN.solved && c.Frames == 0 {
			t.Errorf("seed %d: %d of %d frames are late, %d are missing", c.Seed, c.Late, c.Frames, c.Missing)
		}
		if strings.Contains(c.Message, "a defect of ktsn") {
			t.Errorf("seed %d: %s", c.Seed, c.Message)
		}
		cases = append(cases, c)
	}
	if err := command.Wait(); err != nil || len(cases) != to-from {
		t.Fatalf("%d of %d cases, %v", len(cases), to-from, err)
	}
	return cases
}

// summary has the schedulable cases and the median time by method, of which "ktsn" is one.
type summary struct {
	solved map[string]int
	median map[string]float64
}

func summarize(cases []yardstickCase) summary {
	seconds := map[string][]float64{}
	s := summary{map[string]int{}, map[string]float64{}}
	for i := range cases {
		all := map[string]outcome{"ktsn": cases[i].KTSN}
		for method, o := range cases[i].Methods {
			all[method] = o
		}
		for method, o := range all {
			seconds[method] = append(seconds[method], o.seconds)
			if o.solved {
				s.solved[method]++
			}
		}
	}
	for method, times := range seconds {
		slices.Sort(times)
		s.median[method] = times[len(times)/2]
	}
	return s
}

// record writes a summary to the log and to the table of scripts/tabletest.sh.
func (s summary) record(t *testing.T, title string, cases int) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %d cases\n", title, cases)
	for _, method := range slices.Sorted(func(yield func(string) bool) {
		for method := range s.median {
			if !yield(method) {
				return
			}
		}
	}) {
		fmt.Fprintf(&text, "  %-8s %3d schedulable, median %8.3f s\n", method, s.solved[method], s.median[method])
	}
	t.Log(text.String())
	if path := os.Getenv("KTSN_YARDSTICK_TABLE"); path != "" {
		table, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		fmt.Fprint(table, text.String())
	}
}

// notWorse checks that ktsn schedules at least as many cases as each method.
func (s summary) notWorse(t *testing.T) {
	t.Helper()
	for method, count := range s.solved {
		if count > s.solved["ktsn"] {
			t.Errorf("%s schedules %d cases and ktsn %d", method, count, s.solved["ktsn"])
		}
	}
}

// TestTwentyCases is the short form.
func TestTwentyCases(t *testing.T) {
	s := summarize(compare(t, "small", "ls", 5, 0, 20))
	s.record(t, "small cases", 20)
	s.notWorse(t)
	if s.solved["ktsn"] < 20 || s.solved["ls"] == 0 {
		t.Errorf("of 20 cases that have a schedule ktsn schedules %d, and ls %d", s.solved["ktsn"], s.solved["ls"])
	}
}

// TestMissingFrames counts frames of two streams in two hyperperiods of 200 µs, all of them of the second stream, which has that period. The
// offset is 10 µs and the latency 20 µs.
func TestMissingFrames(t *testing.T) {
	var program, wants strings.Builder
	program.WriteString("import pandas, yardstick\n" +
		"streams = pandas.DataFrame({'stream': [0, 1], 'size': [100, 100], 'period': [100000, 200000], 'deadline': [50000, 50000]})\n" +
		"def count(*log):\n" +
		"    print(list(yardstick.count([log, [[12800, 212800], [30000, 230000]]], streams, pandas.Series({0: 10000, 1: 10000})).values()))\n")
	for _, test := range []struct{ sent, received, want string }{
		{"[12800, 112800, 212800, 312800]", "[30000, 130000, 230000, 330000]", "[6, 0, 0]"},
		{"[12800, 112800]", "[30000, 130000]", "[4, 0, 2]"},   // none of the second hyperperiod
		{"[212800, 312800]", "[230000, 330000]", "[4, 0, 2]"}, // none of the first
		{"[12800, 112800, 212800, 312800]", "[30000, 130000, 230000]", "[5, 0, 1]"},
		{"[12800, 112800, 212800, 312800]", "[30000, 130000, 330000]", "[5, 1, 1]"}, // the arrivals of a missing frame and of the next are compared
	} {
		fmt.Fprintf(&program, "count(%s, %s)\n", test.sent, test.received)
		fmt.Fprintln(&wants, test.want)
	}
	if output, err := exec.Command(python, "-c", program.String()).CombinedOutput(); err != nil || string(output) != wants.String() {
		t.Errorf("frames, late and missing ones: %v\n%s", err, output)
	}
}
