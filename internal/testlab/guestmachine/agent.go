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

// answerPatience is for exchanges of counters, which spin.
const answerPatience = time.Minute

// agent does what a session asks for, in the virtual machine.
type agent struct {
	page *guestclock.Page

	mu      sync.Mutex
	replies *json.Encoder
	running map[int]*os.Process
}

// Agent serves the session until the machine ends. It is a command of the machine (Command).
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
	a.say(reply{})
	return a.serve(port)
}

// openPort finds a virtio port by the name that it has for QEMU.
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
		var one request
		if err := requests.Decode(&one); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		switch {
		case one.Stop:
			a.stop(one.ID)
		case one.Answer > 0:
			a.end(one.ID, a.page.Answer(one.Answer, answerPatience))
		case one.Step != 0:
			a.end(one.ID, step(one.Step))
		default:
			a.start(one)
		}
	}
}

func (a *agent) say(what reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.replies.Encode(&what) // without its host the machine has nothing to do
}

func (a *agent) end(id int, err error) {
	last := reply{ID: id, Ended: true}
	if err != nil {
		last.Error = err.Error()
	}
	a.say(last)
}

// step sets the clock by a difference, and takes no time that would be missing then.
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

// start runs a program, and does not wait for it.
func (a *agent) start(one request) {
	if len(one.Run) == 0 {
		a.end(one.ID, errors.New("the request asks for nothing"))
		return
	}
	program := exec.Command(one.Run[0], one.Run[1:]...)
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lines, writer := io.Pipe()
	program.Stdout, program.Stderr = writer, writer
	if err := program.Start(); err != nil {
		a.end(one.ID, err)
		return
	}
	a.mu.Lock()
	a.running[one.ID] = program.Process
	a.mu.Unlock()
	said := make(chan struct{})
	go func() {
		defer close(said)
		a.forward(one.ID, lines)
	}()
	go a.await(one.ID, program, writer, said)
}

func (a *agent) forward(id int, lines io.Reader) {
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		a.say(reply{ID: id, Line: scanner.Text()})
	}
	_, _ = io.Copy(io.Discard, lines) // behind a line that is too long
}

func (a *agent) await(id int, program *exec.Cmd, writer *io.PipeWriter, said <-chan struct{}) {
	err := program.Wait()
	a.mu.Lock()
	delete(a.running, id)
	a.mu.Unlock()
	writer.Close()
	<-said
	a.end(id, err)
}

// stop asks a program, and what it has started, to end. That it has just ended is no error.
func (a *agent) stop(id int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if process := a.running[id]; process != nil {
		_ = syscall.Kill(-process.Pid, syscall.SIGTERM)
	}
}
