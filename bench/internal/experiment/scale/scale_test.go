// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstarget"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

func TestMain(m *testing.M) {
	engine.Register(Name, New)
	os.Exit(m.Run())
}

func parsed(t *testing.T, text string, on *engine.Means) (*engine.Profile, error) {
	t.Helper()
	return engine.ParseProfile("p.yaml", []byte(text), on)
}

func TestShippedProfileDuration(t *testing.T) {
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
	if cases["flows-1-100ms"] != 3 || cases["flows-1000-100ms"] != 3 || cases["pods-1-100ms"] != 3 || cases["pods-100-100ms"] != 3 ||
		cases["flows-1-1ms"] != 3 || cases["flows-100-1ms"] != 3 || planned > 6*time.Minute {
		t.Errorf("%v in %v", cases, planned)
	}
}

func TestCasesHaveRoomForMessages(t *testing.T) {
	for _, current := range New().Cases(nil) {
		full := current.Name == "flows-100-1ms"
		if current.Setting.Departures > 400_000 != full || current.Setting.PodRate > 150_000 != full {
			t.Errorf("%s: %d departures, %d messages of a pod", current.Name, current.Setting.Departures, current.Setting.PodRate)
		}
	}
}

func TestCheck(t *testing.T) {
	const scaled = "paths: [direct]\nexperiment: scale\nwith: "
	for name, test := range map[string]struct {
		text string
		on   *engine.Means
		want string
	}{
		"other paths":     {"paths: [direct, host]\nexperiment: scale", engine.Namespaces, "scale is about ktsnd alone, and the paths are [direct host]; give paths: [direct]"},
		"a cluster":       {"paths: [direct]\nexperiment: scale", engine.Cluster, "with: scale is measured between network namespaces, beside no other pods; leave --kubeconfig out"},
		"too many":        {scaled + "{lasts: 1m, cycles: [{cycle: 1ms, pods: [100]}]}", engine.Namespaces, "p.yaml:3: with: 100 flows each 1ms are 6000000 messages in a case, of at most 1000000; let it last less"},
		"too fast":        {scaled + "{cycles: [{cycle: 1ms, lead: 500us, flows: [101]}]}", engine.Namespaces, "101 flows of a pod each 1ms are 101000 messages a second, of at most 100000; give fewer flows"},
		"too far ahead":   {scaled + "{cycles: [{cycle: 1ms, flows: [100]}]}", engine.Namespaces, "100 flows of a pod each 1ms, handed over 10ms ahead, are 1000 messages waiting, and ktsnd has room for 400 of a process and 1000 of a pod; give a shorter lead"},
		"too short":       {scaled + "{lasts: 500ms, cycles: [{cycle: 1s, flows: [1]}]}", engine.Namespaces, "lasts 500ms, less than two cycles of 1s"},
		"a pod too many":  {scaled + "{cycles: [{cycle: 100ms, pods: [101]}]}", engine.Namespaces, "with: cycles: pods: an item is 101; give 1 to 100"},
		"a flow too many": {scaled + "{cycles: [{cycle: 100ms, flows: [1001]}]}", engine.Namespaces, "give 1 to 1000"},
		"no cycle":        {scaled + "{cycles: [{flows: [1]}]}", engine.Namespaces, "cycles has one without `cycle`; give the time between two messages"},
		"nothing to send": {scaled + "{cycles: [{cycle: 1ms}]}", engine.Namespaces, "cycles has 1ms without flows and pods"},
		"a cycle twice":   {scaled + "{cycles: [{cycle: 1ms, flows: [1]}, {cycle: 1000us, pods: [1]}]}", engine.Namespaces, "cycles has 1ms twice; give each once"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parsed(t, test.text, test.on); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	text, err := json.Marshal(New())
	if err != nil {
		t.Fatal(err)
	}
	again := &scale{}
	if err := json.Unmarshal(text, again); err != nil || !reflect.DeepEqual(again, New()) {
		t.Errorf("%+v, %v", again, err)
	}
}

// measuredOf is a case whose messages have errors, each of them a hundred times over.
func measuredOf(kind, number, cycle string, values map[string]float64, errors ...int64) engine.Measured {
	all := map[string]float64{valueEmpty: 1 << 20, valueMemory: 1 << 20}
	maps.Copy(all, values)
	samples := slices.Repeat(errors, 100)
	all[valueSent] = float64(len(samples))
	return engine.Measured{Case: engine.Case{Name: kind + "-" + number + "-" + cycle},
		Outcome: &engine.Outcome{Values: all, Samples: map[string][]int64{sampleDeparted: samples}}}
}

func cores(ktsnd float64) map[string]float64 { return map[string]float64{valueCores: ktsnd} }

func testScale() *scale {
	return &scale{Cycles: []load{{Cycle: 100 * time.Millisecond}, {Cycle: time.Millisecond}}, Lasts: 4 * time.Second}
}

func TestReport(t *testing.T) {
	thousand := map[string]float64{valueCores: 0.2, valueMemory: 21 << 20, valueMessageUs: 20, valueTalkerCores: 0.1, valueWakeups: 0.5, valueDoorbells: 0.25,
		valueRate: 10_000, valueLost: 2, valueHandedLate: 3, valueLatePrefix + "taken": 4, valueLatePrefix + "port": 0, valueLatePrefix + "wakeup": 5, valueStops: 1, valuePauses: 2}
	findings := testScale().Report(nil, []engine.Measured{
		measuredOf(byFlows, "1000", "100ms", thousand, 1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 2000),
		measuredOf(byFlows, "1", "100ms", cores(0.001), 100), measuredOf(byFlows, "1", "100ms", cores(0.003), 300),
		measuredOf(byFlows, "1", "1ms", cores(0.1), 100), measuredOf(byPods, "1", "100ms", cores(0.001), 100)})
	section := findings.Sections[0]
	if len(section.Charts) != 7 || len(section.Tables) != 6 || len(section.Charts[0].Lines) != 3 {
		t.Fatalf("%+v", section)
	}
	line := section.Charts[0].Lines[0]
	if first := line.Points[0]; len(line.Points) != 2 || first.X != 1 || first.Y != 0.002 || first.Low != 0.001 || first.High != 0.003 {
		t.Errorf("%+v", line)
	}
	for i, want := range [][]string{
		{"1000", "1000", "10000", "2", "3", "1.40", "1.80", "2.00", "–", "2.00", "2.00", "taken 4, wakeup 5", "1", "2"},
		{"1000", "0.2000", "20.00", "0.1000", "0.50", "0.25", "21.0", "20.5"},
	} {
		if row := section.Tables[i].Rows[1]; !slices.Equal(row, want) {
			t.Errorf("%q, want %q", row, want)
		}
	}
	// The median of two repetitions, each with too few messages for more than a median.
	if row := section.Tables[0].Rows[0]; !slices.Equal(row, []string{"1", "200", "0", "0", "0", "0.20", "0.20", "–", "–", "0.20", "0.30", "0", "–", "0"}) {
		t.Errorf("%q", row)
	}
	if none := testScale().Report(nil, nil); len(none.Sections[0].Charts) != 0 || len(none.Figures) > 1 {
		t.Errorf("curves of nothing: %+v", none)
	}
}

func TestFigures(t *testing.T) {
	const prompt, slow = 15_000, 30_000
	busy := func(ktsnd, wakeupNs float64) map[string]float64 {
		return map[string]float64{valueCores: ktsnd, valueTalkerLate: wakeupNs}
	}
	// Ten of a thousand are as late as the last but one says, the largest is the last.
	errors := func(p99, most int64) []int64 { return []int64{10, 10, 10, 10, 10, 10, 10, 10, 10, p99, most} }
	measured := []engine.Measured{
		measuredOf(byFlows, "100", "100ms", cores(0.1), errors(2000, 2000)...),
		measuredOf(byFlows, "1000", "100ms", busy(0.5, prompt), errors(5000, 5000)...),
		measuredOf(byFlows, "10", "1ms", busy(0.7, slow), errors(7000, 8000)...),
		measuredOf(byFlows, "100", "1ms", map[string]float64{valueCores: 0.9, valueLost: 1}, errors(900_000, 2_000_000)...)}
	got := map[string]results.Figure{}
	for _, figure := range testScale().Report(nil, measured).Figures {
		got[figure.Name] = figure
	}
	for name, want := range map[string]struct {
		value   float64
		reached bool
	}{
		"departure error p99, each step to 10,000 messages a second": {8000, true},
		"departure error max, each step to 10,000 messages a second": {8000, true},
		"lost": {1, false},
		"departure error p99, 1,000 flows / 100 flows":       {2.5, true},
		"processor time of ktsnd, 10,000 messages a second":  {0.5, true}, // the other is on a machine that wakes late
		"processor time of ktsnd, 100,000 messages a second": {0.9, true},
		"departure error p99, 100,000 messages a second":     {2_000_000, false},
	} {
		if figure := got[name]; figure.Values[results.Independent] != want.value || figure.Reached != want.reached {
			t.Errorf("%s: %+v, want %+v", name, figure, want)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d figures: %+v", len(got), got)
	}
}

func TestProblems(t *testing.T) {
	background := &netnstarget.Background{Pods: 2, FlowsPerPod: 1, Rounds: 2}
	good := netnstarget.Observed{Sent: 4, Frames: 5, DepartureNs: []int64{1, 2, 3}, HandedOverLate: 1}
	for name, test := range map[string]struct {
		change func(*netnstarget.Observed)
		want   string
	}{
		"all as wanted":     {func(*netnstarget.Observed) {}, ""},
		"a failed call":     {func(o *netnstarget.Observed) { o.SendErrors = 1 }, "1 send calls failed"},
		"some not sent":     {func(o *netnstarget.Observed) { o.Sent, o.DepartureNs = 3, o.DepartureNs[:2] }, "3 messages were sent by ktsnd, of 4"},
		"some on no wire":   {func(o *netnstarget.Observed) { o.Frames = 2 }, "2 messages that ktsnd sent did not come off the link"},
		"some dropped":      {func(o *netnstarget.Observed) { o.Counters.Dropped = 1 }, "1 messages were dropped by ktsnd"},
		"some past it":      {func(o *netnstarget.Observed) { o.Counters.KernelPath = 2 }, "2 messages went past ktsnd"},
		"some early":        {func(o *netnstarget.Observed) { o.Early = 1 }, "1 messages were released before their time"},
		"departures unread": {func(o *netnstarget.Observed) { o.DepartureNs = nil }, "1 departures are known, of 4"},
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
