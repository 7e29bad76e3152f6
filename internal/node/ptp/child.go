// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// endPatience limits the wait for a program after SIGTERM.
const endPatience = 3 * time.Second

// child is a program that was started. Its output is passed on line by line.
type child struct {
	name    string
	command *exec.Cmd
	// ended is closed when it has ended and was reaped. err is valid then.
	ended  chan struct{}
	err    error
	output *lines
}

// lines passes on a program's lines and keeps the last one.
type lines struct {
	to    *sync.Mutex
	out   io.Writer
	last  string
	guard sync.Mutex
}

func (l *lines) read(from io.Reader) {
	const longest = 64 << 10
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, 0, 4096), longest)
	for scanner.Scan() {
		l.guard.Lock()
		l.last = scanner.Text()
		l.guard.Unlock()
		l.to.Lock()
		fmt.Fprintln(l.out, scanner.Text())
		l.to.Unlock()
	}
	// After a line that is too long, keep reading: a closed pipe would end the program.
	_, _ = io.Copy(io.Discard, from)
}

func (l *lines) lastLine() string {
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.last
}

// startChild starts a program. The calling goroutine must keep its thread until the program has ended: the kernel ends the program
// with the thread, so that no program sets the clock after this one is killed.
func startChild(path string, arguments []string, out io.Writer, mutex *sync.Mutex) (*child, error) {
	started := &child{name: filepath.Base(path), command: exec.Command(path, arguments...), ended: make(chan struct{}), output: &lines{to: mutex, out: out}}
	started.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	reader, writer := io.Pipe()
	started.command.Stdout, started.command.Stderr = writer, writer
	if err := started.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", started.name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		started.output.read(reader)
	}()
	go func() {
		defer close(started.ended)
		started.err = started.command.Wait()
		_ = writer.Close()
		<-read
	}()
	return started, nil
}

// firstToEnd returns a channel that gets each program when it has ended. The channel never blocks a sender.
func firstToEnd(programs []*child) <-chan *child {
	ended := make(chan *child, len(programs))
	for _, program := range programs {
		go func() {
			<-program.ended
			ended <- program
		}()
	}
	return ended
}

// why describes how the program ended.
func (c *child) why() string {
	how := "with status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	if last := c.output.lastLine(); last != "" {
		return fmt.Sprintf("%s ended by itself (%s); it said last: %s", c.name, how, last)
	}
	return fmt.Sprintf("%s ended by itself (%s)", c.name, how)
}

// end ends the program by SIGTERM, then SIGKILL, and waits for its end.
func (c *child) end(ctx context.Context) {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	select {
	case <-c.ended:
	case <-ctx.Done():
		_ = c.command.Process.Kill()
		<-c.ended
	}
}
