// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// patience is how long anything may take that takes milliseconds on an idle machine.
const patience = 20 * time.Second

// program returns the path of a built program, and skips the test where there is none or no root.
func program(t *testing.T, name string) string {
	t.Helper()
	testlab.Root(t)
	return testlab.Program(t, name)
}

// outside starts a program in no namespace.
type outside struct{}

func (outside) Start(command *exec.Cmd) error { return command.Start() }

// startDemo starts a demo that writes to out; the test's end ends it.
func startDemo(t *testing.T, out string, more ...string) *process.Process {
	t.Helper()
	if !slices.Contains(more, "--paths") {
		more = append(more, "--paths", "direct,kernel-vxlan-spin,kernel-vxlan,host-spin,host")
	}
	arguments := append([]string{"demo", "--short", "--quiet", "--bin-dir", filepath.Dir(program(t, "ktsnd")), "--out", out}, more...)
	demo, err := process.Start(outside{}, "ktsn demo", exec.Command(program(t, "ktsn"), arguments...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := demo.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	return demo
}

// traces are the namespaces, folders and processes that carry the name of a demo's topology.
func traces(t *testing.T, demoPID int) []string {
	t.Helper()
	name := fmt.Sprintf("ktsn-%x-", demoPID)
	var files []string
	for _, pattern := range []string{"/run/netns/" + name + "*", "/run/" + name + "*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, paths...)
	}
	// Each program that a demo starts has a path with the name of its topology among its arguments.
	return append(files, process.Find(name)...)
}

// awaitTalker waits until the demo has messages under way: a program whose command line has word in it.
func awaitTalker(t *testing.T, demo *process.Process, word string) {
	t.Helper()
	testlab.Eventually(t, patience, 5*time.Millisecond, func() error {
		select {
		case <-demo.Done():
			t.Fatal(demo.Ended())
		default:
		}
		if slices.ContainsFunc(traces(t, demo.PID()), func(trace string) bool { return strings.Contains(trace, word) }) {
			return nil
		}
		return fmt.Errorf("no %s within %v; the demo says: %s", word, patience, demo.Stderr())
	})
}

func checkNoTraces(t *testing.T, demoPID int) {
	t.Helper()
	if left := traces(t, demoPID); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// plainRuns and gateRuns are those of a short demo, by workload and path.
var (
	plainRuns = []string{"plain direct", "plain kernel-vxlan-spin", "plain kernel-vxlan", "plain host-spin", "plain host"}
	gateRuns  = []string{"gates direct", "gates-saturated direct", "kernel-saturated direct"}
)

// checkResults checks what a demo of those runs has written and does not depend on the machine's mood.
func checkResults(t *testing.T, out string, want ...string) {
	t.Helper()
	summary := results.ReadSummary(t, out)
	var runs []string
	for _, run := range summary.Runs {
		runs = append(runs, run.Workload+" "+run.Path)
		if (run.SendingCores == nil) != (run.Gates != nil) || run.CPUCores["talker"] <= 0 {
			t.Errorf("%s: the sending side took %v, its programs %v", run.Path, run.SendingCores, run.CPUCores)
		}
		if run.Sent != 200 || run.Early != 0 || run.Received+run.Lost != run.Sent || run.Latency == nil ||
			run.LaunchError == nil || run.SendCall == nil || run.Jitter == nil {
			t.Errorf("%s: %+v", run.Path, run.Counts)
		}
		if !results.ThroughKtsnd(run.Path) {
			continue
		}
		if run.Lost != 0 || run.DepartureError == nil || run.DepartureError.Min < 0 || run.CPUCores["ktsnd"] <= 0 {
			t.Errorf("direct: %+v, departure error %+v, processor time %v", run.Counts, run.DepartureError, run.CPUCores)
		}
		checkGates(t, run)
	}
	if spin := summary.Setup.SpinNs; spin == 0 || summary.Host.SpinNs != spin || summary.Host.SchedulerPriority != summary.Setup.FIFOPriority {
		t.Errorf("talkers are awake %d ns with priority %d, ktsnd is %d ns with %d", spin, summary.Setup.FIFOPriority, summary.Host.SpinNs,
			summary.Host.SchedulerPriority)
	}
	plain := slices.Contains(want, plainRuns[0])
	through := slices.IndexFunc(summary.Runs, func(run *results.Run) bool { return run.Path == "ovs" })
	if through >= 0 {
		run := summary.Runs[through]
		if run.CPUCores["ovs-vswitchd"] <= 0 || run.Port == nil || run.SwitchShare == nil || *run.SwitchShare <= 0 || *run.SwitchShare > 1 {
			t.Errorf("Open vSwitch took %v of processors, port %+v, share %v", run.CPUCores, run.Port, run.SwitchShare)
		}
	}
	if !slices.Equal(runs, want) || len(summary.Problems) != 0 || summary.Schema != results.Schema ||
		(summary.Idle != nil) != plain || len(summary.Figures) == 0 {
		t.Errorf("runs %v, problems %q, %d figures", runs, summary.Problems, len(summary.Figures))
	}
	messages, err := os.ReadFile(filepath.Join(out, "messages.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(messages), "\n"); lines != 1+len(want)*200 {
		t.Errorf("%d lines of messages, want a header and %d", lines, len(want)*200)
	}
}

// checkGates checks that each class was seen on the wire, whole, and that ktsnd noticed each frame of it that was
// outside its window.
func checkGates(t *testing.T, run *results.Run) {
	t.Helper()
	want := map[string][]uint8{"gates": {7, 6}, "gates-saturated": {7, 6, 1}, "kernel-saturated": {7, 6}}[run.Workload]
	var classes []uint8
	for _, class := range run.Gates {
		classes = append(classes, class.TrafficClass)
		if class.Frames != class.Sent || class.Sent == 0 || uint64(class.OutsideWindow) > class.TransmissionOverrun {
			t.Errorf("%s: %+v", run.Workload, class)
		}
	}
	if !slices.Equal(classes, want) {
		t.Fatalf("%s: classes %v, want %v", run.Workload, classes, want)
	}
	if len(want) > 0 && run.Gates[0].Frames != 200 {
		t.Errorf("%s: %d frames of class 7, want 200", run.Workload, run.Gates[0].Frames)
	}
	if beside := run.CompetingFrames; (beside != nil) != (run.Workload == "kernel-saturated") || (beside != nil && *beside == 0) {
		t.Errorf("%s: frames past ktsnd: %v", run.Workload, beside)
	}
}

func TestDemoMeasuresAndLeavesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out", "demo")
	demo := startDemo(t, out)
	if err := finishDemo(t, demo); err != nil {
		t.Fatal(err)
	}
	checkResults(t, out, slices.Concat(plainRuns, gateRuns)...)
	checkNoTraces(t, demo.PID())
}

func TestDemoWithOpenVSwitch(t *testing.T) {
	if _, err := ovsnode.Program(); err != nil {
		testlab.Missing(t, err.Error())
	}
	out := t.TempDir()
	demo := startDemo(t, out, "--paths", "direct,ovs", "--workloads", "plain,pmd-sleep", "--alternations", "2")
	if err := finishDemo(t, demo); err != nil {
		t.Fatal(err)
	}
	checkResults(t, out, "plain direct", "plain ovs", "pmd-sleep ovs")
	checkNoTraces(t, demo.PID())
}

// The kernel's number of hugepages cannot be changed where the demo sees it, as in a container.
func TestDemoWithoutHugepages(t *testing.T) {
	if _, err := ovsnode.Program(); err != nil {
		testlab.Missing(t, err.Error())
	}
	const pages = "/proc/sys/vm/nr_hugepages"
	out, arguments := t.TempDir(), []string{"-m", "sh", "-c", "mount --bind " + pages + " " + pages + " && mount -o remount,ro,bind " + pages + ` && exec "$@"`, "sh",
		program(t, "ktsn"), "demo", "--short", "--quiet", "--bin-dir", filepath.Dir(program(t, "ktsnd")), "--paths", "direct,ovs", "--workloads", "plain,pmd-sleep"}
	output, err := exec.Command("unshare", append(arguments, "--out", out)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if strings.Count(string(output), "- path ovs: ") != 1 || !strings.Contains(string(output), pages) {
		t.Errorf("it says\n%s", output)
	}
	checkResults(t, out, "plain direct")
}

func TestDemoWorkloads(t *testing.T) {
	out := t.TempDir()
	if err := finishDemo(t, startDemo(t, out, "--workloads", "gates-saturated")); err != nil {
		t.Fatal(err)
	}
	checkResults(t, out, gateRuns[1])
}

// finishDemo waits longer than for other programs.
func finishDemo(t *testing.T, demo *process.Process) error {
	t.Helper()
	select {
	case <-demo.Done():
		return demo.Wait()
	case <-time.After(3 * time.Minute):
		t.Fatal("the demo does not end")
		return nil
	}
}

func TestStoppedDemoLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		signal    syscall.Signal
		workloads string
		talker    string
		more      []string
	}{
		"by Ctrl-C":                      {syscall.SIGINT, "plain", "talker", nil},
		"by SIGTERM":                     {syscall.SIGTERM, "plain", "talker", nil},
		"by its terminal gone":           {syscall.SIGHUP, "plain", "talker", nil},
		"while a talker saturates ktsnd": {syscall.SIGINT, "gates-saturated", "--flood", nil},
		"while one saturates the kernel": {syscall.SIGTERM, "kernel-saturated", "--flood", nil},
		"while Open vSwitch runs":        {syscall.SIGTERM, "plain", "talker", []string{"--paths", "ovs"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.more == nil { // Open vSwitch wants hugepages
				t.Parallel()
			}
			out := t.TempDir()
			// More turns than it is given time for.
			demo := startDemo(t, out, append([]string{"--alternations", "50", "--workloads", test.workloads}, test.more...)...)
			awaitTalker(t, demo, test.talker)
			if err := syscall.Kill(demo.PID(), test.signal); err != nil {
				t.Fatal(err)
			}
			err := finishDemo(t, demo)
			if err == nil || strings.Count(strings.TrimSpace(demo.Stderr()), "\n") != 0 {
				t.Errorf("it ended with %v", err)
			}
			checkNoTraces(t, demo.PID())
			if files, _ := os.ReadDir(out); len(files) != 0 {
				t.Errorf("half a result was written: %v", files)
			}
		})
	}
}

func TestNextDemoCleansUpAfterKill(t *testing.T) {
	victim := startDemo(t, t.TempDir())
	awaitTalker(t, victim, "talker")
	if err := syscall.Kill(victim.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = finishDemo(t, victim)
	name := fmt.Sprintf("ktsn-%x-", victim.PID())
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if len(process.Find(name)) > 0 {
			return fmt.Errorf("its programs outlive it:\n%s", strings.Join(process.Find(name), "\n"))
		}
		return nil
	})
	out := t.TempDir()
	if err := finishDemo(t, startDemo(t, out, "--workloads", "plain")); err != nil {
		t.Fatal(err)
	}
	checkResults(t, out, plainRuns...)
	checkNoTraces(t, victim.PID())
}

func TestConcurrentDemosAreSeparate(t *testing.T) {
	outs := []string{t.TempDir(), t.TempDir()}
	var demos []*process.Process
	for _, out := range outs {
		demos = append(demos, startDemo(t, out, "--workloads", "plain"))
	}
	var wait sync.WaitGroup
	for _, demo := range demos {
		wait.Go(func() { <-demo.Done() })
	}
	wait.Wait()
	for i, demo := range demos {
		if err := demo.Wait(); err != nil {
			t.Error(err)
			continue
		}
		checkResults(t, outs[i], plainRuns...)
		checkNoTraces(t, demo.PID())
	}
}
