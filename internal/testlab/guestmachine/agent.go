// SPDX-License-Identifier: Apache-2.0

package guestmachine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// answerTimeout limits exchanges of counters, which spin.
const answerTimeout = time.Minute

// agent carries out the requests of a session, in the virtual machine.
type agent struct {
	page *guestclock.Page

	mu      sync.Mutex
	replies *json.Encoder
	running map[int]*os.Process
}

// Agent serves the session until the machine ends. It runs as a command of the machine (Command).
func Agent() error {
	if err := exec.Command("modprobe", "virtio_console").Run(); err != nil {
		return fmt.Errorf("load the module of virtio ports: %w", err)
	}
	port, err := openPort(agentPort)
	if err != nil {
		return err
	}
	defer port.Close()
	page, err := guestclock.FindPage()
	if err != nil {
		return err
	}
	go func() { fmt.Fprintln(os.Stderr, "agent:", guestclock.Sampling(page)) }()
	a := &agent{page: page, replies: json.NewEncoder(port), running: map[int]*os.Process{}}
	a.send(reply{})
	return a.serve(port)
}

// openPort opens a virtio port by its QEMU name.
func openPort(name string) (*os.File, error) {
	files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("there is no virtio port %s", name)
}

func (a *agent) serve(port io.Reader) error {
	for requests := json.NewDecoder(port); ; {
		var message request
		if err := requests.Decode(&message); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		switch {
		case message.Stop:
			a.stop(message.ID)
		case message.Answer > 0:
			a.end(message.ID, a.page.Answer(message.Answer, answerTimeout))
		case message.Step != 0:
			a.end(message.ID, step(message.Step))
		default:
			a.start(message)
		}
	}
}

func (a *agent) send(message reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.replies.Encode(&message) // without its host the machine has nothing to do
}

func (a *agent) end(id int, err error) {
	last := reply{ID: id, Ended: true}
	if err != nil {
		last.Error = err.Error()
	}
	a.send(last)
}

// step adds a difference to the clock, with as little delay as possible, because a delay would be missing in the new
// time.
func step(by int64) error {
	seconds := by / 1e9
	if by%1e9 < 0 {
		seconds--
	}
	change := unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO}
	change.Time.Sec, change.Time.Usec = seconds, by-seconds*1e9
	if _, err := unix.Adjtimex(&change); err != nil {
		return fmt.Errorf("set the clock by %d ns: %w", by, err)
	}
	return nil
}

// start starts a program, and does not wait for it.
func (a *agent) start(message request) {
	if len(message.Run) == 0 {
		a.end(message.ID, errors.New("the request asks for nothing"))
		return
	}
	program := exec.Command(message.Run[0], message.Run[1:]...)
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lines, writer := io.Pipe()
	program.Stdout, program.Stderr = writer, writer
	if err := program.Start(); err != nil {
		a.end(message.ID, err)
		return
	}
	a.mu.Lock()
	a.running[message.ID] = program.Process
	a.mu.Unlock()
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		a.forward(message.ID, lines)
	}()
	go a.await(message.ID, program, writer, forwarded)
}

func (a *agent) forward(id int, lines io.Reader) {
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		a.send(reply{ID: id, Line: scanner.Text()})
	}
	_, _ = io.Copy(io.Discard, lines) // after a line that is too long
}

func (a *agent) await(id int, program *exec.Cmd, writer *io.PipeWriter, forwarded <-chan struct{}) {
	err := program.Wait()
	a.mu.Lock()
	delete(a.running, id)
	a.mu.Unlock()
	writer.Close()
	<-forwarded
	a.end(id, err)
}

// stop asks a program and its children to end. A program that has just ended is no error.
func (a *agent) stop(id int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if process := a.running[id]; process != nil {
		_ = syscall.Kill(-process.Pid, syscall.SIGTERM)
	}
}
