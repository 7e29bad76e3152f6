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

// classBy is what says the class of a frame without a record at the node's end.
func classBy(machine device.Device) capture.ClassBy {
	if machine.Is(device.VhostUser) {
		return capture.ClassByRecord // its relay knows
	}
	by, err := capture.ParseClassBy(machine.Class)
	if err != nil {
		return capture.ClassByRecord // none that was accepted
	}
	return by
}

// tapOf is the tap of an attachment with one, in its pod, whose interface has that MTU.
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

// ethernetBytes are those of a header, which the kernel counts for a tap.
const ethernetBytes = 14

// connectMachine makes the device of the pod's virtual machine, before anything can come in at the pod's interface.
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

// removeDevice removes what does not end with the interface. A pod that is gone has taken its tap along.
func (r *Record) removeDevice() error {
	if r.Device.Is(device.VhostUser) && r.AppSocket != "" {
		return removeVhostSocket(r.VhostSocket())
	}
	if !r.Device.Is(device.Tap) || r.Netns == "" || isGone(r.Netns) {
		return nil
	}
	name, err := device.TapName(r.Interface)
	if err != nil {
		return nil //nolint:nilerr // ADD has refused it
	}
	err = ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return vm.RemoveTap(name) })
	if errors.As(err, &ns.NSPathNotExistErr{}) {
		return nil
	}
	return err
}

// VhostSocket returns the path of the socket at which the pod's virtual machine is served.
func (r *Record) VhostSocket() string { return vhostSocket(r.AppSocket, r.Interface) }

// vhostSocket is the path of a socket next to the socket of the pod's applications.
func vhostSocket(appSocket, interfaceName string) string {
	return filepath.Join(filepath.Dir(appSocket), device.SocketName(interfaceName))
}

// removeVhostSocket removes what the relay would remove that ends soon, so that the pod's folder is empty before.
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

// checkDevice names what is not as ADD made it. It runs inside the pod's network namespace.
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

// foundDevice returns the device of an attachment without a record and without a note that fitted: its tap, or none. Other devices, and a folder of Kata,
// do not show in the kernel.
func foundDevice(netns string, attachment *overlay.Attachment, by capture.ClassBy) (machine device.Device, err error) {
	name, err := device.TapName(attachment.Interface)
	if err != nil {
		return machine, nil //nolint:nilerr // then it has none
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
