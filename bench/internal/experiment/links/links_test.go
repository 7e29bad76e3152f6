// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/throughput"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

var paths = []string{testbed.Host, testbed.Flannel, testbed.Link, testbed.TSN}

func TestEachPartHasItsPaths(t *testing.T) {
	e := New().(*Experiment)
	e.Parts, e.Tests, e.MTUs, e.Numbers = []string{timed, transfers, many}, []string{"tcp"}, []int{1500}, []int{5}
	var got []string
	for _, current := range e.Cases(&engine.Profile{Paths: paths}) {
		got = append(got, current.Name+" "+current.Path)
	}
	want := []string{"timed link", "timed tsn", "tcp-1500 host", "tcp-1500 flannel", "tcp-1500 link", "links-5 link"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestCheck(t *testing.T) {
	for want, profile := range map[string]engine.Profile{
		"links are measured between network namespaces": {Target: engine.Cluster.Name, Paths: paths},
		"links is about path link, and the paths are":   {Paths: []string{testbed.Host}},
	} {
		if err := New().(*Experiment).Check(&profile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if err := New().(*Experiment).Check(&engine.Profile{Paths: paths}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// repetitions are those of one case.
func repetitions(name, path, value string, values ...float64) []engine.Measured {
	var all []engine.Measured
	for i, number := range values {
		all = append(all, engine.Measured{Case: engine.Case{Name: name, Path: path}, Repetition: i + 1,
			Outcome: &engine.Outcome{Values: map[string]float64{value: number}}})
	}
	return all
}

func TestRatios(t *testing.T) {
	measured := slices.Concat(
		repetitions("tcp-1500", testbed.Flannel, throughput.ValueBps, 10e9, 1e9, 4e9),
		repetitions("tcp-1500", testbed.Link, throughput.ValueBps, 9e9, 0.9e9, 8e9))
	got := ratios(measured, testbed.Link, testbed.Flannel, "tcp-1500", throughput.ValueBps)
	if got != (spread{median: 0.9, least: 0.9, most: 2, count: 3}) {
		t.Errorf("%+v", got)
	}
}

func TestFigures(t *testing.T) {
	measured := slices.Concat(
		repetitions("tcp-1500", testbed.Flannel, throughput.ValueBps, 10e9),
		repetitions("tcp-1500", testbed.Link, throughput.ValueBps, 9e9),
		repetitions("ping-1500", testbed.Flannel, throughput.ValueP50, 100e3),
		repetitions("ping-1500", testbed.Link, throughput.ValueP50, 90e3),
		repetitions(timed, testbed.Link, valueLost, 1))
	want := map[string]bool{"tcp-1500: throughput, flannel ÷ link": false, "ping-1500: median round trip, link ÷ flannel": true,
		"timed messages over a link: lost": false}
	figures := New().(*Experiment).figures(measured)
	if len(figures) != len(want) {
		t.Errorf("%+v", figures)
	}
	for _, figure := range figures {
		if reached, known := want[figure.Name]; !known || reached != figure.Reached {
			t.Errorf("%+v", figure)
		}
	}
}

func TestProblems(t *testing.T) {
	e := New().(*Experiment)
	e.Messages = 3
	outcome := &engine.Outcome{Values: map[string]float64{}}
	e.count(outcome, []tsnperf.Received{{Txtime: 100, Arrival: 150}, {Txtime: 200, Arrival: 199}},
		[]control.Departure{{RequestedTAI: 100, DepartedTAI: 110}, {RequestedTAI: 200, DepartedTAI: 205}, {RequestedTAI: 300, DepartedTAI: 301}})
	if want := []string{"1 of 3 messages count as lost", "1 of 3 messages count as early"}; !slices.Equal(outcome.Problems, want) {
		t.Errorf("%q", outcome.Problems)
	}
	if got := outcome.Samples[sampleDeparted]; !slices.Equal(got, []int64{10, 5, 1}) {
		t.Errorf("%v", got)
	}
	if got := outcome.Samples[sampleLatency]; !slices.Equal(got, []int64{50, -1}) {
		t.Errorf("%v", got)
	}
}

func TestReport(t *testing.T) {
	e := New().(*Experiment)
	e.Parts, e.Tests, e.MTUs, e.Numbers = []string{timed, transfers, many}, []string{"tcp"}, []int{1500}, []int{5}
	findings := e.Report(&engine.Profile{Paths: paths}, slices.Concat(
		repetitions("tcp-1500", testbed.Link, throughput.ValueBps, 9e9, 7e9, 8e9),
		repetitions("links-5", testbed.Link, valuePlugAll, 1.5e9)))
	rows := map[string][]string{}
	for _, section := range findings.Sections {
		for _, table := range section.Tables {
			if len(table.Rows) > 0 {
				rows[section.ID+"-"+table.ID] = table.Rows[0]
			}
		}
	}
	if row := rows["beside-flannel-medians"]; len(row) != 7 || row[0] != "tcp-1500" || row[4] != "8.000 (7.000 to 9.000)" || row[5] != "-" {
		t.Errorf("%q", row)
	}
	if row := rows["many-plugged"]; len(row) != 8 || row[0] != "5" || row[1] != "1.50" {
		t.Errorf("%q", row)
	}
	if row := rows["timed-messages"]; len(row) != 8 || row[0] != testbed.Link || row[1] != "-" {
		t.Errorf("%q", row)
	}
	var ids []string
	for _, section := range findings.Sections {
		ids = append(ids, section.ID)
	}
	if want := []string{"beside-flannel", "throughput", "timed", "many"}; !slices.Equal(ids, want) {
		t.Errorf("%q", ids)
	}
	if slices.ContainsFunc(findings.Sections, func(s results.Section) bool { return s.About == "" }) {
		t.Error("a section does not say what it is about")
	}
}
