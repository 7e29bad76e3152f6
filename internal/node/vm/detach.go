// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
)

// Detach disconnects a machine. It can be repeated after a failure; it fails if the machine is not connected. With force it
// continues after errors of the network's plugins, and returns them.
func (n *Node) Detach(ctx context.Context, name string, force bool) error {
	unlock, err := n.lock()
	if err != nil {
		return err
	}
	defer unlock()
	m, err := n.readFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no virtual machine %q is connected; `ktsn vm list` shows those that are", name)
	}
	if err != nil {
		return err
	}
	if m.Tap != "" {
		if err := RemoveTap(m.Tap); err != nil {
			return err
		}
	}
	left := n.deleteInterface(ctx, m)
	if left != nil && !force {
		return fmt.Errorf("%w; --force leaves it", left)
	}
	return errors.Join(left, n.takeApart(m))
}

// takeApart removes everything that the plugins have not created, the machine's file last.
func (n *Node) takeApart(m *Machine) error {
	if err := removeNamespace(m.namespaceName()); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(n.clockSocket(m))); err != nil {
		return err
	}
	return n.forget(m.Name)
}

// deleteInterface runs the plugins' DEL, with or without the network namespace.
func (n *Node) deleteInterface(ctx context.Context, m *Machine) error {
	list, err := libcni.LoadConfList(m.ConfDir, m.Network)
	if err != nil {
		return fmt.Errorf("read the network's configuration, which is needed to detach %s: %w", m.Name, err)
	}
	runtimeConf := m.attachment()
	if _, err := os.Stat(runtimeConf.NetNS); errors.Is(err, os.ErrNotExist) {
		runtimeConf = m.leftOver()
	}
	if err := n.runtime(m).DelNetworkList(ctx, list, runtimeConf); err != nil {
		return fmt.Errorf("detach the interface of %s from network %s: %w", m.Name, m.Network, err)
	}
	return nil
}
