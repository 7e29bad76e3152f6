// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/mount"
	"github.com/containerd/log"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/machine"
	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// These are Kata's folders.
const (
	runFolder    = "/run/kata"
	sharedFolder = "/run/kata-containers/shared/sandboxes"
)

// sandbox is a pod's machine, with its folders and network.
type sandbox struct {
	id, netns string
	machine   *machine.Machine
}

// startSandbox boots the machine of a pod.
func startSandbox(ctx context.Context, id string, spec *specs.Spec, config *machine.Config) (_ *sandbox, err error) {
	s := &sandbox{id: id, netns: netnsOf(spec)}
	if s.netns == "" {
		return nil, errors.New("the pod is in its node's network namespace, and a machine has interfaces of its own; leave out hostNetwork or runtimeClassName")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeAll())
		}
	}()
	began := time.Now()
	cards, err := s.attach(config.Runtime.DANConf)
	if err != nil {
		return nil, fmt.Errorf("attach the pod's network: %w", err)
	}
	attached := time.Now()
	if err := s.boot(ctx, config, cards); err != nil {
		return nil, err
	}
	booted := time.Now()
	for i := range cards {
		if err := s.machine.Agent.SetUp(ctx, &cards[i].Interface); err != nil {
			return nil, err
		}
	}
	log.G(ctx).WithFields(log.Fields{
		"sandbox": id, "attach": attached.Sub(began), "boot": booted.Sub(attached), "interfaces": time.Since(booted),
	}).Info("the machine is there")
	return s, nil
}

func (s *sandbox) boot(ctx context.Context, config *machine.Config, cards []network.Card) (err error) {
	for _, folder := range []string{s.dir(), sharedOf(s.id)} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	s.machine, err = machine.Start(ctx, &machine.Options{
		QEMU: config.Hypervisor.QEMU, Dir: s.dir(), Shared: sharedOf(s.id), Netns: s.netns, Cards: cards,
	})
	return err
}

// attach finds the machine's cards as Kata does: if there is a file, it lists all of them.
func (s *sandbox) attach(danConf string) ([]network.Card, error) {
	if danConf != "" {
		netns, cards, err := network.ReadDevices(filepath.Join(danConf, s.id+".json"))
		if err == nil && netns != "" && netns != s.netns {
			err = fmt.Errorf("the file of its devices says that they are in %s, and it is in %s", netns, s.netns)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return cards, err
		}
	}
	return network.Redirect(s.netns)
}

func (s *sandbox) dir() string { return filepath.Join(runFolder, s.id) }

// removeAll powers the machine off and removes everything that was created for it. It can be repeated.
func (s *sandbox) removeAll() error {
	if s.machine != nil {
		s.machine.Stop()
	}
	err := errors.Join(network.Undo(s.netns), unmountRoots(s.id))
	if err == nil {
		err = errors.Join(os.RemoveAll(s.dir()), os.RemoveAll(sharedOf(s.id)))
	}
	return err
}

// sharedOf returns the folder whose content the machine of a sandbox sees.
func sharedOf(sandbox string) string { return filepath.Join(sharedFolder, sandbox) }

// mountRoot mounts a container's root where the machine sees it.
func mountRoot(sandbox, container string, root []*types.Mount) error {
	at := filepath.Join(sharedOf(sandbox), protocol.RootOf(container))
	if err := os.MkdirAll(at, 0o711); err != nil {
		return err
	}
	var mounts []mount.Mount
	for _, layer := range root {
		mounts = append(mounts, mount.Mount{Type: layer.Type, Source: layer.Source, Target: layer.Target, Options: layer.Options})
	}
	if err := mount.All(mounts, at); err != nil {
		return fmt.Errorf("mount the container's root: %w", err)
	}
	return nil
}

// unmountRoot also removes the mount point, but nothing that is still mounted there.
func unmountRoot(sandbox, container string) error {
	at := filepath.Join(sharedOf(sandbox), protocol.RootOf(container))
	if err := mount.UnmountAll(at, unix.MNT_DETACH); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount the container's root: %w", err)
	}
	for _, folder := range []string{at, filepath.Dir(at)} {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func unmountRoots(sandbox string) (all error) {
	containers, err := os.ReadDir(sharedOf(sandbox))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, container := range containers {
		all = errors.Join(all, unmountRoot(sandbox, container.Name()))
	}
	return all
}
