// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	for left := false; !left; {
		var err error
		if left, err = s.offer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// offer serves kubelet, until ctx ends and Leave returns, kubelet refuses, or somebody removed a socket.
func (s *Server) offer(ctx context.Context) (left bool, err error) {
	driver := grpc.NewServer()
	csi.RegisterIdentityServer(driver, s.Driver)
	csi.RegisterNodeServer(driver, s.Driver)
	endpoint, err := serve(driver, s.Endpoint)
	if err != nil {
		return false, err
	}
	defer s.end(endpoint)
	s.Registered(errNotRegistered)
	said := make(chan error, 1)
	registrar := grpc.NewServer()
	registerapi.RegisterRegistrationServer(registrar, &registration{endpoint: s.Endpoint, said: said})
	registry, err := serve(registrar, s.Registry)
	if err != nil {
		return false, err
	}
	defer s.end(registry)
	return s.await(ctx, said, endpoint, registry), nil
}

// await returns as offer does.
func (s *Server) await(ctx context.Context, said <-chan error, endpoint, registry *socket) (left bool) {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	var refused error
	for {
		select {
		case <-ctx.Done():
			s.Leave(context.WithoutCancel(ctx))
			return true
		case refused = <-said:
			s.Registered(refused)
			s.Log.Info("kubelet answered the registration", "refused", refused != nil)
		case <-ticks.C:
			if refused != nil || endpoint.missing() || registry.missing() {
				return false
			}
		}
	}
}

// end stops serving on a socket. One that stays is replaced by the next agent's.
func (s *Server) end(one *socket) {
	if err := one.stop(); err != nil {
		s.Log.Warn("a socket stays", "path", one.path, "error", err)
	}
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
func (r *registration) NotifyRegistrationStatus(ctx context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	var err error
	if !status.GetPluginRegistered() {
		err = fmt.Errorf("kubelet did not register the CSI driver: %s", status.GetError())
	}
	select {
	case r.said <- err:
	case <-ctx.Done():
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
