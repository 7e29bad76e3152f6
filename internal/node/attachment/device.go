// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// classBy returns how the relay determines the class of a frame without a record at the node's end.
func classBy(machine device.Device) capture.ClassBy {
	if machine.Is(device.VhostUser) {
		return capture.ClassByRecord // its relay knows the class
	}
	by, err := capture.ParseClassBy(machine.Class)
	if err != nil {
		return capture.ClassByRecord // configurations with another value are rejected
	}
	return by
}

// tapOf returns the tap in the pod for an interface with that MTU.
func tapOf(attachment *overlay.Attachment, machine device.Device, mtu int) (*vm.Tap, error) {
	name, err := device.TapName(attachment.Interface)
	if err != nil {
		return nil, err
	}
	owner := machine.Owner
	if owner == 0 {
		owner = -1 // root may anyway
	}
	return &vm.Tap{Name: name, MTU: min(mtu+vm.FrontBytes, maxMTUBytes-ethernetBytes), Queues: machine.Queues, Owner: owner, Group: machine.Owner}, nil
}

// maxMTUBytes is the largest MTU of a device.
const maxMTUBytes = 65535

// ethernetBytes is the length of an Ethernet header, which counts for the MTU of a tap.
const ethernetBytes = 14

// connectMachine makes the device of the pod's virtual machine before frames can arrive at the pod's interface.
func (a *adding) connectMachine(mtu int) error {
	if !a.Device.Exists() || a.Device.Is(device.Veth) {
		return nil
	}
	if err := a.netns.Do(func(ns.NetNS) error { return a.makeDevice(mtu) }); err != nil {
		return fmt.Errorf("connect the pod's virtual machine: %w", err)
	}
	a.undo = append(a.undo, a.removeDevice)
	if a.Device.Is(device.VhostUser) {
		return errors.Join(vm.SegmentAtPort(a.PortName()), vm.LeavePortToRelay(a.PortName()))
	}
	return nil
}

// makeDevice runs inside the pod's network namespace.
func (s *Spec) makeDevice(mtu int) error {
	if s.Device.Is(device.VhostUser) {
		return vm.LeaveToRelay(s.Interface)
	}
	tap, err := tapOf(&s.Attachment, s.Device, mtu)
	if err != nil {
		return err
	}
	if err := tap.Make(); err != nil {
		return err
	}
	if err := tap.JoinPod(s.Interface); err != nil {
		return errors.Join(err, vm.RemoveTap(tap.Name))
	}
	return nil
}

// removeDevice removes what stays after the interface is gone. A tap disappears with the pod.
func (r *Record) removeDevice() error {
	if r.Device.Is(device.VhostUser) && r.AppSocket != "" {
		return removeVhostSocket(r.VhostSocket())
	}
	if !r.Device.Is(device.Tap) {
		return nil
	}
	name, err := device.TapName(r.Interface)
	if err != nil {
		return nil //nolint:nilerr // ADD rejects such a name
	}
	return r.inPod(func() error { return vm.RemoveTap(name) })
}

// VhostSocket returns the path of the socket at which the pod's virtual machine is served.
func (r *Record) VhostSocket() string { return vhostSocket(r.AppSocket, r.Interface) }

// vhostSocket returns the path of a socket next to the socket of the pod's applications.
func vhostSocket(appSocket, interfaceName string) string {
	return filepath.Join(filepath.Dir(appSocket), device.SocketName(interfaceName))
}

// removeVhostSocket removes files of a relay that ends soon, so that the pod's folder can be removed now.
func removeVhostSocket(path string) error {
	err := os.RemoveAll(device.SocketFolder(path))
	if errSocket := os.Remove(path); !errors.Is(errSocket, fs.ErrNotExist) {
		err = errors.Join(err, errSocket)
	}
	if err != nil {
		return fmt.Errorf("remove the socket of vhost-user: %w", err)
	}
	return nil
}

// checkDevice reports differences from what Add made. It runs inside the pod's network namespace.
func (r *Record) checkDevice(mtu int) error {
	switch {
	case r.Device.Is(device.VhostUser):
		return vm.CheckLeft(r.Interface)
	case !r.Device.Is(device.Tap):
		return nil
	}
	tap, err := tapOf(&r.Attachment, r.Device, mtu)
	if err != nil {
		return err
	}
	return tap.CheckPod(r.Interface)
}

// foundDevice returns the device of an attachment without a record and without a complete note: its tap, or none. The
// kernel does not show other devices, nor Kata's folder.
func foundDevice(netns string, attachment *overlay.Attachment, by capture.ClassBy) (machine device.Device, err error) {
	name, err := device.TapName(attachment.Interface)
	if err != nil {
		return machine, nil //nolint:nilerr // there can be no tap
	}
	err = ns.WithNetNSPath(netns, func(ns.NetNS) error {
		tap, err := vm.FindTap(name)
		if tap != nil {
			machine = device.Device{Kind: device.Tap, Queues: tap.Queues, Class: by.String(), Owner: max(tap.Owner, 0)}
		}
		return err
	})
	if err != nil {
		return machine, fmt.Errorf("look for %s in the pod: %w", name, err)
	}
	return machine, nil
}
