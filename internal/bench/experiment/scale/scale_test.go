// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/bench/engine"
	"github.com/kubernetsn/kubernetsn/internal/bench/netnstarget"
)

func TestMain(m *testing.M) {
	engine.Register(Name, New)
	os.Exit(m.Run())
}

func parsed(t *testing.T, text string, on *engine.Means) (*engine.Profile, error) {
	t.Helper()
	return engine.ParseProfile("p.yaml", []byte(text), on)
}

func TestShippedScaleIsPlannedInTime(t *testing.T) {
	profile, err := engine.ReadProfile("scale", engine.Namespaces)
	if err != nil || profile.Name != "scale" || profile.About == "" {
		t.Fatalf("%+v, %v", profile, err)
	}
	var planned time.Duration
	cases := map[string]int{}
	for _, block := range engine.Plan(profile) {
		if len(block.Runs) != 1 || block.Setting.Serial == 0 || !block.Setting.Daemon {
			t.Errorf("a case shares its ktsnd: %+v", block)
		}
		for _, run := range block.Runs {
			planned += run.Duration()
			cases[run.Case.Name]++
		}
	}
	if cases["flows-1"] != 3 || cases["flows-1000"] != 3 || cases["pods-1"] != 3 || cases["pods-100"] != 3 || planned > 7*time.Minute {
		t.Errorf("%v in %v", cases, planned)
	}
}

func TestScaleThatCannotBeIsRefusedInASentence(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		on   *engine.Means
		want string
	}{
		"other paths":     {"paths: [direct, host]\nexperiment: scale", engine.Namespaces, "scale is about ktsnd alone, and the paths are [direct host]; give paths: [direct]"},
		"a cluster":       {"paths: [direct]\nexperiment: scale", engine.Cluster, "with: scale is measured between network namespaces, beside no other pods; leave --kubeconfig out"},
		"too many":        {"paths: [direct]\nexperiment: scale\nwith: {flows: [1000], period: 10ms}", engine.Namespaces, "p.yaml:3: with: lasts 4s, in which 400000 messages leave, and ktsnd remembers 60000; give less"},
		"too short":       {"paths: [direct]\nexperiment: scale\nwith: {lasts: 500ms, period: 1s}", engine.Namespaces, "lasts 500ms, less than two periods of 1s"},
		"a pod too many":  {"paths: [direct]\nexperiment: scale\nwith: {pods: [101]}", engine.Namespaces, "with: has pods, of which an item is 101; give 1 to 100"},
		"a flow too many": {"paths: [direct]\nexperiment: scale\nwith: {flows: [1001]}", engine.Namespaces, "give 1 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parsed(t, test.text, test.on); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func measuredOf(kind, number string, repetition int, cores, memoryMiB float64, errors ...int64) engine.Measured {
	return engine.Measured{Case: engine.Case{Name: kind + "-" + number, Of: map[string]string{"kind": kind, "number": number}}, Repetition: repetition,
		Outcome: &engine.Outcome{Values: map[string]float64{valueCores: cores, valueMemory: memoryMiB * (1 << 20), valueEmpty: 1 << 20,
			valueSent: float64(len(errors)), valueFrames: float64(len(errors))}, Samples: map[string][]int64{sampleDeparted: errors}}}
}

func TestScaleIsReportedAsCurves(t *testing.T) {
	s := &scale{Period: 100 * time.Millisecond, Lasts: 4 * time.Second}
	findings := s.Report(nil, []engine.Measured{
		measuredOf(byFlows, "1000", 1, 0.2, 21, 1000, 2000, 3000),
		measuredOf(byFlows, "1", 1, 0.001, 11, 100, 200, 300), measuredOf(byFlows, "1", 2, 0.003, 11, 100, 200, 300),
		measuredOf(byPods, "1", 1, 0.001, 11, 100)})
	section := findings.Sections[0]
	if len(section.Charts) != 4 || len(section.Tables) != 2 || len(section.Charts[0].Lines) != 2 {
		t.Fatalf("%+v", section)
	}
	line := section.Charts[0].Lines[0]
	if first := line.Points[0]; len(line.Points) != 2 || first.X != 1 || first.Y != 0.002 || first.Low != 0.001 || first.High != 0.003 {
		t.Errorf("%+v", line)
	}
	if row := section.Tables[0].Rows[1]; !slices.Equal(row, []string{"1000", "3", "0", "0.2000", "20.00", "21.0", "20.5", "2.00", "3.00", "3.00"}) {
		t.Errorf("%q", row)
	}
	want := "From 1 to 1000 flows of one pod ktsnd takes 0.1980 more of a core, which is 19.82 µs a message, and 10.0 MiB more memory, which is 10.3 KiB each."
	if section.Remarks[0] != want {
		t.Errorf("%q", section.Remarks)
	}
	if none := s.Report(nil, nil); len(none.Sections[0].Charts) != 0 {
		t.Errorf("curves of nothing: %+v", none)
	}
}

func TestWhatDoesNotLeaveInTimeIsAProblem(t *testing.T) {
	background := &netnstarget.Background{Pods: 2, FlowsPerPod: 1, Rounds: 2}
	good := netnstarget.Observed{Sent: 4, Frames: 5, DepartureNs: []int64{1, 2, 3, 4}}
	for name, test := range map[string]struct {
		change func(*netnstarget.Observed)
		want   string
	}{
		"all as wanted":     {func(*netnstarget.Observed) {}, ""},
		"some not sent":     {func(o *netnstarget.Observed) { o.Sent, o.DepartureNs = 3, o.DepartureNs[:3] }, "3 messages were sent by ktsnd, of 4"},
		"some on no wire":   {func(o *netnstarget.Observed) { o.Frames = 2 }, "2 messages that ktsnd sent did not come off the link"},
		"some dropped":      {func(o *netnstarget.Observed) { o.Dropped = 1 }, "1 messages were dropped by ktsnd"},
		"some past it":      {func(o *netnstarget.Observed) { o.KernelPath = 2 }, "2 messages went past ktsnd"},
		"some early":        {func(o *netnstarget.Observed) { o.DepartureNs = []int64{-1, 0, 1, 2} }, "1 messages were released before their time"},
		"departures unread": {func(o *netnstarget.Observed) { o.DepartureNs = nil }, "0 departures are known, of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := good
			test.change(&seen)
			if got := strings.Join(problemsOf(background, &seen), "; "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
