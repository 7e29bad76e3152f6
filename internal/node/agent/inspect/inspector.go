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

// Limits of the output of an inspecting process, and of the number of processes that cannot be killed.
const (
	answerMax  = 64 << 10
	hangingMax = 4
	// killedWithin is how long a killed process may take to end.
	killedWithin = time.Second
)

// Inspector starts the inspecting processes.
type Inspector struct {
	// Program and Arguments are the command, to which --proc and --pod are added.
	Program   string
	Arguments []string
	// Proc is the node's process file system.
	Proc string
	// Timeout limits the duration of an inspection.
	Timeout time.Duration

	// running counts processes that have not ended.
	running atomic.Int32
}

// errGivenUp means that the pod's programs could not be inspected because of the pod.
var errGivenUp = errors.New("the inspection was given up")

// Without returns a message for each program of the pod that was started with libktsn.so and has not loaded it. If some
// programs cannot be inspected, it also returns an error.
func (i *Inspector) Without(ctx context.Context, uid string) ([]string, error) {
	report, err := i.run(ctx, uid)
	if errors.Is(err, errGivenUp) {
		return []string{fmt.Sprintf("It is unknown whether the pod's programs have loaded libktsn.so: %v; files that they have open or "+
			"mapped must answer and must not be huge", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, program := range report.Programs {
		messages = append(messages, program.message())
	}
	if len(report.Failures) > 0 {
		err = errors.New(printable(strings.Join(report.Failures, "; "), failureMax))
	}
	return messages, err
}

// run starts a process and returns its report. It does not wait longer than ctx or Timeout allow.
func (i *Inspector) run(ctx context.Context, uid string) (*Report, error) {
	if hanging := i.running.Load(); hanging >= hangingMax {
		return nil, fmt.Errorf("%d inspecting processes do not end, because they wait for files of pods; no more are started until they end", hanging)
	}
	arguments := append(append([]string{}, i.Arguments...), "--proc", i.Proc, "--pod", uid)
	process := exec.Command(i.Program, arguments...) //nolint:gosec // this program
	// One thread is enough, and traces must not contain data of the pod.
	process.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"}
	output, errorOutput := &bounded{most: answerMax}, &bounded{most: 1 << 10}
	process.Stdout, process.Stderr = output, errorOutput
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start an inspecting process: %w", err)
	}
	i.running.Add(1)
	ended := make(chan error, 1)
	go func() {
		ended <- process.Wait()
		i.running.Add(-1)
	}()
	if err := i.await(ctx, process, ended); err != nil {
		return nil, describe(err, errorOutput)
	}
	report := &Report{}
	if err := json.Unmarshal(output.Bytes(), report); err != nil {
		return nil, fmt.Errorf("decode the report of an inspecting process: %w", err)
	}
	return report, nil
}

// await waits for the process and kills it when it takes too long.
func (i *Inspector) await(ctx context.Context, process *exec.Cmd, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, i.Timeout)
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
			return nil // it ended just in time
		}
		return fmt.Errorf("%w after %v", errGivenUp, i.Timeout)
	case <-time.After(killedWithin):
		return fmt.Errorf("%w after %v; the process cannot be killed", errGivenUp, i.Timeout)
	}
}

// describe returns the error of the process: its own message, or that it reached a limit.
func describe(err error, errorOutput *bounded) error {
	exit, has := errors.AsType[*exec.ExitError](err)
	if !has {
		return err
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	// Exit status of the Go runtime when it is out of memory.
	const fatal = 2
	if status.Signaled() || status.ExitStatus() == fatal && strings.Contains(errorOutput.String(), "fatal error: ") {
		return fmt.Errorf("%w: it took too much memory or time (%w)", errGivenUp, exit)
	}
	return fmt.Errorf("an inspecting process failed (%w): %s", err, printable(strings.TrimSpace(errorOutput.String()), failureMax))
}

// bounded keeps the beginning of the output and drops the rest, so that the process is not blocked.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(text []byte) (int, error) {
	b.Buffer.Write(text[:min(len(text), b.most-b.Len())])
	return len(text), nil
}
