// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

const (
	recreate = "recreate the pod"
	// tapsOpener is the advice for a tap that is not open.
	tapsOpener = "the pod's machine does not run, or its QEMU was started without the tap: see the Events of the pod and the log of the container runtime"
	// unseen is the advice for state that ktsn cannot read.
	unseen = "repeat the command, unless the pod is ending; `ktsn status -o wide` as root on the node can read everything"
	relays = "check that ktsn-agent, or `ktsn node relay`, runs on the node, and read its log"
)

// inspectTap checks the interface's tap.
func (m *Machine) inspectTap(netns string) {
	name, err := device.TapName(m.Interface)
	if err != nil {
		return // no tap can have such a name
	}
	m.inPod(netns, func() error { return m.checkTapOpen(name) })
}

func (m *Machine) inPod(netns string, look func() error) {
	if err := ns.WithNetNSPath(netns, func(ns.NetNS) error { return look() }); err != nil {
		m.lacks(unseen, "the pod's network namespace cannot be read: %v", err)
	}
}

// checkTapOpen adds a fault if a tap of this network namespace is missing or not open.
func (m *Machine) checkTapOpen(name string) error {
	link, err := netlink.LinkByName(name)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		m.lacks(recreate, "the pod has no tap %s", name)
	case err != nil:
		return err
	case link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0:
		m.lacks(tapsOpener, "no process has the tap %s open", name)
	}
	return nil
}

// inspectSocket checks the vhost-user socket.
func (m *Machine) inspectSocket(path string) {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		m.lacks(relays, "there is no socket %s of vhost-user", path)
	case err != nil:
		m.lacks(unseen, "the socket of vhost-user cannot be read: %v", err)
	}
}

// inspectInterface checks which program uses the interface itself: a tap at its end on the node, as by `ktsn vm attach`, or Kata in
// the pod.
func (m *Machine) inspectInterface(port, netns string) {
	if joined, err := vm.IsJoined(port); err == nil && joined {
		m.Connection = "a tap of the node"
		return
	}
	m.inspectRedirection(netns)
}

// inspectRedirection checks whether Kata has taken the interface.
func (m *Machine) inspectRedirection(netns string) {
	m.Connection = "the interface itself, which nothing has taken"
	m.inPod(netns, func() error {
		link, err := netlink.LinkByName(m.Interface)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			m.lacks(recreate, "the pod has no interface %s", m.Interface)
			return nil
		}
		if err != nil {
			return err
		}
		tap, err := takenBy(link)
		switch {
		case err != nil:
			return err
		case tap == nil:
			m.lacks("Kata takes it when it starts the machine: check that the runtime of the pod is Kata, that its internetworking_model is tcfilter, and the "+
				"log of the container runtime", "nothing has taken %s for a machine: it is neither redirected to a tap nor has a macvtap", m.Interface)
			return nil
		}
		m.Connection = "the interface itself, which Kata has taken by " + tap.Attrs().Name
		if tap.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
			m.lacks(tapsOpener, "no process has %s open, which has taken %s", tap.Attrs().Name, m.Interface)
		}
		return nil
	})
}

// takenBy returns the tap to which incoming frames of an interface are redirected (internetworking_model tcfilter) or the macvtap on
// it (internetworking_model macvtap), nil if there is none.
func takenBy(link netlink.Link) (netlink.Link, error) {
	filters, err := netlink.FilterList(link, netlink.MakeHandle(0xffff, 0))
	if err != nil {
		return nil, err
	}
	links, err := netdev.Dump(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	targets := redirections(filters)
	for _, candidate := range links {
		attributes := candidate.Attrs()
		if slices.Contains(targets, attributes.Index) || (candidate.Type() == "macvtap" && attributes.ParentIndex == link.Attrs().Index) {
			return candidate, nil
		}
	}
	return nil, nil
}

// redirections returns the indexes of the interfaces to which filters redirect.
func redirections(filters []netlink.Filter) (targets []int) {
	for _, filter := range filters {
		var actions []netlink.Action
		switch typed := filter.(type) {
		case *netlink.U32:
			actions = typed.Actions
		case *netlink.MatchAll:
			actions = typed.Actions
		}
		for _, action := range actions {
			if mirred, ok := action.(*netlink.MirredAction); ok {
				targets = append(targets, mirred.Ifindex)
			}
		}
	}
	return targets
}

// inspectFile checks the file that Kata reads and each of its devices.
func (m *Machine) inspectFile(sandbox, netns string) {
	path := kata.Path(m.DAN, sandbox)
	m.Connection = m.Device + ", which Kata finds in " + path
	devices, err := kata.Read(m.DAN, sandbox)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.lacks(recreate+"; where ktsn runs in a container, "+m.DAN+" must be mounted there (kata.handlers of the chart)", "there is no file %s", path)
		return
	case err != nil:
		m.lacks(recreate, "%v", err)
		return
	}
	if !slices.ContainsFunc(devices.Devices, func(entry kata.Device) bool { return entry.Name == m.Interface }) {
		m.lacks(recreate, "%s is not in %s, so that the machine does not have it", m.Interface, path)
	}
	for _, entry := range devices.Devices {
		switch entry.Back.Type {
		case kata.HostTap:
			m.inPod(netns, func() error { return m.checkTapOpen(entry.Back.TapName) })
		case kata.VhostUser:
			m.inspectSocket(entry.Back.Path)
		}
	}
}
