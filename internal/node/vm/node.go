// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Default folders.
const (
	DefaultStateDir  = "/run/ktsn/vm"
	DefaultConfDir   = "/etc/cni/net.d"
	DefaultPluginDir = "/opt/cni/bin"
)

// FrontBytes is the number of bytes by which a frame with a record and a tag can exceed the MTU of the machine's interface.
const FrontBytes = 28

// Node connects virtual machines in the network namespace of the calling thread.
type Node struct {
	// StateDir has a file for each machine.
	StateDir string
}

func (n *Node) path(name string) string { return filepath.Join(n.StateDir, name+".json") }

// clockSocket returns the path of the socket, which is in its own folder for each machine.
func (n *Node) clockSocket(m *Machine) string {
	return filepath.Join(n.StateDir, "sockets", m.Name, "clock.sock")
}

// List returns the connected machines, sorted by name.
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
	conf := &libcni.RuntimeConf{
		ContainerID: m.containerID(), NetNS: namespacePath(m.namespaceName()), IfName: interfaceName,
		Args: append([][2]string{{"IgnoreUnknown", "1"}}, m.deviceArguments()...),
	}
	if m.Address != "" {
		conf.CapabilityArgs = map[string]any{"mac": m.Address}
		conf.Args = append(conf.Args, [2]string{"MAC", m.Address})
	}
	return conf
}

// deviceArguments returns the arguments that describe the device to tsn-cni. A tap is created on the node by Attach; for tsn-cni the
// interface is a veth that another program uses.
func (m *Machine) deviceArguments() [][2]string {
	kind := m.Device
	if kind == device.Tap {
		kind = device.Veth
	}
	return [][2]string{
		{"DEVICE", kind}, {"DEVICE_CLASS", m.Class}, {"DEVICE_QUEUES", strconv.Itoa(m.Queues)}, {"DEVICE_OWNER", strconv.Itoa(max(m.Owner, 0))},
	}
}

// leftOver returns the attachment without its network namespace, which is gone.
func (m *Machine) leftOver() *libcni.RuntimeConf {
	conf := m.attachment()
	conf.NetNS = ""
	return conf
}

// lock serialises processes that attach or detach machines.
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
	// Readers see the old or the new file.
	next := n.path(m.Name) + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, n.path(m.Name))
}

func (n *Node) forget(name string) error {
	if err := os.Remove(n.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
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
