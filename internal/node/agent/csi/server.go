// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Server has the driver's two sockets: the one on which kubelet calls it, and the one by which kubelet learns of it.
type Server struct {
	Driver *Driver
	// Endpoint is the driver's socket, with the path that it has on the node.
	Endpoint string
	// Registry is the socket in kubelet's folder of plugins; kubelet watches that folder.
	Registry string
	// Registered is told what kubelet says of the registration.
	Registered func(error)
	// Leave is called at the end, before kubelet learns of it: as long as it does not return, kubelet is served.
	Leave func(context.Context)
	Log   *slog.Logger
}

// lookEvery is how often to see whether the sockets are still there, and retry what kubelet has refused.
const lookEvery = 5 * time.Second

// answerTimeout bounds how long kubelet's last calls may take.
const answerTimeout = 2 * time.Second

// notRegistered is the state before kubelet has said anything.
var errNotRegistered = errors.New("kubelet has not registered the CSI driver yet")

// Run serves until ctx ends and Leave, which gets a ctx that has not, returns.
func (s *Server) Run(ctx context.Context) error {
	driver := grpc.NewServer()
	csi.RegisterIdentityServer(driver, s.Driver)
	csi.RegisterNodeServer(driver, s.Driver)
	stop, err := serve(driver, s.Endpoint)
	if err != nil {
		return err
	}
	defer stop()
	for left := false; !left; {
		if left, err = s.beRegistered(ctx); err != nil {
			return err
		}
	}
	return nil
}

// beRegistered offers the driver to kubelet, until ctx ends and Leave returns, kubelet refuses, or somebody removed the socket.
func (s *Server) beRegistered(ctx context.Context) (left bool, err error) {
	s.Registered(errNotRegistered)
	said := make(chan error, 1)
	registry := grpc.NewServer()
	registerapi.RegisterRegistrationServer(registry, &registration{endpoint: s.Endpoint, said: said})
	stop, err := serve(registry, s.Registry)
	if err != nil {
		return false, err
	}
	defer stop()
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var refused error
	for {
		select {
		case <-ctx.Done():
			s.Leave(context.WithoutCancel(ctx))
			return true, nil
		case refused = <-said:
			s.Registered(refused)
			s.Log.Info("kubelet answered the registration", "refused", refused != nil)
		case <-ticks.C:
			if _, err := os.Stat(s.Registry); refused != nil || errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
		}
	}
}

// serve listens on a unix socket, in place of one that was left there.
func serve(server *grpc.Server, path string) (stop func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make a folder for the socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an agent before: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect %s: %w", path, err), listener.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Stop
	}()
	return func() {
		// Both remove the socket as well. What is half done would stay so where no agent follows.
		hurry := time.AfterFunc(answerTimeout, server.Stop)
		defer hurry.Stop()
		server.GracefulStop()
		<-done
	}, nil
}

// registration tells kubelet of the driver.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	endpoint string
	said     chan error
}

// GetInfo is kubelet's first question.
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: DriverName, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus is kubelet's answer.
func (r *registration) NotifyRegistrationStatus(ctx context.Context, told *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	var err error
	if !told.GetPluginRegistered() {
		err = fmt.Errorf("kubelet did not register the CSI driver: %s", told.GetError())
	}
	select {
	case r.said <- err:
	case <-ctx.Done():
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
