// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

func TestCases(t *testing.T) {
	profile := &engine.Profile{Paths: []string{testbed.Host, testbed.TSN}}
	cases := New().Cases(profile)
	if len(cases) != 2*3*2 {
		t.Fatalf("%d cases", len(cases))
	}
	seen := map[string]bool{}
	for i, current := range cases {
		if current.Path != profile.Paths[i%2] || current.LastsNs <= 0 {
			t.Errorf("case %d: %+v", i, current)
		}
		seen[current.Path+current.Name] = true
	}
	if len(seen) != len(cases) || !seen["tsnudp-8900"] {
		t.Errorf("%v", seen)
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Experiment){
		"duration: 1.5s; iperf3 knows whole seconds":                        func(e *Experiment) { e.Duration = 1500 * time.Millisecond },
		"ping-bytes: 1423 do not fit an MTU of 1500 through a tunnel; give": func(e *Experiment) { e.PingBytes = 1423 },
	} {
		e := New().(*Experiment)
		change(e)
		if err := e.Check(&engine.Profile{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if err := New().Check(&engine.Profile{}); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// measured are repetitions of one test by path.
func measured(test string, value string, by map[string][]float64) []engine.Measured {
	var all []engine.Measured
	for path, values := range by {
		for i, number := range values {
			all = append(all, engine.Measured{Case: engine.Case{Name: cell{test, flat, 1500}.name(), Path: path}, Repetition: i + 1,
				Outcome: &engine.Outcome{Values: map[string]float64{value: number}}})
		}
	}
	return all
}

func TestRatios(t *testing.T) {
	e := New().(*Experiment)
	e.MTUs = []int{1500}
	for name, test := range map[string]struct {
		by   map[string][]float64
		want []string
	}{
		"a difference": {map[string][]float64{testbed.Host: {10e9, 10.1e9, 9.9e9}, testbed.Flannel: {5e9, 5.1e9, 4.9e9}},
			[]string{"TCP, MTU 1500: flannel ÷ host", "0.50", "0.48", "0.52", ""}},
		"none": {map[string][]float64{testbed.Flannel: {10e9, 5e9, 15e9}, testbed.TSN: {9e9, 4e9, 14e9}},
			[]string{"TCP, MTU 1500: tsn ÷ flannel", "0.90", "0.27", "3.00", "no difference shown"}},
		"one repetition": {map[string][]float64{testbed.Host: {10e9}, testbed.TSN: {1e9}}, nil},
		"nothing else":   {map[string][]float64{testbed.TSN: {1e9, 1e9}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			findings := e.Report(&engine.Profile{Paths: []string{testbed.Host, testbed.Flannel, testbed.TSN}}, measured(tcp, ValueBps, test.by))
			if rows := findings.Sections[0].Tables[1].Rows; len(rows) > 1 || !slices.Equal(slices.Concat(rows...), test.want) {
				t.Errorf("got %q", rows)
			}
		})
	}
}

func TestTableOmitsUnmeasured(t *testing.T) {
	e := New().(*Experiment)
	e.MTUs = []int{1500}
	all := measured(udp, ValueBps, map[string][]float64{testbed.Host: {2e9, 4e9}, testbed.TSN: {1e9, 2e9}})
	findings := e.Report(&engine.Profile{Paths: []string{testbed.Host, testbed.Flannel, testbed.TSN}}, all)
	rows := findings.Sections[0].Tables[0].Rows
	if len(rows) != 2 || rows[1][0] != testbed.TSN || rows[1][5] != "1.500 ± 0.500" || rows[1][6] != "50.0 %" {
		t.Errorf("%q", rows)
	}
	if points := findings.Sections[0].Charts[0].Lines[2].Points; len(points) != 1 || points[0].Low != 1 || points[0].High != 2 {
		t.Errorf("%+v", points)
	}
}

func TestCasesAreGroupedByUnderlay(t *testing.T) {
	e := New().(*Experiment)
	e.Tests, e.Underlays, e.MTUs = []string{tcp, echo}, []string{flat, routed}, []int{1500, 8950}
	var names []string
	for _, current := range e.Cases(&engine.Profile{Paths: []string{testbed.Link}}) {
		names = append(names, current.Name)
	}
	want := []string{"tcp-1500", "ping-1500", "tcp-8950", "ping-8950", "tcp-1500-routed", "ping-1500-routed", "tcp-8950-routed", "ping-8950-routed"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func TestClusterRejectsNamespaceSettings(t *testing.T) {
	for want, test := range map[string]struct {
		change func(*Experiment)
		on     engine.Profile
	}{
		"tests: sctp is measured between network namespaces only":   {func(e *Experiment) { e.Tests = []string{sctp} }, engine.Profile{Target: engine.Cluster.Name}},
		"underlays: a bench leaves the nodes of a cluster":          {func(e *Experiment) { e.Underlays = []string{routed} }, engine.Profile{Target: engine.Cluster.Name}},
		"underlays: path flannel-host-gw needs both nodes on one l": {func(e *Experiment) { e.Underlays = []string{routed} }, engine.Profile{Paths: []string{testbed.FlannelHostGW}}},
	} {
		e := New().(*Experiment)
		test.change(e)
		if err := e.Check(&test.on); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestRateOf(t *testing.T) {
	rate, err := rateOf(`{"bytes": 60009600, "elapsed_ns": 2000000000, "from": "10.99.0.1"}`)
	if err != nil || rate != 240038400 {
		t.Errorf("%v, %v", rate, err)
	}
	for output, want := range map[string]string{"": "printed no JSON", `{"bytes": 0, "elapsed_ns": 0}`: "arrived behind the first second"} {
		if _, err := rateOf(output); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", output, err)
		}
	}
}
