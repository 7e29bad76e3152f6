// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/test/clock/shared"
)

// answerPatience bounds exchanges of counters, which spin.
const answerPatience = time.Minute

// server executes the host's requests. It sends output of started programs between replies.
type server struct {
	page     *guestclock.Page
	requests *json.Decoder

	mu      sync.Mutex
	replies *json.Encoder
	started map[string]*os.Process
}

func newServer(page *guestclock.Page, line io.ReadWriter) *server {
	return &server{page: page, requests: json.NewDecoder(line), replies: json.NewEncoder(line), started: map[string]*os.Process{}}
}

// serve answers requests one after another. Its first message, without a request, announces the guest.
func (s *server) serve() error {
	if err := s.say(shared.Message{}); err != nil {
		return err
	}
	for {
		var request shared.Request
		if err := s.requests.Decode(&request); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		reply := shared.Message{ID: request.ID}
		output, err := s.do(&request)
		reply.Output = output
		if err != nil {
			reply.Error = err.Error()
		}
		if err := s.say(reply); err != nil {
			return err
		}
		if request.Answer != nil {
			if err := s.page.Answer(*request.Answer, answerPatience); err != nil {
				fmt.Fprintln(os.Stderr, "guest: exchange counters:", err)
			}
		}
	}
}

func (s *server) say(message shared.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replies.Encode(message)
}

func (s *server) do(request *shared.Request) (output string, err error) {
	switch {
	case request.Write != nil:
		return "", write(request.Write)
	case request.Run != nil:
		text, err := exec.Command(request.Run.Arguments[0], request.Run.Arguments[1:]...).CombinedOutput()
		return string(text), err
	case request.Start != nil:
		return "", s.start(request.Start)
	case request.Signal != nil:
		return "", s.signal(request.Signal)
	case request.Clock != nil:
		return "", change(request.Clock)
	case request.Answer != nil:
		return "", nil
	default:
		return "", errors.New("the request asks for nothing")
	}
}

func write(file *shared.File) error {
	if err := os.MkdirAll(filepath.Dir(file.Path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file.Path, []byte(file.Content), 0o644)
}

// start runs a program and sends each of its lines.
func (s *server) start(program *shared.Program) error {
	command := exec.Command(program.Arguments[0], program.Arguments[1:]...)
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.started[program.Name] = command.Process
	s.mu.Unlock()
	go s.follow(program.Name, command, output)
	return nil
}

func (s *server) follow(name string, command *exec.Cmd, output io.Reader) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if err := s.say(shared.Message{Name: name, Line: lines.Text(), TSC: guestclock.TSC()}); err != nil {
			fmt.Fprintln(os.Stderr, "guest: tell what", name, "said:", err)
		}
	}
	ended := shared.Message{Name: name, Ended: true, TSC: guestclock.TSC()}
	if err := command.Wait(); err != nil {
		ended.Error = err.Error()
	}
	if err := s.say(ended); err != nil {
		fmt.Fprintln(os.Stderr, "guest: tell that", name, "ended:", err)
	}
}

func (s *server) signal(signal *shared.Signal) error {
	s.mu.Lock()
	process := s.started[signal.Name]
	s.mu.Unlock()
	if process == nil {
		return fmt.Errorf("no program %q was started", signal.Name)
	}
	return process.Signal(signal.Number)
}
