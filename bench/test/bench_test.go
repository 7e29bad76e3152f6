// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// startBench starts a bench that writes to out; the test's end ends it.
func startBench(t *testing.T, profile, out string, more ...string) *process.Process {
	t.Helper()
	arguments := append([]string{"bench", "run", profile, "--quiet", "--bin-dir", filepath.Dir(program(t, "ktsnd")), "--out", out}, more...)
	started, err := process.Start(outside{}, "ktsn bench", exec.Command(program(t, "ktsn"), arguments...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	return started
}

// ktsn runs a command that takes no time to speak of, and returns what it said and its exit status.
func ktsn(t *testing.T, arguments ...string) (output string, status int) {
	t.Helper()
	command := exec.Command(program(t, "ktsn"), arguments...)
	text, _ := command.CombinedOutput()
	return string(text), command.ProcessState.ExitCode()
}

// smallProfile is a bench of a few seconds with a bit of everything.
const smallProfile = `
name: small
paths: [direct, kernel-vxlan-spin, kernel-vxlan, host]
paths-if-possible: [flannel]
spin: 200us
workloads:
  - plain
  - {name: unsampled, paths: [direct]}
  - {name: talkers, messages: 50}
  - competing
  - {name: keep-awake, paths: [direct]}
messages: 100
repetitions: 2
talkers: 3
samplers: on
assert: ["direct.lost == 0"]
`

func writeProfile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestQuickBench(t *testing.T) {
	out := filepath.Join(t.TempDir(), "quick")
	started := startBench(t, "quick", out, "--assert", "direct.early == 0 && direct.gates.lost == 0")
	if err := finishDemo(t, started); err != nil {
		t.Fatal(err)
	}
	checkNoTraces(t, started.PID())
	summary := results.ReadSummary(t, out)
	if len(summary.Runs) != 8+4+2 || summary.Idle == nil || len(summary.Assertions) != 1 || !summary.Assertions[0].Holds ||
		summary.Profile.Done != summary.Profile.Runs || len(summary.Ratios) == 0 || len(summary.Problems) != 0 {
		t.Errorf("%d runs, assertions %+v, profile %+v, problems %q", len(summary.Runs), summary.Assertions, summary.Profile, summary.Problems)
	}
	for _, run := range summary.Runs {
		if run.Path == results.PathDirect && (run.Lost != 0 || run.Early != 0 || run.DepartureError == nil || run.CPUCores["ktsnd"] <= 0) {
			t.Errorf("%s: %+v", run.Key(), run.Counts)
		}
		if run.MachineCores == nil || *run.MachineCores <= 0 || run.MemoryBytes["listener"] == 0 || run.CPUCores["listener"] <= 0 {
			t.Errorf("%s: nobody looked at programs and machine: %+v", run.Key(), run.Distributions)
		}
	}
	for _, name := range []string{"report.html", "figures.csv", "ratios.csv", "plots/latency-figure-1.svg", "plots/means.csv"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("an assertion that does not hold is exit status 1", func(t *testing.T) {
		output, status := ktsn(t, "bench", "report", out, "--assert", "direct.latency_ns.p50 < 0")
		if status != 1 || !strings.Contains(output, "ktsn: an assertion does not hold: direct.latency_ns.p50 < 0") {
			t.Errorf("status %d: %s", status, output)
		}
	})
	t.Run("one that is none is exit status 2", func(t *testing.T) {
		if output, status := ktsn(t, "bench", "report", out, "--assert", "direct.("); status != 2 {
			t.Errorf("status %d: %s", status, output)
		}
	})
	t.Run("a bench does not differ from itself", func(t *testing.T) {
		output, status := ktsn(t, "bench", "compare", out, out, "--assert", "a.direct.lost == b.direct.lost")
		if status != 0 || strings.Contains(output, "B is") || !strings.Contains(output, "no difference shown") {
			t.Errorf("status %d: %s", status, output)
		}
	})
}

func TestBenchHasEveryWorkload(t *testing.T) {
	out := t.TempDir()
	started := startBench(t, writeProfile(t, smallProfile), out)
	if err := finishDemo(t, started); err != nil {
		t.Fatal(err)
	}
	checkNoTraces(t, started.PID())
	summary := results.ReadSummary(t, out)
	sent, talker := map[string]int{}, map[string]float64{}
	for _, run := range summary.Runs {
		sent[run.Workload+" "+run.Path], talker[run.Workload+" "+run.Path] = run.Sent, run.CPUCores["talker"]
		if (run.LaunchError == nil) != (run.Workload == results.WorkloadUnsampled) ||
			(run.CompetingFrames != nil && *run.CompetingFrames > 0) != (run.Workload == results.WorkloadCompeting) {
			t.Errorf("%s: launch error %v, beside %v", run.Key(), run.LaunchError, run.CompetingFrames)
		}
	}
	if len(sent) != 4+1+4+4+1 || sent["talkers direct"] != 2*3*50 || sent["plain host"] != 200 {
		t.Errorf("sent %v", sent)
	}
	if spins, sleeps := talker["plain kernel-vxlan-spin"], talker["plain kernel-vxlan"]; spins <= sleeps {
		t.Errorf("a talker that spins takes %.3f of a processor, and one that sleeps %.3f", spins, sleeps)
	}
	if summary.Setup.SpinNs != 200_000 || summary.Host.SpinNs != 200_000 {
		t.Errorf("talkers are awake %d ns before they send, ktsnd is %d ns before a departure", summary.Setup.SpinNs, summary.Host.SpinNs)
	}
	if !strings.Contains(summary.NotMeasured[0].What, "flannel") {
		t.Errorf("not measured: %+v", summary.NotMeasured)
	}
}

// kept are the runs in a folder with the sums of their contents.
func kept(t *testing.T, out string) map[string][32]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "runs", "[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][32]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sums[filepath.Base(file)] = sha256.Sum256(text)
	}
	return sums
}

func awaitRuns(t *testing.T, started *process.Process, out string, count int) {
	t.Helper()
	testlab.Eventually(t, time.Minute, 20*time.Millisecond, func() error {
		if len(kept(t, out)) < count {
			select {
			case <-started.Done():
				t.Fatal(started.Ended())
			default:
			}
			return fmt.Errorf("%d runs within a minute, want %d", len(kept(t, out)), count)
		}
		return nil
	})
}

func TestStoppedBenchContinues(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "interrupted": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profile, out := writeProfile(t, smallProfile), t.TempDir()
			victim := startBench(t, profile, out)
			awaitRuns(t, victim, out, 3)
			if err := syscall.Kill(victim.PID(), signal); err != nil {
				t.Fatal(err)
			}
			err := finishDemo(t, victim)
			if err == nil || (signal == syscall.SIGINT && (!strings.Contains(err.Error(), "the same command goes on with it") ||
				strings.Count(strings.TrimSpace(victim.Stderr()), "\n") != 0)) {
				t.Errorf("it ended with %v", err)
			}
			if signal == syscall.SIGINT {
				checkNoTraces(t, victim.PID())
			}
			before := kept(t, out)
			if output, status := ktsn(t, "bench", "report", out); status != 0 || !strings.Contains(output, "the bench was interrupted") {
				t.Errorf("the report of what there was: status %d: %s", status, output)
			}
			if err := finishDemo(t, startBench(t, profile, out)); err != nil {
				t.Fatal(err)
			}
			after := kept(t, out)
			for name, sum := range before {
				if after[name] != sum {
					t.Errorf("%s was measured again", name)
				}
			}
			if summary := results.ReadSummary(t, out); summary.Profile.Done != summary.Profile.Runs || len(after) != summary.Profile.Runs {
				t.Errorf("profile %+v, %d files", summary.Profile, len(after))
			}
			checkNoTraces(t, victim.PID())
		})
	}
}

func TestBenchErrors(t *testing.T) {
	out := t.TempDir()
	running := startBench(t, writeProfile(t, smallProfile), out)
	awaitRuns(t, running, out, 1)
	binDir := filepath.Dir(program(t, "ktsnd"))
	for name, test := range map[string]struct {
		arguments []string
		status    int
		want      string
	}{
		"a folder in use":     {[]string{"run", writeProfile(t, smallProfile), "--out", out, "--bin-dir", binDir, "--quiet"}, 1, "another bench is writing to " + out},
		"no folder":           {[]string{"run", "quick"}, 2, "no --out"},
		"no profile":          {[]string{"run", "--out", out}, 2, "no PROFILE"},
		"an unknown profile":  {[]string{"run", "fast", "--out", out}, 1, "fast is neither a file nor a shipped profile"},
		"missing programs":    {[]string{"run", "quick", "--out", t.TempDir(), "--bin-dir", t.TempDir()}, 1, "is missing; run `make build`"},
		"a processor too far": {[]string{"run", writeProfile(t, "paths: [host]\npinning: {sender: 0, listener: 900}"), "--out", t.TempDir(), "--bin-dir", binDir, "--quiet"}, 1, "pinning to processor 900, which this process may not use"},
		"a path of a cluster": {[]string{"run", writeProfile(t, "paths: [flannel]"), "--out", out}, 1, ":1: paths: path flannel cannot be measured"},
		"no bench":            {[]string{"report", t.TempDir()}, 1, "no bench was begun there"},
		"several without out": {[]string{"report", out, out}, 2, "several folders and no --out"},
		"another format":      {[]string{"report", out, "--plots", "gif"}, 2, `--plots "gif" is no format; accepted are svg and png`},
		"half a comparison":   {[]string{"compare", out}, 2, "no B"},
	} {
		t.Run(name, func(t *testing.T) {
			output, status := ktsn(t, append([]string{"bench"}, test.arguments...)...)
			if status != test.status || !strings.Contains(output, test.want) || strings.Count(output, "\n") != 1 {
				t.Errorf("status %d: %s; want %d: %s", status, output, test.status, test.want)
			}
		})
	}
}

// checkPageHas looks into the report of a bench.
func checkPageHas(t *testing.T, dir string, wanted ...string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wanted {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// windowProfile is the shipped kata-cases in a short form, with the workloads beside it that have a window, too.
const windowProfile = `
name: window
paths: [direct, kernel-vxlan]
workloads:
  - {name: plain, paths: [kernel-vxlan]}
  - gates
  - gates-saturated
  - kernel-saturated
  - gates-iperf3
payloads: [256]
cycles: [2ms]
window: {open: 1200us, close: 1300us, offset: 50us}
vlan: 3
messages: 60
repetitions: 2
samplers: on
`

func TestBenchWithWindow(t *testing.T) {
	out := t.TempDir()
	profile := writeProfile(t, windowProfile)
	victim := startBench(t, profile, out)
	awaitRuns(t, victim, out, 5) // the fifth of each repetition is that beside iperf3
	if err := syscall.Kill(victim.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := finishDemo(t, victim); err == nil || !strings.Contains(err.Error(), "the same command goes on with it") {
		t.Errorf("it ended with %v", err)
	}
	checkNoTraces(t, victim.PID())
	started := startBench(t, profile, out)
	if err := finishDemo(t, started); err != nil {
		t.Fatal(err)
	}
	checkNoTraces(t, started.PID())
	summary := results.ReadSummary(t, out)
	if len(summary.Runs) != 5 || summary.Profile.Window == nil || summary.Profile.VLAN != 3 || len(summary.Sections) != 1 || len(summary.Problems) != 0 {
		t.Fatalf("%d runs, profile %+v, sections %+v, problems %q", len(summary.Runs), summary.Profile, summary.Sections, summary.Problems)
	}
	section := summary.Sections[0]
	if section.ID != "indicators" || len(section.Charts) != 3*5 || len(section.Tables) != 3+1 || len(section.Tables[3].Rows) != 2 {
		t.Errorf("section %+v", section)
	}
	checkPageHas(t, out, `id="section-indicators"`, "scheduled times", "RT application latency", "TSN network jitter", "iperf3 beside the messages")
	for _, run := range summary.Runs {
		classes := map[string]int{results.WorkloadPlain: 0, results.WorkloadGatesSaturated: 2}[run.Workload]
		if engine.HasGates(run.Workload) {
			classes = max(classes, 1)
		}
		if len(run.Gates) != classes || run.LaunchError == nil {
			t.Fatalf("%s: classes %+v, launch error %v", run.Workload, run.Gates, run.LaunchError)
		}
		if classes == 0 {
			continue
		}
		if first := run.Gates[0]; first.TrafficClass != 6 || first.OpenNs != 1_200_000 || first.CloseNs != 1_300_000 || first.Frames != 120 {
			t.Errorf("%s: %+v", run.Workload, first)
		}
		if classes == 2 && (run.Gates[1].OpenNs != 1_300_000 || run.Gates[1].CloseNs != 1_200_000 || run.Gates[1].Frames < 120) {
			t.Errorf("%s: %+v", run.Workload, run.Gates[1])
		}
	}
}

// shortScale is the shipped scale in a short form.
const shortScale = `
name: scale
paths: [direct]
experiment: scale
repetitions: 2
with:
  cycles:
    - {cycle: 100ms, flows: [1, 300], pods: [1, 8]}
    - {cycle: 1ms, lead: 2500us, flows: [10]}
  lasts: 500ms
`

func TestStoppedScaleContinues(t *testing.T) {
	profile, out := writeProfile(t, shortScale), t.TempDir()
	victim := startBench(t, profile, out)
	awaitRuns(t, victim, out, 3) // the fourth of each repetition has the pods
	if err := syscall.Kill(victim.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := finishDemo(t, victim); err == nil || !strings.Contains(err.Error(), "the same command goes on with it") {
		t.Errorf("it ended with %v", err)
	}
	checkNoTraces(t, victim.PID())
	started := startBench(t, profile, out)
	if err := finishDemo(t, started); err != nil {
		t.Fatal(err)
	}
	checkNoTraces(t, started.PID())
	after := kept(t, out)
	summary := results.ReadSummary(t, out)
	if len(after) != 10 || summary.Profile.Done != 10 || len(summary.Problems) != 0 || len(summary.Sections) != 1 || len(summary.Sections[0].Charts) != 7 {
		t.Fatalf("%d runs, problems %q, sections %+v", len(after), summary.Problems, summary.Sections)
	}
	for table, rows := range map[string][][2]string{ // two repetitions of 500 ms
		"flows-100ms-departures": {{"1", "10"}, {"300", "3000"}}, "pods-100ms-departures": {{"1", "10"}, {"8", "80"}},
		"flows-1ms-departures": {{"10", "10000"}}} {
		at := slices.IndexFunc(summary.Sections[0].Tables, func(t results.SectionTable) bool { return t.ID == table })
		for i, want := range rows {
			if row := summary.Sections[0].Tables[at].Rows[i]; row[0] != want[0] || row[1] != want[1] || row[3] != "0" {
				t.Errorf("%s: %q, want %q and nothing lost", table, row, want)
			}
		}
	}
	checkScaleAddsUp(t, summary)
	checkPageHas(t, out, `id="section-scale"`, `id="scale-cores"`, `id="scale-departure-p99-9"`, "pods of one flow", "flows of one pod, each 1ms")
}

// checkScaleAddsUp compares the figures of a case with each other, and the figures with a limit with the cases.
func checkScaleAddsUp(t *testing.T, summary *results.Summary) {
	t.Helper()
	for _, current := range summary.Cases {
		value := func(figure string, repetition int) float64 {
			if current.Figures[figure] == nil || len(current.Figures[figure].Values) != 2 {
				t.Fatalf("%s: %s is %+v", current.Name, figure, current.Figures[figure])
			}
			return current.Figures[figure].Values[repetition].Value
		}
		for i := range 2 {
			all, each := value("ktsnd_cores", i), value("ktsnd_us_per_message", i)*value("messages_per_second", i)/1e6
			if all <= 0 || math.Abs(each/all-1) > 1e-6 {
				t.Errorf("%s: %v of a core, and by message %v", current.Name, all, each)
			}
			if value("talker_cores", i) <= 0 || value("lost", i) != 0 || value("handed_over_late", i) > value("sent", i) {
				t.Errorf("%s: %+v", current.Name, current.Figures)
			}
		}
	}
	for _, figure := range summary.Figures {
		if figure.Name == "lost" && figure.Reached {
			return
		}
	}
	t.Errorf("nothing says that nothing was lost: %+v", summary.Figures)
}
