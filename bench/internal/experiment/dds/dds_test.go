// SPDX-License-Identifier: Apache-2.0

package dds

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/ddsperf"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

func TestCases(t *testing.T) {
	profile := &engine.Profile{Paths: []string{testbed.Host, testbed.Flannel, testbed.TSN}}
	e := New().(*Experiment)
	seen := map[string]bool{}
	for _, current := range e.Cases(profile) {
		if name := current.Path + " " + current.Name; seen[name] {
			t.Errorf("%s is there twice", name)
		} else {
			seen[name] = true
		}
	}
	for _, want := range []string{"host throughput-64B-1", "flannel latency-16384B-1-best-effort", "tsn throughput-1024B-12-multicast", "host latency-1024B-8-multicast",
		"tsn latency-1024B-1-sign-origin-rtps-encrypt-submessage"} {
		if !seen[want] {
			t.Errorf("no %s", want)
		}
	}
	for _, unwanted := range []string{"flannel throughput-1024B-12-multicast", "host throughput-1024B-1-encrypt-rtps"} {
		if seen[unwanted] {
			t.Errorf("there is %s", unwanted)
		}
	}
}

func TestCaseOfTwoParts(t *testing.T) {
	profile := &engine.Profile{Paths: []string{testbed.Host, testbed.TSN}}
	e := New().(*Experiment)
	e.Parts, e.Subscribers, e.Levels = []string{security, subscribers}, []int{1}, []string{ddsperf.NoSecurity}
	count := map[string]int{}
	for _, current := range e.Cases(profile) {
		count[current.Path+" "+current.Name]++
	}
	for _, path := range profile.Paths {
		if name := path + " throughput-1024B-1"; count[name] != 1 {
			t.Errorf("%s is measured %d times in a repetition", name, count[name])
		}
	}
}

func TestComparedCasesAreAdjacent(t *testing.T) {
	e := New().(*Experiment)
	e.Sizes, e.Levels = []int{64, 1024}, []string{ddsperf.NoSecurity, "encrypt-rtps"}
	var names []string
	for _, current := range e.Cases(&engine.Profile{Paths: []string{testbed.TSN}}) {
		names = append(names, current.Name)
	}
	for _, pair := range [][2]string{{"latency-64B-1", "latency-64B-1-best-effort"}, {"throughput-1024B-1", "throughput-1024B-1-encrypt-rtps"},
		{"latency-1024B-1-best-effort", "latency-1024B-1-encrypt-rtps"}, {"latency-1024B-4", "latency-1024B-4-multicast"}} {
		if at := slices.Index(names, pair[0]); at < 0 || at+1 >= len(names) || names[at+1] != pair[1] {
			t.Errorf("%s is not followed by %s in %q", pair[0], pair[1], names)
		}
	}
}

func TestCheck(t *testing.T) {
	profile := &engine.Profile{Paths: []string{testbed.Host}}
	for want, change := range map[string]func(*Experiment){
		"duration: 4.5s; give whole seconds":                           func(e *Experiment) { e.Duration = 4500 * time.Millisecond },
		"security-paths: none of [tsn] is among the paths [host]; add": func(*Experiment) {},
	} {
		e := New().(*Experiment)
		change(e)
		if err := e.Check(profile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// data are measured values of one kind by path, in the order of repetitions.
type data map[string][]float64

func (d data) measured(k kind, value string) []engine.Measured {
	var all []engine.Measured
	for path, values := range d {
		for i, number := range values {
			all = append(all, engine.Measured{Case: engine.Case{Name: k.name(), Path: path}, Repetition: i + 1,
				Outcome: &engine.Outcome{Values: map[string]float64{value: number}}})
		}
	}
	return all
}

func TestRatios(t *testing.T) {
	r := &report{Experiment: New().(*Experiment)}
	twice := func(first, other kind, value string) []engine.Measured {
		return append(data{testbed.TSN: {30, 30, 30}}.measured(first, value), data{testbed.TSN: {10, 10, 10}}.measured(other, value)...)
	}
	for what, test := range map[string]struct {
		part string
		all  []engine.Measured
	}{
		"throughput, 64 B: tsn ÷ flannel":                       {overhead, data{testbed.TSN: {30, 30, 30}, testbed.Flannel: {10, 10, 10}}.measured(plain(throughput, 64), valueBps)},
		"median of latency, 64 B: tsn ÷ host":                   {overhead, data{testbed.TSN: {30, 30, 30}, testbed.Host: {10, 10, 10}}.measured(plain(latency, 64), valueP50)},
		"p90 of latency over tsn, 64 B: best effort ÷ reliable": {bestEffort, twice(bySize(latency, true)(64), plain(latency, 64), valueP90)},
		"throughput over tsn, 12 subscribers: multicast ÷ unicast": {subscribers,
			twice(r.among(throughput, true)(12), r.among(throughput, false)(12), valueBps)},
		"throughput over tsn, unicast: 12 ÷ 4 subscribers": {subscribers, twice(r.among(throughput, false)(12), r.among(throughput, false)(4), valueBps)},
		"latency over tsn: encrypt-rtps ÷ none":            {security, twice(r.secured(latency, "encrypt-rtps"), r.secured(latency, ddsperf.NoSecurity), valueP90)},
	} {
		e := New().(*Experiment)
		e.Parts = []string{test.part}
		tables := e.Report(&engine.Profile{Paths: []string{testbed.Host, testbed.Flannel, testbed.TSN}}, test.all).Sections[0].Tables
		rows := tables[len(tables)-1].Rows
		if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, []string{what, "3.00", "3.00", "3.00", ""}) }) {
			t.Errorf("no ratio %q in %q", what, rows)
		}
	}
}

func TestTableOneIsRelativeToHost(t *testing.T) {
	e := New().(*Experiment)
	e.Parts, e.Sizes = []string{overhead}, []int{64, 1024}
	all := append(data{testbed.Host: {100e6}, testbed.TSN: {75e6}}.measured(plain(throughput, 64), valueBps),
		data{testbed.Host: {40_000}, testbed.TSN: {50_000}}.measured(plain(latency, 1024), valueP90)...)
	tables := e.Report(&engine.Profile{Paths: []string{testbed.Host, testbed.Flannel, testbed.TSN}}, all).Sections[0].Tables
	if rows := tables[0].Rows; len(rows) != 1 || strings.Join(rows[0], " ") != "tsn 25.0 -" {
		t.Errorf("less throughput: %q", rows)
	}
	if rows := tables[1].Rows; len(rows) != 1 || strings.Join(rows[0], " ") != "tsn - 25.0" {
		t.Errorf("more latency: %q", rows)
	}
	again := data{testbed.Host: {100e6, 100e6, 100e6}, testbed.TSN: {80e6, 75e6, 70e6}}.measured(plain(throughput, 64), valueBps)
	rows := e.Report(&engine.Profile{Paths: []string{testbed.Host, testbed.TSN}}, again).Sections[0].Tables[0].Rows
	if len(rows) != 1 || rows[0][1] != "25.0 (11.5 to 36.4)" { // the difference of -25 is 75 ÷ and × 1.18
		t.Errorf("less throughput with its range: %q", rows)
	}
	if rows := tables[2].Rows; tables[2].ID != "median-latency" || len(rows) != 0 {
		t.Errorf("medians, of which none was measured: %q", rows)
	}
	if head := tables[3].Head; strings.Join(head, ",") != "path,B,runs,Mbit/s" {
		t.Errorf("columns of which nothing was measured: %q", head)
	}
}
