// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// attachToKata writes the file by which Kata's runtime attaches the pod's interfaces to its machine: all that there are, because with
// the file it does not look into the network namespace. Those of other plugins get a tap. Other networks of the pod must be attached
// before this one.
func (a *adding) attachToKata() error {
	if a.Device.DAN == "" {
		return nil
	}
	made := a.record()
	a.undo = append(a.undo, made.detachFromKata)
	devices := &kata.Devices{Netns: a.netns.Path()}
	err := a.netns.Do(func(ns.NetNS) (err error) {
		devices.Devices, err = a.kataDevices()
		return err
	})
	if err == nil {
		err = devices.Write(a.Device.DAN, a.ContainerID)
	}
	if err != nil {
		return fmt.Errorf("attach the pod's interfaces to its machine of Kata: %w", err)
	}
	return nil
}

// kataDevices lists the pod's interfaces, and makes taps for those that have none. It runs inside the pod's network namespace.
func (a *adding) kataDevices() (devices []kata.Device, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the pod's interfaces: %w", err)
	}
	for _, link := range links {
		attributes := link.Attrs()
		if attributes.Flags&net.FlagLoopback != 0 || attributes.Flags&net.FlagUp == 0 || link.Type() == "tuntap" {
			continue
		}
		one := kata.Device{Name: attributes.Name, Address: attributes.HardwareAddr.String()}
		if one.Network, err = kata.ReadInterface(link); err != nil {
			return nil, err
		}
		if one.Back, err = a.kataBack(link); err != nil {
			return nil, err
		}
		devices = append(devices, one)
	}
	return devices, nil
}

// kataBack is what is behind an interface of the machine.
func (a *adding) kataBack(link netlink.Link) (kata.Back, error) {
	name := link.Attrs().Name
	own, err := a.attachedAs(name)
	if err != nil {
		return kata.Back{}, err
	}
	if own.Is(device.VhostUser) {
		return kata.Back{Type: kata.VhostUser, Path: vhostSocket(a.socketPath(), name), Queues: own.Queues}, nil
	}
	tapName, err := device.TapName(name)
	if err != nil {
		return kata.Back{}, err
	}
	there, err := vm.FindTap(tapName)
	if err != nil {
		return kata.Back{}, err
	}
	if there == nil {
		there = &vm.Tap{Name: tapName, MTU: link.Attrs().MTU, Queues: 1, Owner: -1}
		if err := there.Make(); err != nil {
			return kata.Back{}, err
		}
		if err := there.JoinInterface(name); err != nil {
			return kata.Back{}, errors.Join(err, vm.RemoveTap(tapName))
		}
	}
	return kata.Back{Type: kata.HostTap, TapName: tapName, Queues: max(own.Queues, 1)}, nil
}

// attachedAs is the device of an interface of the pod that this plugin made; none of one that others did.
func (a *adding) attachedAs(name string) (device.Device, error) {
	all, err := a.records.all()
	if err != nil {
		return device.Device{}, err
	}
	for _, one := range all {
		if one.ContainerID == a.ContainerID && one.Interface == name {
			return one.Device, nil
		}
	}
	return device.Device{}, nil
}

// detachFromKata removes the file. Taps end with the pod's network namespace; those of other plugins' interfaces are removed with it.
func (r *record) detachFromKata() error {
	if r.Device.DAN == "" {
		return nil
	}
	return kata.Remove(r.Device.DAN, r.ContainerID)
}

// checkKata names what Kata's runtime would not find.
func (r *record) checkKata() error {
	if r.Device.DAN == "" {
		return nil
	}
	path := kata.Path(r.Device.DAN, r.ContainerID)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is gone, by which Kata's runtime attaches the pod's interfaces; make the pod anew", path)
	}
	return nil
}
