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

// endPatience is how long a program may take to end when it is told to.
const endPatience = 3 * time.Second

// child is a program that was started. What it says is passed on line by line.
type child struct {
	name    string
	command *exec.Cmd
	// ended is closed when it has ended and was waited for; err says how then.
	ended chan struct{}
	err   error
	said  *lines
}

// lines passes on lines of several programs, and remembers the last one of each.
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
	// A line that is too long for a log is not worth the program's end, which a closed pipe would be.
	_, _ = io.Copy(io.Discard, from)
}

func (l *lines) lastLine() string {
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.last
}

// startChild starts a program. It must be called by a goroutine that keeps its thread until the program has ended: the kernel
// ends the program with the thread, so that nobody sets the clock when this program is killed.
func startChild(path string, arguments []string, out io.Writer, mutex *sync.Mutex) (*child, error) {
	made := &child{name: filepath.Base(path), command: exec.Command(path, arguments...), ended: make(chan struct{}), said: &lines{to: mutex, out: out}}
	made.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	reader, writer := io.Pipe()
	made.command.Stdout, made.command.Stderr = writer, writer
	if err := made.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", made.name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		made.said.read(reader)
	}()
	go func() {
		defer close(made.ended)
		made.err = made.command.Wait()
		_ = writer.Close()
		<-read
	}()
	return made, nil
}

// firstToEnd has each program when it has ended. Nothing waits for who does not read it.
func firstToEnd(programs []*child) <-chan *child {
	ended := make(chan *child, len(programs))
	for _, one := range programs {
		go func() {
			<-one.ended
			ended <- one
		}()
	}
	return ended
}

// why says how it ended.
func (c *child) why() string {
	how := "with status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	if last := c.said.lastLine(); last != "" {
		return fmt.Sprintf("%s ended by itself (%s); it said last: %s", c.name, how, last)
	}
	return fmt.Sprintf("%s ended by itself (%s)", c.name, how)
}

// end ends it, first politely, and waits until it has ended.
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
