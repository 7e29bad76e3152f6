// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	taskapi "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/errdefs"
	"github.com/containerd/containerd/protobuf"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Create creates the pod's machine, or a container in it.
func (s *service) Create(ctx context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	spec, err := readSpec(r.Bundle)
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	if r.Terminal {
		return nil, errdefs.ToGRPCf(errdefs.ErrNotImplemented, "a terminal")
	}
	p := &process{container: r.ID, bundle: r.Bundle, stdout: r.Stdout, stderr: r.Stderr, ended: make(chan struct{})}
	if isSandbox(spec) {
		err = s.createSandbox(ctx, p, spec, r.Options)
	} else {
		err = s.createContainer(r, p, spec)
	}
	if err == nil {
		err = s.add(p)
	}
	return &taskapi.CreateTaskResponse{Pid: s.pid()}, errdefs.ToGRPC(err)
}

// Exec prepares another process in a container.
func (s *service) Exec(_ context.Context, r *taskapi.ExecProcessRequest) (*emptypb.Empty, error) {
	if r.Terminal {
		return nil, errdefs.ToGRPCf(errdefs.ErrNotImplemented, "a terminal")
	}
	spec := &specs.Process{}
	if err := json.Unmarshal(r.Spec.GetValue(), spec); err != nil {
		return nil, errdefs.ToGRPC(fmt.Errorf("read the description of a process: %w", err))
	}
	p := &process{container: r.ID, exec: r.ExecID, stdout: r.Stdout, stderr: r.Stderr, ended: make(chan struct{})}
	p.what = processOf(key(r.ID, r.ExecID), r.ID, spec)
	return &emptypb.Empty{}, s.add(p)
}

// Start starts the process; the machine runs already.
func (s *service) Start(ctx context.Context, r *taskapi.StartRequest) (*taskapi.StartResponse, error) {
	p, err := s.find(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	sandbox, err := s.theSandbox()
	if err == nil && p.what == nil {
		p.started.Store(true)
	} else if err == nil {
		err = p.start(ctx, sandbox.machine.Agent)
	}
	return &taskapi.StartResponse{Pid: s.pid()}, errdefs.ToGRPC(err)
}

// Kill signals a process. For the sandbox, any signal powers the machine off.
func (s *service) Kill(ctx context.Context, r *taskapi.KillRequest) (*emptypb.Empty, error) {
	p, err := s.find(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	sandbox, err := s.theSandbox()
	switch {
	case err != nil:
	case p.hasEnded():
		err = fmt.Errorf("process %s has ended: %w", key(r.ID, r.ExecID), errdefs.ErrNotFound)
	case p.what == nil:
		sandbox.machine.Stop()
	case !p.started.Load():
		p.end(128 + int(r.Signal))
	default:
		err = sandbox.machine.Agent.Signal(ctx, p.what.ID, int(r.Signal))
	}
	return &emptypb.Empty{}, errdefs.ToGRPC(err)
}

// Wait waits until a process has ended.
func (s *service) Wait(ctx context.Context, r *taskapi.WaitRequest) (*taskapi.WaitResponse, error) {
	p, err := s.find(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ended:
		return &taskapi.WaitResponse{ExitStatus: uint32(p.status), ExitedAt: protobuf.ToTimestamp(p.at)}, nil
	case <-ctx.Done():
		return nil, errdefs.ToGRPC(ctx.Err())
	}
}

// Delete removes a process that has ended or was not started.
func (s *service) Delete(_ context.Context, r *taskapi.DeleteRequest) (*taskapi.DeleteResponse, error) {
	p, err := s.find(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	sandbox, err := s.theSandbox()
	if err != nil {
		return nil, errdefs.ToGRPC(err)
	}
	switch {
	case p.what == nil:
		sandbox.machine.Stop()
		<-p.ended
	case p.started.Load() && !p.hasEnded():
		return nil, errdefs.ToGRPCf(errdefs.ErrFailedPrecondition, "process %s runs", key(r.ID, r.ExecID))
	}
	if p.what != nil && p.exec == "" {
		if err := unmountRoot(sandbox.id, p.container); err != nil {
			return nil, errdefs.ToGRPC(err)
		}
	}
	s.mu.Lock()
	delete(s.processes, key(r.ID, r.ExecID))
	s.mu.Unlock()
	return &taskapi.DeleteResponse{Pid: s.pid(), ExitStatus: uint32(p.status), ExitedAt: protobuf.ToTimestamp(p.at)}, nil
}

// State returns the state of a process.
func (s *service) State(_ context.Context, r *taskapi.StateRequest) (*taskapi.StateResponse, error) {
	p, err := s.find(r.ID, r.ExecID)
	if err != nil {
		return nil, err
	}
	state := &taskapi.StateResponse{ID: p.container, ExecID: p.exec, Bundle: p.bundle, Pid: s.pid(), Status: p.state(), Stdout: p.stdout, Stderr: p.stderr}
	if p.hasEnded() {
		state.ExitStatus, state.ExitedAt = uint32(p.status), protobuf.ToTimestamp(p.at)
	}
	return state, nil
}

// Connect returns the PIDs of the serving processes.
func (s *service) Connect(context.Context, *taskapi.ConnectRequest) (*taskapi.ConnectResponse, error) {
	return &taskapi.ConnectResponse{ShimPid: uint32(os.Getpid()), TaskPid: s.pid(), Version: "v2"}, nil
}

// Shutdown ends this process once nothing of the pod is left.
func (s *service) Shutdown(context.Context, *taskapi.ShutdownRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.processes) == 0 {
		s.shutdown.Shutdown()
	}
	return &emptypb.Empty{}, nil
}

// Pids returns QEMU's PID.
func (s *service) Pids(context.Context, *taskapi.PidsRequest) (*taskapi.PidsResponse, error) {
	return &taskapi.PidsResponse{Processes: []*task.ProcessInfo{{Pid: s.pid()}}}, nil
}

// Update does nothing: there are no limits.
func (s *service) Update(context.Context, *taskapi.UpdateTaskRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// CloseIO does nothing: there is no standard input.
func (s *service) CloseIO(context.Context, *taskapi.CloseIORequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// Stats returns "not found", which containerd skips: the machine is not measured.
func (s *service) Stats(context.Context, *taskapi.StatsRequest) (*taskapi.StatsResponse, error) {
	return nil, errdefs.ToGRPCf(errdefs.ErrNotFound, "metrics")
}

func notImplemented(what string) (*emptypb.Empty, error) {
	return nil, errdefs.ToGRPCf(errdefs.ErrNotImplemented, "%s", what)
}

// Pause is not implemented.
func (s *service) Pause(context.Context, *taskapi.PauseRequest) (*emptypb.Empty, error) {
	return notImplemented("pause")
}

// Resume is not implemented.
func (s *service) Resume(context.Context, *taskapi.ResumeRequest) (*emptypb.Empty, error) {
	return notImplemented("resume")
}

// Checkpoint is not implemented.
func (s *service) Checkpoint(context.Context, *taskapi.CheckpointTaskRequest) (*emptypb.Empty, error) {
	return notImplemented("checkpoint")
}

// ResizePty is not implemented.
func (s *service) ResizePty(context.Context, *taskapi.ResizePtyRequest) (*emptypb.Empty, error) {
	return notImplemented("terminals")
}
