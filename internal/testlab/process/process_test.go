// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// here starts a program in the test's own environment.
type here struct{}

func (here) Start(command *exec.Cmd) error { return command.Start() }

func start(t *testing.T, script string) *Process {
	t.Helper()
	started, err := Start(here{}, "the script", exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func TestErrorQuotesOutput(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   string
	}{
		"success says nothing":            {"echo all is well >&2", ""},
		"failure quotes the program":      {"echo no such interface >&2; exit 3", "exit status 3: no such interface"},
		"the journal's level is left out": {"echo '<3>no such interface' >&2; exit 3", "exit status 3: no such interface"},
		"failure without a word":          {"exit 4", "exit status 4 and said nothing"},
		"killed by somebody":              {"kill -9 $$", "signal: killed"},
		"of much only the end is kept":    {"yes | head -c 100000 >&2; echo the reason >&2; exit 1", "the reason"},
	} {
		t.Run(name, func(t *testing.T) {
			err := start(t, test.script).Wait()
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 2*tailBytes {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestStop(t *testing.T) {
	t.Run("lets a program end in order", func(t *testing.T) {
		started := start(t, `trap 'echo bye >&2; exit 0' TERM; echo up >&2; while :; do sleep 0.01; done`)
		waitFor(t, func() bool { return strings.Contains(started.Stderr(), "up") })
		if err := started.Stop(20 * time.Second); err != nil {
			t.Error(err)
		}
		if !strings.Contains(started.Stderr(), "bye") {
			t.Errorf("it said %q", started.Stderr())
		}
	})
	t.Run("kills one that does not listen", func(t *testing.T) {
		started := start(t, `trap '' TERM; echo up >&2; while :; do sleep 0.01; done`)
		waitFor(t, func() bool { return strings.Contains(started.Stderr(), "up") })
		if err := started.Stop(50 * time.Millisecond); err == nil {
			t.Error("nobody heard of it")
		}
		select {
		case <-started.Done():
		default:
			t.Error("it still runs")
		}
	})
	t.Run("of a program that has ended is nothing", func(t *testing.T) {
		started := start(t, "exit 1")
		_ = started.Wait()
		if err := started.Stop(time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestStartFails(t *testing.T) {
	if _, err := Start(here{}, "nothing", exec.Command("/nowhere/nothing")); err == nil {
		t.Error("it started")
	}
}

func TestCPUTime(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for begin := time.Now(); after-before < 10*time.Millisecond; { // a machine that is stopped now and then does not spin all the time
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("20 s of spinning took %v", after-before)
		}
		if after, err = CPUTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Wait() }()
	defer func() { _ = sleeper.Process.Kill() }()
	// It has to be started before it sleeps, which takes time on a busy machine.
	var first, second time.Duration
	for patience := 50; patience > 0; patience-- {
		first = second
		if second, err = CPUTime(sleeper.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if first > 0 && second == first {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("a sleeper took %v in 100 ms, and more before", second-first)
}

func TestUsedAndLifetime(t *testing.T) {
	worker, sleeper := start(t, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"), start(t, "sleep 0.2")
	if used := worker.Used(); used < 10*time.Millisecond || used > worker.Lifetime()+20*time.Millisecond {
		t.Errorf("100,000 turns took %v of %v", used, worker.Lifetime())
	}
	if lived := sleeper.Lifetime(); lived < 200*time.Millisecond || sleeper.Used() > lived/2 {
		t.Errorf("a sleeper of 200 ms took %v of %v", sleeper.Used(), lived)
	}
}

func TestCPUTimeFails(t *testing.T) {
	if _, err := CPUTime(1 << 30); err == nil {
		t.Error("it has a processor time")
	}
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for range 2000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not happen within 20 s")
}
