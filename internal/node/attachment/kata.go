// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// attachToKata writes the file by which Kata's runtime attaches the pod's interfaces to its machine. The file must list
// all interfaces, because with it Kata does not look into the network namespace. Interfaces of other plugins get a tap.
// Other networks of the pod must be attached before this one.
func (a *adding) attachToKata() error {
	if a.Device.DAN == "" {
		return nil
	}
	a.undo = append(a.undo, func() error { return a.detachFromKata(a.store) })
	devices := &kata.Devices{Netns: a.netns.Path()}
	err := a.netns.Do(func(ns.NetNS) (err error) {
		devices.Devices, err = a.kataDevices()
		return err
	})
	if err == nil {
		err = a.addCards(devices)
	}
	if err == nil {
		err = devices.Write(a.Device.DAN, a.ContainerID)
	}
	if err != nil {
		return fmt.Errorf("attach the pod's interfaces to its machine of Kata: %w", err)
	}
	fault.Point("kata-told")
	return nil
}

// addCards adds the machine's cards: that of this attachment, and those in the existing file. They do not show in the
// network namespace.
func (a *adding) addCards(devices *kata.Devices) error {
	before, err := kata.Read(a.Device.DAN, a.ContainerID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		for _, machine := range before.Devices {
			if machine.Back.Type == kata.VFIO && machine.Name != a.Interface {
				devices.Devices = append(devices.Devices, machine)
			}
		}
	}
	if a.card != nil {
		devices.Devices = append(devices.Devices, *a.card)
	}
	return nil
}

// kataDevices lists the pod's interfaces and makes taps for those without one. It runs inside the pod's network
// namespace.
func (a *adding) kataDevices() (devices []kata.Device, err error) {
	links, err := netdev.Dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the pod's interfaces: %w", err)
	}
	for _, link := range links {
		attributes := link.Attrs()
		if attributes.Flags&net.FlagLoopback != 0 || attributes.Flags&net.FlagUp == 0 || link.Type() == "tuntap" {
			continue
		}
		machine := kata.Device{Name: attributes.Name, Address: attributes.HardwareAddr.String()}
		if machine.Network, err = kata.ReadInterface(link); err != nil {
			return nil, err
		}
		if machine.Back, err = a.kataBack(link); err != nil {
			return nil, err
		}
		devices = append(devices, machine)
	}
	return devices, nil
}

// kataBack returns the device of the host for an interface of the machine.
func (a *adding) kataBack(link netlink.Link) (kata.Back, error) {
	name := link.Attrs().Name
	machine, err := a.attachedAs(name)
	if err != nil {
		return kata.Back{}, err
	}
	if machine.Is(device.VhostUser) {
		return kata.Back{Type: kata.VhostUser, Path: vhostSocket(a.AppSocket, name), Queues: machine.Queues}, nil
	}
	tapName, err := device.TapName(name)
	if err != nil {
		return kata.Back{}, err
	}
	tap, err := vm.FindTap(tapName)
	if err != nil {
		return kata.Back{}, err
	}
	if tap == nil {
		if err := joinOther(&vm.Tap{Name: tapName, MTU: link.Attrs().MTU, Queues: 1, Owner: -1}, name); err != nil {
			return kata.Back{}, err
		}
	}
	return kata.Back{Type: kata.HostTap, TapName: tapName, Queues: max(machine.Queues, 1)}, nil
}

// joinOther makes a tap for an interface of another plugin. The caller undoes it.
func joinOther(tap *vm.Tap, interfaceName string) error {
	if err := tap.Make(); err != nil {
		return err
	}
	fault.Point("kata-tap-made")
	if err := tap.JoinInterface(interfaceName); err != nil {
		return err
	}
	fault.Point("kata-tap-joined")
	return nil
}

// attachedAs returns the device of a pod's interface; none for an interface of another plugin.
func (a *adding) attachedAs(name string) (device.Device, error) {
	records, err := a.store.ofContainer(a.ContainerID)
	if err != nil {
		return device.Device{}, err
	}
	for _, r := range records {
		if r.Interface == name {
			return r.Device, nil
		}
	}
	return device.Device{}, nil
}

// detachFromKata undoes attachToKata. The file, and with it the taps of other plugins' interfaces, stays as long as
// another interface of the pod is in it.
func (r *Record) detachFromKata(store recordStore) error {
	if r.Device.DAN == "" {
		return nil
	}
	records, err := store.ofContainer(r.ContainerID)
	if err != nil {
		return err
	}
	attached := map[string]bool{r.Interface: true}
	for _, other := range records {
		if other.Interface != r.Interface && other.Device.DAN == r.Device.DAN {
			return kata.RemoveDevice(r.Device.DAN, r.ContainerID, r.Interface)
		}
		attached[other.Interface] = attached[other.Interface] || other.Device.Exists()
	}
	if err := kata.Remove(r.Device.DAN, r.ContainerID); err != nil {
		return err
	}
	fault.Point("kata-untold")
	if err := r.leaveOthers(attached); err != nil {
		return fmt.Errorf("take the taps of Kata's machine from the pod: %w", err)
	}
	return nil
}

// leaveOthers removes the taps from interfaces of other plugins. Taps disappear with the pod.
func (r *Record) leaveOthers(attached map[string]bool) error {
	return r.inPod(func() error {
		links, err := netdev.Dump(netlink.LinkList)
		if err != nil {
			return fmt.Errorf("list the pod's interfaces: %w", err)
		}
		var all error
		for _, link := range links {
			name := link.Attrs().Name
			tapName, errName := device.TapName(name)
			if attached[name] || errName != nil {
				continue
			}
			all = errors.Join(all, vm.LeaveInterface(tapName, name))
			fault.Point("kata-tap-left")
		}
		return all
	})
}

// checkKata reports a missing file of Kata's.
func (r *Record) checkKata() error {
	if r.Device.DAN == "" {
		return nil
	}
	path := kata.Path(r.Device.DAN, r.ContainerID)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is gone, by which Kata's runtime attaches the pod's interfaces; recreate the pod", path)
	}
	return nil
}
