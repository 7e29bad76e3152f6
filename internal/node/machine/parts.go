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
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

const (
	anew = "make the pod anew"
	// tapsOpener is who opens a tap.
	tapsOpener = "the pod's machine does not run, or its QEMU has not been told of the tap: the Events of the pod and the log of the container runtime say why"
	// unseen is what to do where ktsn itself cannot look.
	unseen = "look again, unless the pod ends just now; `ktsn status -o wide` as root on the node sees all that there is"
	relays = "see that ktsn-agent, or `ktsn node relay`, runs on the node, and its log"
)

// lookAtTap looks for that of the interface.
func (m *Machine) lookAtTap(netns string) {
	name, err := device.TapName(m.Interface)
	if err != nil {
		return // then it has none
	}
	m.inPod(netns, func() error { return m.tapIsOpen(name) })
}

func (m *Machine) inPod(netns string, look func() error) {
	if err := ns.WithNetNSPath(netns, func(ns.NetNS) error { return look() }); err != nil {
		m.lacks(unseen, "the pod's network namespace could not be looked at: %v", err)
	}
}

// tapIsOpen looks whether a tap of this network namespace is there and somebody has it open.
func (m *Machine) tapIsOpen(name string) error {
	link, err := netlink.LinkByName(name)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		m.lacks(anew, "the pod has no tap %s", name)
	case err != nil:
		return err
	case link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0:
		m.lacks(tapsOpener, "nobody has the tap %s open", name)
	}
	return nil
}

// lookAtSocket looks for that of vhost-user.
func (m *Machine) lookAtSocket(path string) {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		m.lacks(relays, "there is no socket %s of vhost-user", path)
	case err != nil:
		m.lacks(unseen, "the socket of vhost-user could not be looked at: %v", err)
	}
}

// lookAtInterface looks for what has taken the interface itself: a tap at its end on the node, as of `ktsn vm attach`, or Kata in the
// pod.
func (m *Machine) lookAtInterface(port, netns string) {
	if joined, err := vm.IsJoined(port); err == nil && joined {
		m.Connection = "a tap of the node"
		return
	}
	m.lookAtRedirection(netns)
}

// lookAtRedirection looks for what Kata makes of the interface.
func (m *Machine) lookAtRedirection(netns string) {
	m.Connection = "the interface itself, which nothing has taken"
	m.inPod(netns, func() error {
		link, err := netlink.LinkByName(m.Interface)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			m.lacks(anew, "the pod has no interface %s", m.Interface)
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
			m.lacks("Kata takes it when it starts the machine: see that the runtime of the pod is Kata, that its internetworking_model is tcfilter, and what the "+
				"log of the container runtime says", "nothing has taken %s for a machine: it is neither redirected to a tap nor has a macvtap", m.Interface)
			return nil
		}
		m.Connection = "the interface itself, which Kata has taken by " + tap.Attrs().Name
		if tap.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
			m.lacks(tapsOpener, "nobody has %s open, which has taken %s", tap.Attrs().Name, m.Interface)
		}
		return nil
	})
}

// takenBy is the tap to which what comes in at an interface is redirected (internetworking_model tcfilter), or the macvtap on it
// (macvtap); nil: there is none.
func takenBy(link netlink.Link) (netlink.Link, error) {
	filters, err := netlink.FilterList(link, netlink.MakeHandle(0xffff, 0))
	if err != nil {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	targets := redirections(filters)
	for _, one := range links {
		attributes := one.Attrs()
		if slices.Contains(targets, attributes.Index) || (one.Type() == "macvtap" && attributes.ParentIndex == link.Attrs().Index) {
			return one, nil
		}
	}
	return nil, nil
}

// redirections are the interfaces to which filters redirect.
func redirections(filters []netlink.Filter) (targets []int) {
	for _, filter := range filters {
		var actions []netlink.Action
		switch one := filter.(type) {
		case *netlink.U32:
			actions = one.Actions
		case *netlink.MatchAll:
			actions = one.Actions
		}
		for _, action := range actions {
			if mirred, ok := action.(*netlink.MirredAction); ok {
				targets = append(targets, mirred.Ifindex)
			}
		}
	}
	return targets
}

// lookAtFile looks for the file that Kata reads, and for what is behind each of its devices.
func (m *Machine) lookAtFile(sandbox, netns string) {
	path := kata.Path(m.DAN, sandbox)
	m.Connection = m.Device + ", which Kata finds in " + path
	devices, err := kata.Read(m.DAN, sandbox)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.lacks(anew+"; where ktsn runs in a container, "+m.DAN+" must be mounted there (kata.handlers of the chart)", "there is no file %s", path)
		return
	case err != nil:
		m.lacks(anew, "%v", err)
		return
	}
	if !slices.ContainsFunc(devices.Devices, func(one kata.Device) bool { return one.Name == m.Interface }) {
		m.lacks(anew, "%s is not in %s, so that the machine does not have it", m.Interface, path)
	}
	for _, one := range devices.Devices {
		switch one.Back.Type {
		case kata.HostTap:
			m.inPod(netns, func() error { return m.tapIsOpen(one.Back.TapName) })
		case kata.VhostUser:
			m.lookAtSocket(one.Back.Path)
		}
	}
}
