// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// interluded is a case of ktsn-test-txtime that waits in the middle.
type interluded struct{ dialogue }

// startInterlude starts the case and waits until it has come so far. It returns what it said until then.
func (l *lab) startInterlude(t *testing.T) (*interluded, []string) {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-txtime"), topology.PodAddressB.String(), strconv.Itoa(listenPort),
		"interlude")
	command.Env = l.preloaded(t)
	running := &interluded{startDialogue(t, l.PodA, "ktsn-test-txtime", command)}
	return running, running.said()
}

// said is what it says until it is ready, or to the end.
func (i *interluded) said() []string {
	var lines []string
	for i.stdout.Scan() {
		line := strings.TrimPrefix(i.stdout.Text(), "interlude: ")
		if line == "ready = yes" {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

func TestReportsSurviveKtsnd(t *testing.T) {
	timing(t)
	const silent = time.Second // longer than a call waits for an answer, shorter than the program waits for a report
	for name, replace := range map[string]func(*testing.T, *lab, *process.Process){
		"killed and started again": func(t *testing.T, lab *lab, daemon *process.Process) {
			if err := syscall.Kill(daemon.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-daemon.Done()
			lab.startDaemon(t, "--strategy", "etf")
		},
		"killed, and the next one does not answer at first": func(t *testing.T, lab *lab, daemon *process.Process) {
			if err := syscall.Kill(daemon.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-daemon.Done()
			next, _ := lab.startDaemon(t, "--strategy", "etf")
			if err := syscall.Kill(next.PID(), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			goesOn := time.AfterFunc(silent, func() { _ = syscall.Kill(next.PID(), syscall.SIGCONT) })
			t.Cleanup(func() { goesOn.Stop() })
		},
		"replaced in place": func(t *testing.T, lab *lab, daemon *process.Process) { lab.takeOver(t, daemon) },
		"left alone":        func(*testing.T, *lab, *process.Process) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			daemon, _ := lab.startDaemon(t, "--strategy", "etf")
			listener := lab.listenForTexts(t)
			defer listener.Close()
			running, lines := lab.startInterlude(t)
			if want := []string{"before = 1, 0x8, data as given"}; !slices.Equal(lines, want) {
				t.Fatalf("it said %q, want %q; %s", lines, want, running.Stderr())
			}
			replace(t, lab, daemon)
			running.stdin.Close()
			want := []string{"after = 1, 0x8, data as given", "poll = 1, 0x8", "read = before", "read = after",
				"after they were read = 0, 0", "last = 1, 0x8, data as given"}
			if lines := running.said(); !slices.Equal(lines, want) {
				t.Errorf("it said %q, want %q", lines, want)
			}
			if err := finish(t, running.Process); err != nil {
				t.Error(err)
			}
		})
	}
}
