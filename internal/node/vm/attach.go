// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// attaching is the state of an Attach.
type attaching struct {
	*Machine
	node *Node
	list *libcni.NetworkConfigList
	undo []func() error
}

// Attach connects a machine. When a step fails, it undoes the steps before.
func (n *Node) Attach(ctx context.Context, m *Machine) error {
	if err := m.Check(); err != nil {
		return err
	}
	unlock, err := n.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(n.path(m.Name)); err == nil {
		return fmt.Errorf("a virtual machine %s is connected already; detach it first", m.Name)
	}
	list, err := m.network()
	if err != nil {
		return err
	}
	m.Clock = n.clockSocket(m)
	if m.Device == device.Tap {
		m.Tap = m.tapName()
	}
	a := &attaching{Machine: m, node: n, list: list}
	if err := a.run(ctx); err != nil {
		for _, undo := range slices.Backward(a.undo) {
			err = errors.Join(err, undo())
		}
		return err
	}
	return nil
}

// network reads the network's configuration. It fails if a plugin is missing, because its work could not be undone.
func (m *Machine) network() (*libcni.NetworkConfigList, error) {
	list, err := libcni.LoadConfList(m.ConfDir, m.Network)
	if err != nil {
		return nil, fmt.Errorf("read the network's configuration: %w", err)
	}
	for _, plugin := range list.Plugins {
		if _, err := invoke.FindInPath(plugin.Network.Type, m.PluginDirs); err != nil {
			return nil, fmt.Errorf("network %s needs the plugin %s: %w", m.Network, plugin.Network.Type, err)
		}
	}
	return list, nil
}

func (a *attaching) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{a.note, a.makeSocketFolder, a.makeNamespace, a.attachInterface, a.makeTap} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return a.node.write(a.Machine)
}

// note writes the machine's file first, so that Detach can remove the rest after a kill.
func (a *attaching) note(context.Context) error {
	a.undo = append(a.undo, func() error { return a.node.forget(a.Name) })
	return a.node.write(a.Machine)
}

// makeSocketFolder creates a folder in which QEMU, run by the owner, can create its socket.
func (a *attaching) makeSocketFolder(context.Context) error {
	folder := filepath.Dir(a.Clock)
	a.undo = append(a.undo, func() error { return os.RemoveAll(folder) })
	err := os.MkdirAll(filepath.Dir(folder), 0o755)
	if err == nil {
		err = os.Mkdir(folder, 0o750)
	}
	if err == nil && a.Owner >= 0 {
		err = os.Chown(folder, a.Owner, -1)
	}
	if err != nil {
		return fmt.Errorf("create a folder for the socket of the machine's clock: %w", err)
	}
	return nil
}

func (a *attaching) makeNamespace(ctx context.Context) error {
	if err := makeNamespace(a.namespaceName()); err != nil {
		return err
	}
	a.undo = append(a.undo, func() error { return removeNamespace(a.namespaceName()) })
	// A machine of that name may have been connected when the node was turned off, and plugins have kept its addresses. Their errors
	// do not matter.
	_ = a.node.runtime(a.Machine).DelNetworkList(ctx, a.list, a.leftOver())
	return nil
}

func (a *attaching) attachInterface(ctx context.Context) error {
	a.undo = append(a.undo, func() error { return a.node.deleteInterface(context.WithoutCancel(ctx), a.Machine) })
	result, err := a.node.runtime(a.Machine).AddNetworkList(ctx, a.list, a.attachment())
	if err != nil {
		return fmt.Errorf("attach an interface for %s to network %s: %w", a.Name, a.Network, err)
	}
	if err := a.read(result); err != nil {
		return err
	}
	if a.Device == device.VhostUser {
		a.Socket, err = a.vhostSocket()
	}
	return err
}

// vhostSocket returns the path where the relay listens, which CNI results before version 1.1 do not contain.
func (a *attaching) vhostSocket() (string, error) {
	for _, plugin := range a.list.Plugins {
		var config struct {
			SocketDir string `json:"socketDir"`
		}
		if json.Unmarshal(plugin.Bytes, &config) == nil && config.SocketDir != "" {
			return filepath.Join(config.SocketDir, a.containerID(), device.SocketName(interfaceName)), nil
		}
	}
	return "", fmt.Errorf("no plugin of network %s has a socketDir, in which the socket of %s would be", a.Network, device.VhostUser)
}

// groupOf returns the primary group of a user, or the user's number if the node does not know the user.
func groupOf(owner int) int {
	known, err := user.LookupId(strconv.Itoa(owner))
	if err != nil {
		return owner
	}
	group, err := strconv.Atoi(known.Gid)
	if err != nil {
		return owner
	}
	return group
}

// makeTap creates the machine's tap on the node. With vhost-user there is none: the relay creates its socket.
func (a *attaching) makeTap(context.Context) error {
	if a.Device != device.Tap {
		return nil
	}
	tap := &Tap{Name: a.Tap, MTU: a.MTU + FrontBytes, Queues: a.Queues, Owner: a.Owner, Group: groupOf(a.Owner)}
	if err := tap.Make(); err != nil {
		return err
	}
	a.undo = append(a.undo, func() error { return RemoveTap(a.Tap) })
	return join(a.Tap, a.Port)
}

// read reads the interface from the plugins' result.
func (m *Machine) read(from types.Result) error {
	result, err := current.NewResultFromResult(from)
	if err != nil {
		return fmt.Errorf("read the plugins' result: %w", err)
	}
	for _, iface := range result.Interfaces {
		if iface.Sandbox == "" && iface.Name != "" && m.Port == "" && isVeth(iface.Name) {
			m.Port = iface.Name
		}
		if iface.Sandbox != "" {
			m.Address, m.MTU = iface.Mac, iface.Mtu
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
		return fmt.Errorf("the plugins of network %s have created no interface with an end on the node", m.Network)
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
