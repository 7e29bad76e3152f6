// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"kubevirt.io/kubevirt/pkg/hooks/info"
	hooks "kubevirt.io/kubevirt/pkg/hooks/v1alpha3"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
)

const (
	// userFolder is below the folder of hooks, in which virt-launcher takes every file for a hook.
	userFolder = "userdata"
	clockName  = "clock.sock"
)

// Sidecar serves one virtual machine.
type Sidecar struct {
	Binding string
	// Folder is the folder of hooks in this container; virt-launcher sees Folder/Container there.
	Folder, Container string
	// Limit is the largest error of the machine's knowledge of the node's time; 0 for no limit.
	Limit time.Duration
	Log   *slog.Logger
	pod   pod
}

// hookSocket returns a different name for each container, because virt-launcher counts names.
func (s *Sidecar) hookSocket() string { return filepath.Join(s.Folder, name+"-"+s.Container+".sock") }

func (s *Sidecar) definer() *Definer {
	return &Definer{Binding: s.Binding, Clock: filepath.Join(s.Folder, s.Container, userFolder, clockName), pod: s.pod}
}

// Run serves virt-launcher and the machine until the machine or ctx ends.
func (s *Sidecar) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := s.makeFolder(); err != nil {
		return err
	}
	listener, err := listen(s.hookSocket())
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	info.RegisterInfoServer(server, infoServer{})
	hooks.RegisterCallbacksServer(server, &hookServer{definer: s.definer(), shutdown: stop, log: s.Log})
	answered := make(chan error, 1)
	go func() {
		answered <- hosttime.ServeAt(ctx, filepath.Join(s.Folder, userFolder, clockName), s.Limit, s.Log)
	}()
	context.AfterFunc(ctx, server.GracefulStop) // closes the listener, which removes the socket
	err = server.Serve(listener)
	stop()
	return errors.Join(err, <-answered)
}

// makeFolder creates the folder of the clock's socket. QEMU creates the socket, possibly as another user.
func (s *Sidecar) makeFolder() error {
	path := filepath.Join(s.Folder, userFolder)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return fmt.Errorf("make the folder of the clock's socket: %w; mount the folder of KubeVirt's hooks at %s", err, s.Folder)
	}
	return os.Chmod(path, 0o777) //nolint:gosec // containers of the pod only
}

// listen replaces a socket that an earlier process has left.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for virt-launcher: %w", err)
	}
	return listener, nil
}
