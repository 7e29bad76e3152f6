// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// counting is an experiment whose cases are numbers.
type counting struct {
	Upto  []int         `json:"upto"`
	Lasts time.Duration `json:"lasts"`
	Words []string      `json:"words"`
	Most  int           `json:"most"`
	// stop is called before the case of the same number is made.
	stop      func(performed int) error
	performed []string
}

func (c *counting) Fields() Fields {
	return Fields{"upto": Numbers(&c.Upto, 1, 9), "lasts": Within(&c.Lasts, 0, time.Second), "words": Words(&c.Words, "tcp", "udp"),
		"most": Within(&c.Most, 0, 5)}
}

func (c *counting) Check(*Profile) error {
	if len(c.Upto) == 0 {
		return errors.New("upto is missing; give some numbers")
	}
	return nil
}

func (c *counting) Cases(profile *Profile) []Case {
	var all []Case
	for _, number := range c.Upto {
		for _, path := range profile.Paths {
			all = append(all, Case{Name: fmt.Sprintf("count-%d", number), Path: path,
				LastsNs: c.Lasts.Nanoseconds(), Setting: Setting{Daemon: path == results.PathDirect}})
		}
	}
	return all
}

func (c *counting) Perform(_ context.Context, _ Target, _ *Profile, current *Case) (*Outcome, error) {
	if c.stop != nil {
		if err := c.stop(len(c.performed)); err != nil {
			return nil, err
		}
	}
	c.performed = append(c.performed, current.Path+" "+current.Name)
	return &Outcome{Values: map[string]float64{"letters": float64(len(current.Path))}, Said: map[string]string{"program": "counted " + strings.TrimPrefix(current.Name, "count-")}}, nil
}

func (c *counting) Compared() []string { return []string{"letters"} }

func (c *counting) Report(_ *Profile, measured []Measured) Findings {
	table := results.SectionTable{ID: "cases", Head: []string{"case", "repetition", "letters", "said"}}
	for _, measurement := range measured {
		table.Rows = append(table.Rows, []string{measurement.Case.Path + " " + measurement.Case.Name, strconv.Itoa(measurement.Repetition),
			fmt.Sprint(measurement.Values["letters"]), measurement.Said["program"]})
	}
	return Findings{Sections: []results.Section{{ID: "counting", Title: "Counting", Tables: []results.SectionTable{table}}}}
}

const countingProfile = `name: counting
paths: [direct, host]
experiment: counting
repetitions: 2
with:
  upto: [1, 3]
  words: [udp]
  lasts: 500ms
  most: 2
`

// countingOnly makes the experiment known for one test.
func countingOnly(t *testing.T, experiment *counting) {
	t.Helper()
	before := experiments
	experiments = map[string]func() Experiment{"counting": func() Experiment { return experiment }}
	t.Cleanup(func() { experiments = before })
}

func countingOf(t *testing.T) *Profile {
	t.Helper()
	profile, err := ParseProfile("counting.yaml", []byte(countingProfile), Namespaces)
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

func TestExperiment(t *testing.T) {
	countingOnly(t, &counting{})
	profile := countingOf(t)
	runs := runsOf(Plan(profile))
	if len(runs) != 8 || runs[0].Duration() != 500*time.Millisecond || runs[7].Repetition != 2 || runs[0].Case.Name != "count-1" {
		t.Fatalf("planned %+v", runs)
	}
	dir := t.TempDir()
	if err := measureExperiment(t, dir, profile); err != nil {
		t.Fatal(err)
	}
	summary, _ := collected(t, dir)
	if len(summary.Runs) != 0 || len(summary.Sections) != 1 || summary.Profile.Done != 8 || summary.Profile.Experiment != "counting" {
		t.Fatalf("collected %+v", summary)
	}
	rows := summary.Sections[0].Tables[0].Rows
	if len(rows) != 8 || !slices.Equal(rows[3], []string{"host count-3", "1", "4", "counted 3"}) {
		t.Errorf("reported %q", rows)
	}
}

func TestPathsRotateBetweenRepetitions(t *testing.T) {
	countingOnly(t, &counting{})
	profile := countingOf(t)
	profile.Repetitions = 3
	var order []string
	for _, run := range runsOf(Plan(profile)) {
		order = append(order, run.Path+" "+run.Case.Name)
	}
	want := []string{"direct count-1", "host count-1", "direct count-3", "host count-3",
		"host count-1", "direct count-1", "host count-3", "direct count-3",
		"direct count-1", "host count-1", "direct count-3", "host count-3"}
	if !slices.Equal(order, want) {
		t.Errorf("planned %q", order)
	}
}

func TestExperimentAssertionsAndComparison(t *testing.T) {
	countingOnly(t, &counting{})
	a, b, profile := t.TempDir(), t.TempDir(), countingOf(t)
	other := countingOf(t)
	other.Paths = []string{results.PathHost}
	if err := errors.Join(measureExperiment(t, a, profile), measureExperiment(t, b, other)); err != nil {
		t.Fatal(err)
	}
	summary, _ := collected(t, a)
	if len(summary.Cases) != 4 {
		t.Fatalf("cases %+v", summary.Cases)
	}
	letters := summary.Cases[1].Figures["letters"]
	if summary.Cases[1].Path != "host" || letters.Mean != 4 || letters.StandardError == nil || !slices.Equal(letters.Values, []results.CaseValue{{Repetition: 1, Value: 4}, {Repetition: 2, Value: 4}}) {
		t.Errorf("%+v, %+v", summary.Cases[1], letters)
	}
	facts, err := FactsOf(summary)
	if err != nil {
		t.Fatal(err)
	}
	for expression, holds := range map[string]bool{`direct["count-3"].letters == 1.5 * host["count-3"].letters`: true, `host["count-1"].letters > 4`: false} {
		if got, err := facts.Assert(expression); err != nil || got.Holds != holds || !strings.Contains(got.Detail, "means over repetitions: ") {
			t.Errorf("%s: %+v, %v", expression, got, err)
		}
	}
	first, errOne := ReadStore(a)
	two, errTwo := ReadStore(b)
	got, err := Compare(first, two)
	if err := errors.Join(errOne, errTwo, err); err != nil {
		t.Fatal(err)
	}
	if len(got.Cases) != 2 || got.Cases[0].Path != "host" || !got.Cases[0].Known || got.Cases[0].Quotient.Differs() || len(got.OnlyA) != 2 || len(got.OnlyB) != 0 {
		t.Errorf("compared %+v", got)
	}
	if got, err := got.Facts.Assert(`b.host["count-1"].letters <= a.host["count-1"].letters`); err != nil || !got.Holds {
		t.Errorf("%+v, %v", got, err)
	}
	messages, plain := t.TempDir(), short()
	if err := measure(t.Context(), messages, &plain, &fake{}); err != nil {
		t.Fatal(err)
	}
	store, err := ReadStore(messages)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(first, store); err == nil || err.Error() != "nothing is in both benches: A measured counting and B messages" {
		t.Errorf("an experiment and messages: %v", err)
	}
}

func measureExperiment(t *testing.T, dir string, profile *Profile) error {
	t.Helper()
	target, err := ForProfile(&fake{}, profile)
	if err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(dir, NewManifest(profile, host(), target.Environment()))
	if err != nil {
		return err
	}
	runner := Runner{Store: store, Target: target, Progress: NewProgress(io.Discard, 0, time.Now), Now: time.Now}
	return errors.Join(runner.Perform(t.Context(), Plan(profile)), store.Close())
}

func TestStoppedExperimentContinues(t *testing.T) {
	experiment := &counting{}
	countingOnly(t, experiment)
	dir, profile := t.TempDir(), countingOf(t)
	stopped := errors.New("stopped")
	experiment.stop = func(performed int) error {
		if performed == 3 {
			return stopped
		}
		return nil
	}
	if err := measureExperiment(t, dir, profile); !errors.Is(err, stopped) || !strings.Contains(err.Error(), "counting, host, count-3: ") {
		t.Fatalf("it ended with %v", err)
	}
	if summary, _ := collected(t, dir); summary.Profile.Done != 3 || len(summary.NotMeasured) == 0 {
		t.Errorf("%+v", summary.Profile)
	}
	experiment.stop, experiment.performed = nil, nil
	if err := measureExperiment(t, dir, profile); err != nil || len(experiment.performed) != 5 || experiment.performed[0] != "host count-3" {
		t.Errorf("made then: %q, %v", experiment.performed, err)
	}
	other := countingOf(t)
	experiment.Most = 3
	other.With = []byte(`{"upto":[1]}`)
	if err := measureExperiment(t, dir, other); err == nil || !strings.Contains(err.Error(), "another profile: with differs") {
		t.Errorf("other settings: %v", err)
	}
}

func TestFolderOfOtherProgramsIsRejected(t *testing.T) {
	dir := t.TempDir()
	countingOnly(t, &counting{})
	if err := measureExperiment(t, dir, countingOf(t)); err != nil {
		t.Fatal(err)
	}
	store, err := ReadStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	delete(experiments, "counting")
	_, _, errReport := Collect(store)
	_, errCompare := Compare(store, store)
	for _, err := range []error{errReport, errCompare} {
		if err == nil || !strings.HasPrefix(err.Error(), dir+`: the bench is of experiment "counting", which this ktsn does not know`) {
			t.Errorf("got %v", err)
		}
	}
}

func TestInvalidExperimentsAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown":             {"experiment: counting", "experiment: singing", `:3: experiment: is "singing"; must be one of counting`},
		"with for nothing":    {"experiment: counting\n", "", ":5: with: given, and no experiment that it could be for"},
		"messages too":        {"repetitions: 2", "messages: 5", ":4: messages: given, and an experiment (counting), which has its own settings"},
		"workloads too":       {"repetitions: 2", "workloads: [plain]", ":4: workloads: given, and an experiment"},
		"an unknown setting":  {"most: 2", "least: 2", ":9: with: least: is no field of experiment counting; those are lasts, most, upto, words"},
		"an unknown word":     {"[udp]", "[ftp]", `:7: with: words: an item is "ftp"; give some of [tcp udp]`},
		"a number too large":  {"[1, 3]", "[1, 30]", ":6: with: upto: an item is 30; give 1 to 9"},
		"a number twice":      {"[1, 3]", "[1, 1]", ":6: with: upto: has 1 twice; give each once"},
		"no number":           {"[1, 3]", "[]", ":6: with: upto: is empty; give at least one"},
		"a time too long":     {"500ms", "5s", ":8: with: lasts: is 5s; give 0s to 1s"},
		"one number too many": {"most: 2", "most: 6", ":9: with: most: is 6; give 0 to 5"},
		"missing":             {"  upto: [1, 3]\n", "", ":6: with: upto is missing; give some numbers"},
		"no path":             {"paths: [direct, host]", "paths: []", "no path"},
	} {
		t.Run(name, func(t *testing.T) {
			countingOnly(t, &counting{})
			text := strings.Replace(countingProfile, test.old, test.new, 1)
			_, err := ParseProfile("bad.yaml", []byte(text), Namespaces)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}
