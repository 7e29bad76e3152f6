// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// wanted is a profile with everything in it.
func wanted() Profile {
	profile := Defaults()
	profile.Paths, profile.Samplers = []string{results.PathDirect, results.PathKernelVXLAN, results.PathHost}, SamplersOn
	profile.Workloads = nil
	for _, name := range AllWorkloads {
		profile.Workloads = append(profile.Workloads, Workload{Name: name})
	}
	profile.Payloads = []int{64, 256}
	profile.Messages, profile.Repetitions, profile.Idle = 1000, 3, time.Second
	return profile
}

func runsOf(blocks []Block) []Run {
	var all []Run
	for _, block := range blocks {
		all = append(all, block.Runs...)
	}
	return all
}

func TestPlanSendsAllMessages(t *testing.T) {
	profile := wanted()
	sent := map[results.Key]int{}
	for _, run := range runsOf(Plan(&profile)) {
		if run.Number > 0 && run.IdleNs == 0 {
			sent[run.Key] += run.Messages
		}
	}
	for key, messages := range sent {
		if messages != 3000 {
			t.Errorf("%s gets %d messages, want 3000", key, messages)
		}
	}
	if want := 7*3*2 + 4*1*2; len(sent) != want {
		t.Errorf("%d different runs, want %d", len(sent), want)
	}
}

func TestPlanTakesTurns(t *testing.T) {
	profile := wanted()
	profile.Workloads = []Workload{{Name: "plain"}, {Name: "competing", Paths: []string{"direct"}}}
	profile.Idle, profile.WarmUp = 0, 0
	blocks := Plan(&profile)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want one a repetition", len(blocks))
	}
	var got []string
	for _, run := range blocks[1].Runs {
		got = append(got, strings.Join([]string{run.Workload, run.Path}, " "))
	}
	want := []string{"plain kernel-vxlan", "plain host", "plain direct", "competing direct"}
	if !slices.Equal(got, append(slices.Clone(want), want...)) {
		t.Errorf("the second repetition is %q", got)
	}
	for i, run := range runsOf(blocks) {
		if run.Number != i+1 || run.Repetition != i/8+1 || run.Alternation != run.Repetition {
			t.Errorf("run %d is %+v", i, run)
		}
	}
}

func TestPlanGroupsSettings(t *testing.T) {
	profile := wanted()
	blocks := Plan(&profile)
	if len(blocks) != 3*3 {
		t.Fatalf("%d blocks, want three a repetition", len(blocks))
	}
	settings := []Setting{{Daemon: true}, {Daemon: true, KeepAwake: true}, {Daemon: true, GatesCycle: time.Millisecond}}
	for i, block := range blocks {
		if block.Setting != settings[i%3] {
			t.Errorf("block %d is in setting %+v", i, block.Setting)
		}
		warmUps := 0
		for _, run := range block.Runs {
			if run.Number == 0 {
				warmUps++
			}
		}
		if want := []int{3, 3, 1}[i%3]; warmUps != want {
			t.Errorf("block %d has %d warm-ups, want one for each of %d paths", i, warmUps, want)
		}
	}
}

func TestPlanSeparatesOpenVSwitch(t *testing.T) {
	profile := wanted()
	profile.Paths = []string{"direct", "ovs"}
	profile.Workloads = []Workload{{Name: "plain"}, {Name: "gates"}}
	for i, block := range Plan(&profile) {
		for _, run := range block.Runs {
			if ovs := run.Path == "ovs"; ovs != block.Setting.OVS || !block.Setting.Daemon || (ovs && run.Workload != "plain") {
				t.Errorf("block %d in setting %+v has run %+v", i, block.Setting, run.Key)
			}
		}
	}
}

func TestPMDSleepIsForPathOVS(t *testing.T) {
	profile := wanted()
	profile.Paths = []string{"direct", "ovs"}
	profile.Workloads = []Workload{{Name: "plain"}, {Name: "pmd-sleep"}}
	paused := 0
	for i, block := range Plan(&profile) {
		for _, run := range block.Runs {
			pause := run.Workload == "pmd-sleep"
			if pause != (block.Setting.PMDMaxSleep == PMDMaxSleep) || pause && run.Path != "ovs" {
				t.Errorf("block %d in setting %+v has run %+v", i, block.Setting, run.Key)
			}
			if pause && run.Number > 0 {
				paused++
			}
		}
	}
	if paused == 0 {
		t.Error("nothing is measured with it")
	}
	profile.LeaveOut("ovs", "no hugepages")
	if names := profile.workloadNames(); !slices.Equal(names, []string{"plain"}) {
		t.Errorf("without path ovs the workloads are %v", names)
	}
}

func TestLeftOutPathIsReported(t *testing.T) {
	profile := wanted()
	profile.Paths = []string{"direct", "ovs"}
	profile.Workloads = []Workload{{Name: "plain"}, {Name: "talkers", Paths: []string{"ovs"}}, {Name: "competing", Paths: []string{"direct", "ovs"}}}
	profile.LeaveOut("ovs", "no hugepages")
	runs := runsOf(Plan(&profile))
	for _, run := range runs {
		if run.Path != "direct" || run.Workload == "talkers" {
			t.Errorf("%+v", run.Key)
		}
	}
	if gaps := profile.gaps(); len(runs) == 0 || len(gaps) != 1 || gaps[0] != (results.Gap{What: "path ovs", Why: "no hugepages"}) {
		t.Errorf("%d runs, gaps %+v", len(runs), gaps)
	}
}

func TestPlanLimitsRuns(t *testing.T) {
	profile := wanted()
	profile.Messages = 130_001
	profile.Talkers = 4
	for _, run := range runsOf(Plan(&profile)) {
		if run.Messages*run.Talkers > 60_000 {
			t.Errorf("%+v is more than ktsnd remembers", run)
		}
		if HasGates(run.Workload) && run.Workload != results.WorkloadGatesIperf3 && time.Duration(run.Messages)*run.Cycle() > 500*time.Millisecond {
			t.Errorf("%+v is too long for gates", run)
		}
		if run.Talkers > 1 && run.Workload != results.WorkloadTalkers {
			t.Errorf("%+v has several talkers", run)
		}
	}
}

func TestGatesAreForPathDirect(t *testing.T) {
	profile := wanted()
	profile.Paths, profile.Idle = []string{results.PathHost}, 0
	for _, block := range Plan(&profile) {
		if block.Setting != (Setting{}) {
			t.Errorf("a block in setting %+v", block.Setting)
		}
		for _, run := range block.Runs {
			if needsDirect(run.Workload) || run.Path != results.PathHost {
				t.Errorf("%+v", run)
			}
		}
	}
	profile.Paths = AllPaths[:5]
	for _, run := range runsOf(Plan(&profile)) {
		if HasGates(run.Workload) && run.Path != results.PathDirect {
			t.Errorf("%+v", run)
		}
	}
}

func TestPlanWithoutSamplers(t *testing.T) {
	profile := wanted()
	for _, run := range runsOf(Plan(&profile)) {
		if run.Number > 0 && run.Unsampled != (run.Workload == results.WorkloadUnsampled) {
			t.Errorf("%+v", run)
		}
	}
	profile.Samplers = SamplersOff
	for _, run := range runsOf(Plan(&profile)) {
		if run.Number > 0 && run.IdleNs == 0 && !run.Unsampled {
			t.Errorf("%+v", run)
		}
	}
}

func TestPlanWithWitnesses(t *testing.T) {
	profile := wanted()
	profile.Samplers = SamplersApart
	profile.Workloads = []Workload{{Name: results.WorkloadPlain}, {Name: results.WorkloadGates}}
	runs := runsOf(Plan(&profile))
	for i, run := range runs {
		gates := HasGates(run.Workload)
		switch {
		case run.Number == 0 || run.IdleNs > 0:
		case gates && (run.Unsampled || run.Witness):
			t.Errorf("nobody judges the frames of %+v", run)
		case !gates && run.Unsampled == run.Witness:
			t.Errorf("is %+v watched?", run)
		case run.Witness && (runs[i-1].Key != run.Key || runs[i-1].Alternation != run.Alternation || runs[i-1].Witness ||
			run.Messages != max(runs[i-1].Messages/5, 2)):
			t.Errorf("%+v is no witness of %+v", run, runs[i-1])
		}
	}
}

func TestProgressTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	profile := wanted()
	profile.Workloads = profile.Workloads[:1]
	blocks := Plan(&profile)
	progress := NewProgress(&out, 0, func() time.Time { return now })
	progress.plan(blocks, 0)
	for _, block := range blocks {
		progress.prepared()
		for _, run := range block.Runs {
			progress.starts(run)
			now = now.Add(2 * run.Duration()) // twice as slow as estimated
			if err := progress.ended(run, []int64{5000}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 {
		t.Errorf("%d lines, want one a repetition:\n%s", lines, out.String())
	}
	if !strings.Contains(out.String(), "direct 5.00") {
		t.Errorf("no latency so far:\n%s", out.String())
	}
	if left := progress.left(); left > time.Second {
		t.Errorf("%v left at the end", left)
	}
}

func TestProgressOnTerminal(t *testing.T) {
	var out strings.Builder
	profile := wanted()
	progress := NewProgress(&out, 30, time.Now)
	for _, run := range runsOf(Plan(&profile)) {
		progress.starts(run)
		if err := progress.ended(run, []int64{5000}); err != nil {
			t.Fatal(err)
		}
	}
	progress.clear()
	for line := range strings.SplitSeq(out.String(), "\r\x1b[K") {
		if utf8.RuneCountInString(line) > 29 || strings.Contains(line, "\n") {
			t.Errorf("%q does not fit into 30 columns", line)
		}
	}
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Error("the line stays at the end")
	}
}
