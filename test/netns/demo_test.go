// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/json"
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

	"github.com/kubernetsn/kubernetsn/internal/process"
	"github.com/kubernetsn/kubernetsn/internal/results"
)

// outside starts a program in no namespace.
type outside struct{}

func (outside) Start(command *exec.Cmd) error { return command.Start() }

// startDemo starts a demo that writes to out; the test's end ends it.
func startDemo(t *testing.T, out string) *process.Process {
	t.Helper()
	demo, err := process.Start(outside{}, "ktsn demo", exec.Command(program(t, "ktsn"), "demo", "--short", "--quiet",
		"--bin-dir", filepath.Dir(program(t, "ktsnd")), "--out", out))
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
	var found []string
	for _, pattern := range []string{"/run/netns/" + name + "*", "/run/" + name + "*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	return append(found, processesOf(name)...)
}

// processesOf lists the processes whose command line has name in it: all that a demo starts is told a path
// with the name of its topology.
func processesOf(name string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(words), name) {
			found = append(found, file+": "+strings.ReplaceAll(string(words), "\x00", " "))
		}
	}
	return found
}

// awaitTalker waits until the demo has messages under way.
func awaitTalker(t *testing.T, demo *process.Process) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-demo.Done():
			t.Fatal(demo.Ended())
		default:
		}
		if slices.ContainsFunc(traces(t, demo.PID()), func(trace string) bool { return strings.Contains(trace, "talker") }) {
			return
		}
	}
	t.Fatalf("no talker within %v; the demo says: %s", patience, demo.Stderr())
}

func checkNoTraces(t *testing.T, demoPID int) {
	t.Helper()
	if left := traces(t, demoPID); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// checkResults checks what a demo has written and does not depend on the machine's mood.
func checkResults(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary results.Summary
	if err := json.Unmarshal(text, &summary); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, run := range summary.Runs {
		paths = append(paths, run.Path)
		if run.Sent != 200 || run.Early != 0 || run.Received+run.Lost != run.Sent || run.Latency == nil ||
			run.LaunchError == nil || run.SendCall == nil || run.Jitter == nil {
			t.Errorf("%s: %+v", run.Path, run.Counts)
		}
		if run.Path != "direct" {
			continue
		}
		if run.Lost != 0 || run.DepartureError == nil || run.DepartureError.Min < 0 || run.CPUCores["ktsnd"] <= 0 {
			t.Errorf("direct: %+v, departure error %+v, processor time %v", run.Counts, run.DepartureError, run.CPUCores)
		}
	}
	if !slices.Equal(paths, []string{"direct", "kernel-vxlan", "host"}) || len(summary.Problems) != 0 ||
		summary.Schema != results.Schema || summary.Idle == nil || len(summary.Figures) == 0 {
		t.Errorf("paths %v, problems %q, %d figures", paths, summary.Problems, len(summary.Figures))
	}
	messages, err := os.ReadFile(filepath.Join(out, "messages.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(messages), "\n"); lines != 1+3*200 {
		t.Errorf("%d lines of messages, want a header and 600", lines)
	}
}

func TestDemoMeasuresAndLeavesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out", "demo")
	demo := startDemo(t, out)
	if err := finishDemo(t, demo); err != nil {
		t.Fatal(err)
	}
	checkResults(t, out)
	checkNoTraces(t, demo.PID())
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

func TestDemoThatIsStoppedLeavesNothing(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{
		"by Ctrl-C":            syscall.SIGINT,
		"by SIGTERM":           syscall.SIGTERM,
		"by its terminal gone": syscall.SIGHUP,
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			demo := startDemo(t, out)
			awaitTalker(t, demo)
			if err := syscall.Kill(demo.PID(), signal); err != nil {
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

func TestDemoThatIsKilledIsCleanedUpByTheNext(t *testing.T) {
	victim := startDemo(t, t.TempDir())
	awaitTalker(t, victim)
	if err := syscall.Kill(victim.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = finishDemo(t, victim)
	name := fmt.Sprintf("ktsn-%x-", victim.PID())
	for deadline := time.Now().Add(patience); len(processesOf(name)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("its programs outlive it:\n%s", strings.Join(processesOf(name), "\n"))
		}
	}
	out := t.TempDir()
	if err := finishDemo(t, startDemo(t, out)); err != nil {
		t.Fatal(err)
	}
	checkResults(t, out)
	checkNoTraces(t, victim.PID())
}

func TestTwoDemosAtOnceDoNotMeet(t *testing.T) {
	outs := []string{t.TempDir(), t.TempDir()}
	var demos []*process.Process
	for _, out := range outs {
		demos = append(demos, startDemo(t, out))
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
		checkResults(t, outs[i])
		checkNoTraces(t, demo.PID())
	}
}
