// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/errdefs"
	runtimeoptions "github.com/containerd/containerd/pkg/runtimeoptions/v1"
	"github.com/containerd/containerd/pkg/shutdown"
	"github.com/containerd/log"
	"github.com/containerd/ttrpc"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/machine"
)

// service serves a pod. Its methods implement the task API; containerd calls them concurrently.
type service struct {
	shutdown shutdown.Service

	mu        sync.Mutex
	sandbox   *sandbox
	processes map[string]*process
}

func newService(end shutdown.Service) *service {
	return &service{shutdown: end, processes: map[string]*process{}}
}

// RegisterTTRPC registers the service at containerd's server.
func (s *service) RegisterTTRPC(server *ttrpc.Server) error {
	taskapi.RegisterTaskService(server, s)
	return nil
}

// add adds a new process.
func (s *service) add(p *process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes[key(p.container, p.exec)] != nil {
		return errdefs.ToGRPCf(errdefs.ErrAlreadyExists, "process %s", key(p.container, p.exec))
	}
	s.processes[key(p.container, p.exec)] = p
	return nil
}

func (s *service) find(container, exec string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.processes[key(container, exec)]; p != nil {
		return p, nil
	}
	return nil, errdefs.ToGRPCf(errdefs.ErrNotFound, "process %s", key(container, exec))
}

func (s *service) theSandbox() (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sandbox == nil {
		return nil, errors.New("the pod has no machine")
	}
	return s.sandbox, nil
}

// pid returns QEMU's PID for all processes of the pod: their own PIDs mean nothing on the node.
func (s *service) pid() uint32 {
	if sandbox, err := s.theSandbox(); err == nil {
		return uint32(sandbox.machine.PID)
	}
	return 0
}

// createSandbox boots the machine. The sandbox's process ends with it.
func (s *service) createSandbox(ctx context.Context, p *process, spec *specs.Spec, options *anypb.Any) error {
	config, err := configOf(options)
	if err != nil {
		return err
	}
	started, err := startSandbox(ctx, p.container, spec, config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.sandbox = started
	s.mu.Unlock()
	go func() {
		<-started.machine.Ended()
		if err := started.removeAll(); err != nil {
			log.L.WithError(err).Error("clean up after the machine")
		}
		p.end(killed)
	}()
	return nil
}

// configOf reads the file that the handler names in containerd's configuration.
func configOf(options *anypb.Any) (*machine.Config, error) {
	if options == nil {
		return nil, errors.New("the handler has no options with a ConfigPath")
	}
	read, err := typeurl.UnmarshalAny(options)
	if err != nil {
		return nil, fmt.Errorf("options of the handler: %w", err)
	}
	named, ok := read.(*runtimeoptions.Options)
	if !ok {
		return nil, fmt.Errorf("options of the handler are %T, and should have a ConfigPath", read)
	}
	return machine.ReadConfig(named.ConfigPath)
}

// createContainer mounts the root of a container into the machine.
func (s *service) createContainer(r *taskapi.CreateTaskRequest, p *process, spec *specs.Spec) error {
	sandbox, err := s.theSandbox()
	if err != nil {
		return err
	}
	p.what = processOf(key(r.ID, ""), r.ID, spec.Process)
	return mountRoot(sandbox.id, r.ID, r.Rootfs)
}
