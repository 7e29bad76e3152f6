// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Where things are, unless the command line says something else.
const (
	DefaultStateDir  = "/run/ktsn/vm"
	DefaultConfDir   = "/etc/cni/net.d"
	DefaultPluginDir = "/opt/cni/bin"
)

// FrontBytes is by how much a frame of a machine with a record and a tag is longer than its interface allows.
const FrontBytes = 28

// Node connects virtual machines of the network namespace that it runs in.
type Node struct {
	// StateDir has a file for each machine.
	StateDir string
}

func (n *Node) path(name string) string { return filepath.Join(n.StateDir, name+".json") }

// Attach connects a machine. When a step fails, what was made is taken apart again.
func (n *Node) Attach(ctx context.Context, m *Machine) (err error) {
	if err := m.Check(); err != nil {
		return err
	}
	list, err := libcni.LoadConfList(m.ConfDir, m.Network)
	if err != nil {
		return fmt.Errorf("read the network's configuration: %w", err)
	}
	unlock, err := n.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(n.path(m.Name)); err == nil {
		return fmt.Errorf("a virtual machine %s is connected already; detach it first", m.Name)
	}
	m.Tap, m.Clock = m.tapName(), filepath.Join(n.StateDir, m.Name+".clock.sock")
	// First, so that Detach finds what a kill leaves.
	if err := n.write(m); err != nil {
		return err
	}
	if err := n.connect(ctx, list, m); err != nil {
		return errors.Join(err, n.takeApart(context.WithoutCancel(ctx), m))
	}
	return nil
}

func (n *Node) connect(ctx context.Context, list *libcni.NetworkConfigList, m *Machine) error {
	if err := makeNamespace(m.namespaceName()); err != nil {
		return err
	}
	result, err := n.runtime(m).AddNetworkList(ctx, list, m.attachment())
	if err != nil {
		return fmt.Errorf("attach an interface for %s to network %s: %w", m.Name, m.Network, err)
	}
	if err := m.read(result); err != nil {
		return err
	}
	tap := &Tap{Name: m.Tap, MTU: m.MTU + FrontBytes, Queues: m.Queues, Owner: m.Owner}
	if err := tap.Make(); err != nil {
		return err
	}
	if err := join(m.Tap, m.Port); err != nil {
		return err
	}
	return n.write(m)
}

// read takes over what the plugins have made.
func (m *Machine) read(from types.Result) error {
	result, err := current.NewResultFromResult(from)
	if err != nil {
		return fmt.Errorf("read what the plugins have made: %w", err)
	}
	for _, one := range result.Interfaces {
		if one.Sandbox == "" && one.Name != "" && m.Port == "" && isVeth(one.Name) {
			m.Port = one.Name
		}
		if one.Sandbox != "" {
			m.Address, m.MTU = one.Mac, one.Mtu
		}
	}
	for _, address := range result.IPs {
		prefix, err := netip.ParsePrefix(address.Address.String())
		if err != nil {
			return err
		}
		m.Prefixes = append(m.Prefixes, prefix)
	}
	if m.Port == "" || m.Address == "" {
		return fmt.Errorf("the plugins of network %s have made no interface with an end on the node", m.Network)
	}
	if m.MTU == 0 {
		port, err := netlink.LinkByName(m.Port)
		if err != nil {
			return err
		}
		m.MTU = port.Attrs().MTU - FrontBytes
	}
	return nil
}

func isVeth(name string) bool {
	link, err := netlink.LinkByName(name)
	return err == nil && link.Type() == "veth"
}

// Detach disconnects a machine. It can be repeated until all has gone; a machine that is not connected is named.
func (n *Node) Detach(ctx context.Context, name string) error {
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
	return n.takeApart(ctx, m)
}

// takeApart removes all of a machine, and keeps its file as long as something is left.
func (n *Node) takeApart(ctx context.Context, m *Machine) error {
	if err := RemoveTap(m.Tap); err != nil {
		return err
	}
	if err := n.deleteInterface(ctx, m); err != nil {
		return err
	}
	if err := removeNamespace(m.namespaceName()); err != nil {
		return err
	}
	if err := os.Remove(n.path(m.Name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// deleteInterface has the plugins remove what they have made. A namespace that was never made has nothing.
func (n *Node) deleteInterface(ctx context.Context, m *Machine) error {
	if _, err := os.Stat(namespacePath(m.namespaceName())); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	list, err := libcni.LoadConfList(m.ConfDir, m.Network)
	if err != nil {
		return fmt.Errorf("read the network's configuration, which is needed to detach %s: %w", m.Name, err)
	}
	if err := n.runtime(m).DelNetworkList(ctx, list, m.attachment()); err != nil {
		return fmt.Errorf("detach the interface of %s from network %s: %w", m.Name, m.Network, err)
	}
	return nil
}

// List returns the machines that are connected, by name.
func (n *Node) List() ([]*Machine, error) {
	paths, err := filepath.Glob(filepath.Join(n.StateDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*Machine
	for _, path := range paths {
		name := filepath.Base(path)
		m, err := n.readFile(name[:len(name)-len(".json")])
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just been detached
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (n *Node) runtime(m *Machine) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(m.PluginDirs, filepath.Join(n.StateDir, "cni"), nil)
}

func (m *Machine) attachment() *libcni.RuntimeConf {
	conf := &libcni.RuntimeConf{ContainerID: m.containerID(), NetNS: namespacePath(m.namespaceName()), IfName: interfaceName}
	if m.Address != "" {
		conf.CapabilityArgs = map[string]any{"mac": m.Address}
		conf.Args = [][2]string{{"IgnoreUnknown", "1"}, {"MAC", m.Address}}
	}
	return conf
}

// lock keeps others of this machine away.
func (n *Node) lock() (unlock func(), err error) {
	if err := os.MkdirAll(n.StateDir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(n.StateDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func (n *Node) write(m *Machine) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	// A reader sees the one or the other.
	next := n.path(m.Name) + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, n.path(m.Name))
}

func (n *Node) readFile(name string) (*Machine, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("virtual machine %q: %w", name, os.ErrNotExist)
	}
	text, err := os.ReadFile(n.path(name))
	if err != nil {
		return nil, err
	}
	m := &Machine{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", n.path(name), err)
	}
	return m, nil
}
