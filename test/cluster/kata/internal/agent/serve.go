// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// portPatience is how long the driver, which was just loaded, may take to find its ports.
const portPatience = 20 * time.Second

// openPort opens a virtio port by its name.
func openPort(name string) (*os.File, error) {
	for deadline := time.Now().Add(portPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
			}
		}
	}
	return nil, fmt.Errorf("there is no virtio port %s", name)
}

// server answers one runtime.
type server struct {
	mu      sync.Mutex
	replies *json.Encoder
	// running are the processes by ID, and ready the containers whose roots have the kernel's file systems.
	running map[string]*os.Process
	ready   map[string]bool
}

func newServer(port io.Writer) *server {
	return &server{replies: json.NewEncoder(port), running: map[string]*os.Process{}, ready: map[string]bool{}}
}

// serve handles requests one after another, until the port ends.
func (s *server) serve(port io.Reader) error {
	s.say(protocol.Reply{})
	for requests := json.NewDecoder(port); ; {
		var request protocol.Request
		if err := requests.Decode(&request); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		reply := protocol.Reply{Number: request.Number}
		if err := s.answer(request); err != nil {
			reply.Error = err.Error()
		}
		s.say(reply)
	}
}

func (s *server) answer(request protocol.Request) error {
	switch {
	case request.Interface != nil:
		return setUp(request.Interface)
	case request.Start != nil:
		return s.start(request.Start)
	case request.Signal != nil:
		return s.signal(request.Signal)
	}
	return errors.New("the request asks for nothing")
}

func (s *server) say(reply protocol.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.replies.Encode(&reply) // a machine without its host ends with it
}
