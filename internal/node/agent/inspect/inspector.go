// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits of what the agent takes from a process that looks, and of processes that cannot be killed.
const (
	answerMax  = 64 << 10
	hangingMax = 4
	// killedWithin is how long a process may take to end that was killed, unless it waits for what does not answer.
	killedWithin = time.Second
)

// Inspector starts the processes that look.
type Inspector struct {
	// Program and Arguments are the command to which --proc and --pod are added: this program again.
	Program   string
	Arguments []string
	// Proc is the node's process file system.
	Proc string
	// Patience is how long a look may take.
	Patience time.Duration

	// running counts processes that have not ended.
	running atomic.Int32
}

// errNotInTime says that the pod's programs could not be looked at for a reason that is in the pod.
var errNotInTime = errors.New("the look at the programs was given up")

// Without returns a sentence for each program of the pod that was started with libktsn.so and is without it. What could not be
// looked at is in the error, beside what was found of the rest.
func (i *Inspector) Without(ctx context.Context, uid string) ([]string, error) {
	report, err := i.look(ctx, uid)
	if errors.Is(err, errNotInTime) {
		return []string{fmt.Sprintf("Whether libktsn.so is in the pod's programs cannot be said, because %v; what the pod's programs have open or "+
			"mapped must answer, and they must not be huge", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	var sentences []string
	for _, found := range report.Found {
		sentences = append(sentences, found.sentence())
	}
	if len(report.Failures) > 0 {
		err = errors.New(printable(strings.Join(report.Failures, "; "), failureMax))
	}
	return sentences, err
}

// look has a process look, and takes its answer. The process is not waited for longer than ctx or Patience allow.
func (i *Inspector) look(ctx context.Context, uid string) (*Report, error) {
	if hanging := i.running.Load(); hanging >= hangingMax {
		return nil, fmt.Errorf("%d processes that look at programs do not end, because they wait for files of pods; more are not started meanwhile", hanging)
	}
	arguments := append(append([]string{}, i.Arguments...), "--proc", i.Proc, "--pod", uid)
	process := exec.Command(i.Program, arguments...) //nolint:gosec // this program itself
	// One thread at work is enough, and of the pod nothing gets into a trace.
	process.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	answer, complaint := &bounded{most: answerMax}, &bounded{most: 1 << 10}
	process.Stdout, process.Stderr = answer, complaint
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start a process that looks at programs: %w", err)
	}
	i.running.Add(1)
	ended := make(chan error, 1)
	go func() {
		ended <- process.Wait()
		i.running.Add(-1)
	}()
	if err := i.await(ctx, process, ended); err != nil {
		return nil, describe(err, complaint)
	}
	report := &Report{}
	if err := json.Unmarshal(answer.Bytes(), report); err != nil {
		return nil, fmt.Errorf("read what a process says of programs: %w", err)
	}
	return report, nil
}

// await waits for the process, and kills it when it takes too long.
func (i *Inspector) await(ctx context.Context, process *exec.Cmd, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, i.Patience)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	_ = process.Process.Kill() // it may have ended just now
	select {
	case err := <-ended:
		if err == nil {
			return nil // in the last moment
		}
		return fmt.Errorf("%w after %v", errNotInTime, i.Patience)
	case <-time.After(killedWithin):
		return fmt.Errorf("%w after %v, and cannot be ended", errNotInTime, i.Patience)
	}
}

// describe tells what the process ended with: its own sentence, or that it reached a limit.
func describe(err error, complaint *bounded) error {
	exit, has := errors.AsType[*exec.ExitError](err)
	if !has {
		return err
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	// Go's own, where it gets no memory.
	const fatal = 2
	if status.Signaled() || status.ExitStatus() == fatal && strings.Contains(complaint.String(), "fatal error: ") {
		return fmt.Errorf("%w, because it took too much memory or time (%w)", errNotInTime, exit)
	}
	return fmt.Errorf("a process that looks at programs failed (%w): %s", err, printable(strings.TrimSpace(complaint.String()), failureMax))
}

// bounded keeps the beginning of what is written. The process' end is not held up by the rest.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(text []byte) (int, error) {
	b.Buffer.Write(text[:min(len(text), b.most-b.Len())])
	return len(text), nil
}
