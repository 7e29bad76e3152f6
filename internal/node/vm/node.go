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

// clockSocket is alone in its folder, which is the machine's.
func (n *Node) clockSocket(m *Machine) string {
	return filepath.Join(n.StateDir, "sockets", m.Name, "clock.sock")
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

// deviceArguments tell tsn-cni how the machine is connected. The tap is the node's, and Attach's: for tsn-cni somebody else takes the
// interface.
func (m *Machine) deviceArguments() [][2]string {
	kind := m.Device
	if kind == device.Tap {
		kind = device.Veth
	}
	return [][2]string{
		{"DEVICE", kind}, {"DEVICE_CLASS", m.Class}, {"DEVICE_QUEUES", strconv.Itoa(m.Queues)}, {"DEVICE_OWNER", strconv.Itoa(max(m.Owner, 0))},
	}
}

// leftOver is an attachment whose network namespace is gone.
func (m *Machine) leftOver() *libcni.RuntimeConf {
	conf := m.attachment()
	conf.NetNS = ""
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
