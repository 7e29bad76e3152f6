// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containerd/containerd/namespaces"
	"github.com/containerd/containerd/pkg/shutdown"
	"github.com/containerd/containerd/plugin"
	"github.com/containerd/containerd/runtime/v2/shim"
)

// Main is the program: containerd calls it to start a process for a pod and to clean up after one, and it starts itself
// to serve.
func Main() {
	plugin.Register(&plugin.Registration{
		Type: plugin.TTRPCPlugin, ID: "task", Requires: []plugin.Type{plugin.InternalPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			end, err := ic.GetByID(plugin.InternalPlugin, "shutdown")
			if err != nil {
				return nil, err
			}
			return newService(end.(shutdown.Service)), nil
		},
	})
	shim.RunManager(context.Background(), manager{}, func(c *shim.Config) { c.NoReaper, c.NoSubreaper = true, true })
}

type manager struct{}

func (manager) Name() string { return "io.containerd.ktsnkata.v2" }

// Start starts the pod's process with the first container, the sandbox, and finds it for the others. It returns the
// process's address.
func (m manager) Start(ctx context.Context, id string, options shim.StartOpts) (_ string, err error) {
	spec, err := readSpec(".")
	if err != nil {
		return "", err
	}
	address, err := shim.SocketAddress(ctx, options.Address, sandboxOf(spec, id))
	if err != nil {
		return "", err
	}
	if !isSandbox(spec) {
		return address, errors.Join(awaitProcess(ctx, address), shim.WriteAddress("address", address))
	}
	if err := shim.RemoveSocket(address); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("remove the socket of a process that has ended: %w", err)
	}
	if err := serveAt(ctx, id, address, options); err != nil {
		return "", errors.Join(err, shim.RemoveSocket(address))
	}
	return address, shim.WriteAddress("address", address)
}

// answerPatience is how long the pod's process may take to answer a connection on a busy machine; one attempt of the
// library takes 100 ms.
const answerPatience = 10 * time.Second

// awaitProcess waits until the pod's process answers. A container never starts one of its own, which would have no
// machine.
func awaitProcess(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	for !shim.CanConnect(address) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the process of the pod's sandbox does not answer at %s", address)
		case <-time.After(answerPatience / 100):
		}
	}
	return nil
}

// serveAt starts this program as the pod's process.
func serveAt(ctx context.Context, id, address string, options shim.StartOpts) error {
	socket, err := shim.NewSocket(address)
	if err != nil {
		return err
	}
	socket.SetUnlinkOnClose(false) // the pod's process listens there
	defer socket.Close()
	file, err := socket.File()
	if err != nil {
		return err
	}
	defer file.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	command := exec.Command(self, "-namespace", namespace, "-id", id, "-address", options.Address)
	command.ExtraFiles = []*os.File{file}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command.Start()
}

// Stop cleans up after a process that was killed, and QEMU with it. containerd calls it for each container of the pod.
func (manager) Stop(_ context.Context, id string) (shim.StopStatus, error) {
	here, err := os.Getwd()
	if err != nil {
		return shim.StopStatus{}, err
	}
	bundle := filepath.Join(filepath.Dir(here), id)
	spec, err := readSpec(bundle)
	if err == nil && isSandbox(spec) {
		err = errors.Join((&sandbox{id: id, netns: netnsOf(spec)}).removeAll(), removeSocket(bundle))
	} else if err == nil {
		err = unmountRoot(sandboxOf(spec, id), id)
	}
	return shim.StopStatus{ExitStatus: killed, ExitedAt: time.Now()}, err
}

// removeSocket removes the socket of a process that could not do so itself.
func removeSocket(bundle string) error {
	address, err := shim.ReadAddress(filepath.Join(bundle, "address"))
	if err == nil {
		err = shim.RemoveSocket(address)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
