// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// deviceField reads a field of the configuration that says how a virtual machine in the pod is connected.
func deviceField(name string) func(*Config, json.RawMessage) error {
	return func(c *Config, raw json.RawMessage) error {
		value, err := deviceValue(name, raw)
		if err == nil {
			c.askForDevice(map[string]string{name: value})
		}
		return err
	}
}

// deviceValue reads a text or a number, whichever belongs to the name.
func deviceValue(name string, raw json.RawMessage) (string, error) {
	if name == device.KindName || name == device.ClassName || name == device.DANName {
		var text string
		err := decode(raw, &text, "a text")
		return text, err
	}
	var number int64
	err := decode(raw, &number, "a number")
	return strconv.FormatInt(number, 10), err
}

// askForDevice adds what is asked for, in the place of what was asked for before.
func (c *Config) askForDevice(asked map[string]string) {
	if c.deviceAsked == nil {
		c.deviceAsked = map[string]string{}
	}
	maps.Copy(c.deviceAsked, asked)
}

// readDeviceOfPod reads args.cni.
func (c *Config) readDeviceOfPod(text []byte) error {
	var asked struct {
		Args struct {
			CNI map[string]json.RawMessage `json:"cni"`
		} `json:"args"`
	}
	if json.Unmarshal(text, &asked) != nil {
		return nil // what is wrong with args has been said
	}
	c.deviceOfPod = map[string]string{}
	for _, name := range device.Names {
		raw, given := asked.Args.CNI[name]
		if !given {
			continue
		}
		var err error
		if c.deviceOfPod[name], err = deviceValue(name, raw); err != nil {
			return invalid("args.cni.%s: %v", name, err)
		}
	}
	return nil
}

// chooseDevice reads what is asked for: args.cni goes before CNI_ARGS, and that before the network's.
func (r *request) chooseDevice(known *arguments) (err error) {
	for name, value := range map[string]string{
		device.KindName: string(known.DEVICE), device.QueuesName: string(known.DEVICE_QUEUES),
		device.ClassName: string(known.DEVICE_CLASS), device.OwnerName: string(known.DEVICE_OWNER), device.DANName: string(known.DEVICE_DAN),
	} {
		if value != "" {
			r.askForDevice(map[string]string{name: value})
		}
	}
	r.askForDevice(r.deviceOfPod)
	if r.Device, err = device.Parse(r.deviceAsked); err != nil {
		return invalid("%v", err)
	}
	if r.Device.Exists() {
		r.Receive.Redirect = false // to the pod's kernel, which has nothing to do with them
	}
	return nil
}

// checkDevice finds what only matters when something is to be made.
func (r *request) checkDevice() error {
	switch {
	case !r.Device.Exists():
		return nil
	case r.ringsAsked:
		return invalid("args.cni.receive: receive rings are for sockets of the pod's programs, and the interface is a virtual machine's (%s); leave one of them out",
			device.KindName)
	case r.Device.Is(device.VhostUser):
		return r.checkVhostUser()
	case r.Device.Is(device.VFIO):
		return r.checkVFIO()
	}
	if _, err := device.TapName(r.Interface); err != nil && r.Device.Is(device.Tap) {
		return environment("CNI_IFNAME: %v", err)
	}
	if r.Device.Class != device.ClassRecord && r.Capture != capture.All {
		return invalid(`%s: the class of a frame is by %s only where all frames go through ktsnd; have the network capture "All", `+
			`or leave the field out`, device.ClassName, r.Device.Class)
	}
	return nil
}

func (r *request) checkVhostUser() error {
	switch {
	case r.ControlSocket == "":
		return invalid("%s: with %s all frames go through ktsnd, and there is none (controlSocket is empty); give %s, or a node with ktsnd",
			device.KindName, device.VhostUser, device.Tap)
	case r.SocketDir == "":
		return invalid("socketDir: missing; the socket of %s stands in the pod's folder there", device.VhostUser)
	}
	if path := vhostSocket(r.socketPath(), r.Interface); len(path) > maxSocketPath {
		return invalid("socketDir: %s has %d characters, a socket's path at most %d; choose a shorter folder", path, len(path), maxSocketPath)
	}
	return nil
}

// classBy is what says the class of a frame without a record at the node's end.
func classBy(of device.Device) capture.ClassBy {
	if of.Is(device.VhostUser) {
		return capture.ClassByRecord // its relay knows
	}
	by, err := capture.ParseClassBy(of.Class)
	if err != nil {
		return capture.ClassByRecord // none that was accepted
	}
	return by
}

// tapOf is the tap of an attachment with one, in its pod, whose interface has that MTU.
func tapOf(attachment *overlay.Attachment, of device.Device, mtu int) (*vm.Tap, error) {
	name, err := device.TapName(attachment.Interface)
	if err != nil {
		return nil, err
	}
	owner := of.Owner
	if owner == 0 {
		owner = -1 // root may anyway
	}
	return &vm.Tap{Name: name, MTU: min(mtu+vm.FrontBytes, maxMTU-ethernetBytes), Queues: of.Queues, Owner: owner, Group: of.Owner}, nil
}

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
	a.undo = append(a.undo, a.record().removeDevice)
	if a.Device.Is(device.VhostUser) {
		return errors.Join(vm.SegmentAtPort(a.PortName()), vm.LeavePortToRelay(a.PortName()))
	}
	return nil
}

// makeDevice runs inside the pod's network namespace.
func (r *request) makeDevice(mtu int) error {
	if r.Device.Is(device.VhostUser) {
		return vm.LeaveToRelay(r.Interface)
	}
	tap, err := tapOf(&r.Attachment, r.Device, mtu)
	if err != nil {
		return err
	}
	if err := tap.Make(); err != nil {
		return err
	}
	if err := tap.JoinPod(r.Interface); err != nil {
		return errors.Join(err, vm.RemoveTap(tap.Name))
	}
	return nil
}

// removeDevice removes what does not end with the interface. A pod that is gone has taken its tap along.
func (r *record) removeDevice() error {
	if r.Device.Is(device.VhostUser) && r.AppSocket != "" {
		return removeVhostSocket(vhostSocket(r.AppSocket, r.Interface))
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

// vhostSocket is where a virtual machine is served: beside the socket of the pod's applications.
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
func (r *record) checkDevice(mtu int) error {
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
func foundDevice(netns string, attachment *overlay.Attachment, by capture.ClassBy) (found device.Device, err error) {
	name, err := device.TapName(attachment.Interface)
	if err != nil {
		return found, nil //nolint:nilerr // then it has none
	}
	err = ns.WithNetNSPath(netns, func(ns.NetNS) error {
		tap, err := vm.FindTap(name)
		if tap != nil {
			found = device.Device{Kind: device.Tap, Queues: tap.Queues, Class: by.String(), Owner: max(tap.Owner, 0)}
		}
		return err
	})
	if err != nil {
		return found, fmt.Errorf("look for %s in the pod: %w", name, err)
	}
	return found, nil
}
