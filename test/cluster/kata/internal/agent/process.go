// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// start runs a process, and does not wait for it.
func (s *server) start(what *protocol.Process) error {
	root := filepath.Join(shared, protocol.RootOf(what.Container))
	program, err := findProgram(root, what)
	if err != nil {
		return err
	}
	if !s.ready[what.Container] {
		if err := mountSystem(root); err != nil {
			return err
		}
		s.ready[what.Container] = true
	}
	command := exec.Command(program, what.Arguments[1:]...)
	command.Dir, command.Env = what.Dir, what.Environment
	command.Stdout, command.Stderr = &stream{s, what.ID, protocol.Stdout}, &stream{s, what.ID, protocol.Stderr}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Setpgid: true,
		Credential: &syscall.Credential{Uid: what.UID, Gid: what.GID, Groups: what.Groups}}
	if err := command.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.running[what.ID] = command.Process
	s.mu.Unlock()
	go s.await(what.ID, command)
	return nil
}

// findProgram searches the container's PATH, as a shell would.
func findProgram(root string, what *protocol.Process) (string, error) {
	if len(what.Arguments) == 0 {
		return "", errors.New("the container has no command")
	}
	name := what.Arguments[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, variable := range what.Environment {
		path, ok := strings.CutPrefix(variable, "PATH=")
		for _, folder := range filepath.SplitList(path) {
			if _, err := os.Stat(filepath.Join(root, folder, name)); ok && err == nil {
				return filepath.Join(folder, name), nil
			}
		}
	}
	return "", fmt.Errorf("the container has no program %s in its PATH", name)
}

func (s *server) await(id string, command *exec.Cmd) {
	_ = command.Wait() // the status says it
	s.mu.Lock()
	delete(s.running, id)
	s.mu.Unlock()
	status := command.ProcessState.ExitCode()
	if by := command.ProcessState.Sys().(syscall.WaitStatus); by.Signaled() {
		status = 128 + int(by.Signal())
	}
	s.say(protocol.Reply{Process: id, Ended: true, Status: status})
}

// signal does not fail for a process that has just ended.
func (s *server) signal(what *protocol.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	process := s.running[what.Process]
	if process == nil {
		return nil
	}
	if err := syscall.Kill(-process.Pid, syscall.Signal(what.Number)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// stream sends a process's output.
type stream struct {
	server  *server
	process string
	number  int
}

func (s *stream) Write(data []byte) (int, error) {
	s.server.say(protocol.Reply{Process: s.process, Stream: s.number, Data: data})
	return len(data), nil
}
