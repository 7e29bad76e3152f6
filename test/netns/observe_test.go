// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// soleFlow waits until there is a flow that has sent something, and returns it.
func soleFlow(t *testing.T, client *control.Client) control.Flow {
	t.Helper()
	return testlab.EventuallyValue(t, patience, time.Millisecond, func() (control.Flow, error) {
		flows, err := client.Flows(t.Context())
		must(t, err)
		if len(flows) == 1 && flows[0].Sent > 0 {
			return flows[0], nil
		}
		return control.Flow{}, fmt.Errorf("flows are %+v", flows)
	})
}

// ask runs ktsn on node a and returns its output.
func (l *lab) ask(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program(t, "ktsn"), append(arguments, "--control", l.control)...)
	output, err := command.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		t.Fatalf("ktsn %v: %v: %s", arguments, err, ended.Stderr)
	}
	must(t, err)
	return string(output)
}

func TestFlowsAndPodsMatchKernel(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	talker := lab.startFlow(t).talker
	flow := soleFlow(t, client)
	if flow.Identity != identity || flow.PID != talker.PID() || flow.Clock != "CLOCK_TAI" || flow.Deadline ||
		!strings.HasPrefix(flow.LocalAddress, topology.PodAddressA.String()+":") {
		t.Errorf("the flow of process %d is %+v", talker.PID(), flow)
	}
	pods, err := client.Pods(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatalf("pods %+v, %v", pods, err)
	}
	pod := pods[0]
	if pod.Identity != identity || pod.Path != lab.socket || pod.Endpoints != 1 || pod.Processes != 1 || pod.Sockets != 1 ||
		pod.RingMemoryBytes == 0 || pod.RingMemoryBytes > pod.Limits.RingMemoryBytes {
		t.Errorf("the pod is %+v", pod)
	}
	text := lab.ask(t, "status")
	for _, want := range []string{"direct on phys0", "local address 192.0.2.1", identity + " tsn0, VNI 42",
		"192.0.2.2, VNI 42, [10.42.2.0/24]", strconv.Itoa(talker.PID()) + " ", flow.LocalAddress} {
		if !strings.Contains(text, want) {
			t.Errorf("ktsn status does not show %q:\n%s", want, text)
		}
	}
	checkTop(t, lab.ask(t, "top", "--once", "--interval", "1s", "-o", "json"), flow.Number)
	interrupt(t, talker)
	counted := awaitSettled(t, client)
	if flows, err := client.Flows(t.Context()); err != nil || len(flows) != 0 {
		t.Errorf("after the end of the process there are %+v, %v", flows, err)
	}
	if counted.Sent < flow.Sent {
		t.Errorf("the flow had sent %d, all together %d", flow.Sent, counted.Sent)
	}
}

func checkTop(t *testing.T, text string, number uint64) {
	t.Helper()
	var view struct {
		Flows []struct {
			Number uint64  `json:"flow"`
			Sent   float64 `json:"sent-per-second"`
			P99    *int64  `json:"departure-error-p99-ns"`
		} `json:"flows"`
	}
	must(t, json.Unmarshal([]byte(text), &view))
	if len(view.Flows) != 1 || view.Flows[0].Number != number || view.Flows[0].Sent <= 0 || view.Flows[0].P99 == nil || *view.Flows[0].P99 < 0 {
		t.Errorf("top shows %s", text)
	}
}

// parseTrace parses the output of ktsn trace -o json.
func parseTrace(t *testing.T, text []byte) []control.TracedMessage {
	t.Helper()
	var all []control.TracedMessage
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var message control.TracedMessage
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			t.Fatalf("%v in %q", err, lines.Text())
		}
		all = append(all, message)
	}
	return all
}

func TestTraceFollowsMessages(t *testing.T) {
	content(t)
	const count = 50
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	talker := lab.startFlow(t).talker
	flow := soleFlow(t, client)
	messages := parseTrace(t, []byte(lab.ask(t, "trace", "--pod", identity, "--flow", strconv.FormatUint(flow.Number, 10),
		"--count", strconv.Itoa(count), "-o", "json")))
	if len(messages) != count {
		t.Fatalf("%d messages were traced", len(messages))
	}
	stamped := 0
	for i, message := range messages {
		if message.Sequence != uint64(i+1) || message.Flow != flow.Number || message.PayloadBytes == 0 {
			t.Errorf("message %d is %+v", i, message)
		}
		if message.Sent() && message.EndedTAI < message.DueTAI {
			t.Errorf("it left early: %+v", message)
		}
		if message.EndedTAI < message.TakenTAI {
			t.Errorf("it left before it was taken: %+v", message)
		}
		if message.CalledTAI != 0 {
			stamped++
			if message.CalledTAI > message.TakenTAI {
				t.Errorf("it was taken before the call: %+v", message)
			}
		}
	}
	// The first may have been in the ring before.
	if stamped < count/2 {
		t.Errorf("only %d of %d messages say when their call began", stamped, count)
	}
	interrupt(t, talker)
}

// startTrace starts ktsn trace in the background and returns when it runs.
func (l *lab) startTrace(t *testing.T, client *control.Client, arguments ...string) *process.Process {
	t.Helper()
	begin := func() *process.Process {
		return start(t, l.NodeA, "ktsn", exec.Command(program(t, "ktsn"), append([]string{"trace", "--control", l.control}, arguments...)...))
	}
	tracer := begin()
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		// It may have started during this trace.
		if strings.Contains(tracer.Stderr(), "another client traces") {
			tracer = begin()
		}
		err := client.TraceStart(t.Context(), "", 0)
		if err != nil && strings.Contains(err.Error(), "another client traces") {
			return nil
		}
		if err == nil {
			err = client.TraceStop(t.Context())
		}
		if err != nil {
			t.Fatalf("no trace runs: %v; %s", err, tracer.Stderr())
		}
		return fmt.Errorf("no trace runs: %s", tracer.Stderr())
	})
	return tracer
}

func TestTraceEndsWithItsClient(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	tracer := lab.startTrace(t, client)
	_, _, err := client.TraceRead(t.Context(), 0)
	testlab.CheckError(t, err, "trace-start first")
	if err := client.TraceStop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := client.TraceStart(t.Context(), "", 0); err == nil {
		t.Error("another client's trace was stopped")
	}
	interrupt(t, tracer)
	testlab.Eventually(t, patience, time.Millisecond, func() error { return client.TraceStart(t.Context(), identity, 0) })
	for _, test := range map[string]struct {
		identity string
		flow     uint64
		want     string
	}{
		"a pod that is not":  {"nobody", 0, "identity: nobody: no pod"},
		"a flow that is not": {"", 1 << 40, "there is no such flow"},
	} {
		testlab.CheckError(t, client.TraceStart(t.Context(), test.identity, test.flow), test.want)
	}
	// The rejected requests changed nothing.
	if messages, _, err := client.TraceRead(t.Context(), 0); err != nil || len(messages) != 0 {
		t.Errorf("read %v, %v", messages, err)
	}
}

func TestUnreadTraceEnds(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	must(t, client.TraceStart(t.Context(), "", 0))
	time.Sleep(11 * time.Second)
	_, _, err := client.TraceRead(t.Context(), 0)
	testlab.CheckError(t, err, "trace-start first")
}

// waitingCase is a case of ktsn-test-txtime that waits in the middle.
type waitingCase struct{ dialogue }

// startInterlude starts the case and returns its output up to the wait.
func (l *lab) startInterlude(t *testing.T) (*waitingCase, []string) {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-txtime"), topology.PodAddressB.String(), strconv.Itoa(listenPort),
		"interlude")
	command.Env = l.preloaded(t)
	running := &waitingCase{startDialogue(t, l.PodA, "ktsn-test-txtime", command)}
	return running, running.said()
}

// said returns the output until it waits, or to the end.
func (i *waitingCase) said() []string {
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
			kill(t, daemon)
			lab.startDaemon(t, "--strategy", "etf")
		},
		"killed, and the next one does not answer at first": func(t *testing.T, lab *lab, daemon *process.Process) {
			kill(t, daemon)
			next, _ := lab.startDaemon(t, "--strategy", "etf")
			must(t, syscall.Kill(next.PID(), syscall.SIGSTOP))
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
				t.Fatalf("got %q, want %q; %s", lines, want, running.Stderr())
			}
			replace(t, lab, daemon)
			running.stdin.Close()
			want := []string{"after = 1, 0x8, data as given", "poll = 1, 0x8", "read = before", "read = after",
				"after they were read = 0, 0", "last = 1, 0x8, data as given"}
			if lines := running.said(); !slices.Equal(lines, want) {
				t.Errorf("got %q, want %q", lines, want)
			}
			if err := finish(t, running.Process); err != nil {
				t.Error(err)
			}
		})
	}
}
