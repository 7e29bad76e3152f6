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

// Server serves the driver's socket for kubelet's calls, and the socket by which kubelet discovers the driver.
type Server struct {
	Driver *Driver
	// Endpoint is the driver's socket, by its path on the node.
	Endpoint string
	// Registry is the socket in the plugin folder that kubelet watches.
	Registry string
	// Registered gets kubelet's result of the registration.
	Registered func(error)
	// Leave is called at the end, before kubelet is notified: kubelet is served until it returns.
	Leave func(context.Context)
	Log   *slog.Logger
}

// checkInterval is the time between two checks that the sockets exist, and until a refused registration is retried.
const checkInterval = 5 * time.Second

// stopTimeout limits how long kubelet's last calls may take.
const stopTimeout = 2 * time.Second

// errNotRegistered is the state before kubelet has registered the driver.
var errNotRegistered = errors.New("kubelet has not registered the CSI driver yet")

// Run serves until ctx ends and Leave returns, which gets a context that has not ended.
func (s *Server) Run(ctx context.Context) error {
	for left := false; !left; {
		var err error
		if left, err = s.offer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// offer serves kubelet until ctx ends and Leave returns (left), kubelet refuses the registration, or a socket was
// removed.
func (s *Server) offer(ctx context.Context) (left bool, err error) {
	driver := grpc.NewServer()
	csi.RegisterIdentityServer(driver, s.Driver)
	csi.RegisterNodeServer(driver, s.Driver)
	endpoint, err := serve(driver, s.Endpoint)
	if err != nil {
		return false, err
	}
	defer s.stopSocket(endpoint)
	s.Registered(errNotRegistered)
	result := make(chan error, 1)
	registrar := grpc.NewServer()
	registerapi.RegisterRegistrationServer(registrar, &registration{endpoint: s.Endpoint, result: result})
	registry, err := serve(registrar, s.Registry)
	if err != nil {
		return false, err
	}
	defer s.stopSocket(registry)
	return s.await(ctx, result, endpoint, registry), nil
}

// await returns when offer must return.
func (s *Server) await(ctx context.Context, result <-chan error, endpoint, registry *socket) (left bool) {
	ticks := time.NewTicker(checkInterval)
	defer ticks.Stop()
	var refused error
	for {
		select {
		case <-ctx.Done():
			s.Leave(context.WithoutCancel(ctx))
			return true
		case refused = <-result:
			s.Registered(refused)
			s.Log.Info("kubelet answered the registration", "refused", refused != nil)
		case <-ticks.C:
			if refused != nil || endpoint.missing() || registry.missing() {
				return false
			}
		}
	}
}

// stopSocket stops serving on a socket. If the file stays, the next agent replaces it.
func (s *Server) stopSocket(sock *socket) {
	if err := sock.stop(); err != nil {
		s.Log.Warn("cannot remove a socket", "path", sock.path, "error", err)
	}
}

// registration registers the driver with kubelet.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	endpoint string
	result   chan error
}

// GetInfo implements registerapi.RegistrationServer.
func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: DriverName, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus implements registerapi.RegistrationServer.
func (r *registration) NotifyRegistrationStatus(ctx context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	var err error
	if !status.GetPluginRegistered() {
		err = fmt.Errorf("kubelet did not register the CSI driver: %s", status.GetError())
	}
	select {
	case r.result <- err:
	case <-ctx.Done():
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
