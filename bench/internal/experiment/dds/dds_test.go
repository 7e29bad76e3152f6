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
		k, err := described(current.Parameters)
		if err != nil || k.name() != current.Name {
			t.Errorf("%s is read as %s, %v", current.Name, k.name(), err)
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

func remarksOf(part string, all []engine.Measured) string {
	e := New().(*Experiment)
	e.Parts, e.Sizes, e.Subscribers = []string{part}, []int{64, 1024}, []int{4, 12}
	var remarks []string
	for _, section := range e.Report(&engine.Profile{Paths: []string{testbed.Host, testbed.Flannel, testbed.TSN}}, all).Sections {
		remarks = append(remarks, section.Remarks...)
	}
	return strings.Join(remarks, "\n")
}

func check(t *testing.T, text string, has, lack []string) {
	t.Helper()
	for _, want := range has {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, unwanted := range lack {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q in\n%s", unwanted, text)
		}
	}
}

func TestNetworkRemarks(t *testing.T) {
	small, large := plain(throughput, 64), plain(throughput, 1024)
	both := append(data{testbed.Host: {100e6, 100e6, 100e6}, testbed.Flannel: {60e6, 61e6, 59e6}, testbed.TSN: {80e6, 81e6, 79e6}}.measured(small, valueBps),
		data{testbed.Host: {900e6, 900e6, 900e6}, testbed.Flannel: {450e6, 450e6, 450e6}, testbed.TSN: {440e6, 400e6, 480e6}}.measured(large, valueBps)...)
	check(t, remarksOf(overhead, both), []string{
		"Throughput over flannel beside that over host: -50.0 % (1024 B) to -40.0 % (64 B) (2 of 2 differ with 95 %).",
		"With 1 of 2 sizes throughput over tsn is higher than over flannel (1 of 2 differ with 95 %): -2.2 % (1024 B) to +33.3 % (64 B)."},
		[]string{"latency"})

	medians := data{testbed.Host: {10_000, 10_100, 9_900}, testbed.Flannel: {20_000, 20_100, 19_900}, testbed.TSN: {15_000, 15_100, 14_900}}.measured(plain(latency, 64), valueP50)
	check(t, remarksOf(overhead, medians), []string{"The median of latency over flannel beside that over host: +100.0 % (64 B) (1 of 1 differ with 95 %).",
		"With 1 of 1 sizes the median of latency over tsn is lower than over flannel (1 of 1 differ with 95 %): -25.0 % (64 B)."}, []string{"p90", "Throughput"})

	single := data{testbed.Host: {100e6}, testbed.Flannel: {60e6}, testbed.TSN: {80e6}}.measured(small, valueBps)
	check(t, remarksOf(overhead, single), []string{"With 1 of 1 sizes throughput over tsn is higher than over flannel (one run each, so it may be chance): +33.3 % (64 B).",
		"Throughput over tsn beside that over host: -20.0 % (64 B) (one run each, so it may be chance)."},
		[]string{"95 %", "1024"})

	check(t, remarksOf(overhead, data{testbed.TSN: {80e6}}.measured(small, valueBps)), nil, []string{"over", "host"})
	check(t, remarksOf(overhead, nil), nil, []string{"over"})
}

func TestSubscriberRemarks(t *testing.T) {
	r := &report{Experiment: New().(*Experiment)}
	four, twelve := r.among(throughput, false)(4), r.among(throughput, false)(12)
	all := append(data{testbed.TSN: {40e6, 40e6, 40e6}}.measured(four, valueBps), data{testbed.TSN: {10e6, 10e6, 10e6}}.measured(twelve, valueBps)...)
	check(t, remarksOf(subscribers, all), []string{"Over tsn by unicast a subscriber among 12 receives 25 % of what one among 4 does (0.25 to 0.25 with 95 %)."}, []string{"multicast", "chance"})

	all = append(all, data{testbed.TSN: {30e6, 10e6, 20e6}}.measured(r.among(throughput, true)(12), valueBps)...)
	all = append(all, data{testbed.TSN: {0.25}}.measured(r.among(throughput, true)(12), valuePublisherCores)...)
	check(t, remarksOf(subscribers, all), []string{"Over tsn with 12 subscribers multicast brings each 20.0 ± 5.8 Mbit/s and unicast 10.0 ± 0.0: 2.00 times " +
		"(0.58 to 6.93 with 95 %, so it may be chance)."}, []string{"the publisher takes"})
}

func TestSecurityAndBestEffortRemarks(t *testing.T) {
	r := &report{Experiment: New().(*Experiment)}
	all := append(data{testbed.TSN: {100e6, 100e6}}.measured(r.secured(throughput, ddsperf.NoSecurity), valueBps),
		data{testbed.TSN: {30e6, 30e6}}.measured(r.secured(throughput, "encrypt-rtps"), valueBps)...)
	check(t, remarksOf(security, all), []string{"Over tsn, encrypt-rtps has, beside none, 30 % of the throughput (0.30 to 0.30 with 95 %)."}, []string{"latency", "sign", "chance"})

	all = append(data{testbed.TSN: {50_000}}.measured(bySize(latency, false)(64), valueP90), data{testbed.TSN: {40_000}}.measured(bySize(latency, true)(64), valueP90)...)
	check(t, remarksOf(bestEffort, all), []string{"Over tsn the p90 of latency with best effort is lower than reliable with 1 of 1 sizes (one run each, so it may be chance): -20.0 % (64 B); 0 answers"}, []string{"host"})
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
