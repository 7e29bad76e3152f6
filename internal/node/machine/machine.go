// SPDX-License-Identifier: Apache-2.0

// Package machine inspects how virtual machines use the interfaces of pods, and reports faults. It reads from the interfaces' ends on
// the node what tsn-cni created, and then checks the machine's side. It changes nothing.
package machine

import (
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Machine is a virtual machine at an interface of a pod.
type Machine struct {
	Identity  string `json:"identity"`
	Interface string `json:"interface"`
	// Device is the kind: tap, vhost-user, veth or vfio.
	Device string `json:"device"`
	// Queues is the number of queue pairs; 0 and an empty Class if they are unknown.
	Queues int    `json:"queues,omitempty"`
	Class  string `json:"class,omitempty"`
	// DAN is the folder of Kata's files of directly attachable networks.
	DAN string `json:"dan,omitempty"`
	// Connection describes how the machine has the interface now.
	Connection string `json:"connection"`
	// Faults keep the machine from using the interface.
	Faults []Fault `json:"faults,omitempty"`
}

// Fault is a fault and what to do about it.
type Fault struct {
	Text string `json:"text"`
	Mend string `json:"mend"`
}

func (m *Machine) lacks(mend, text string, arguments ...any) {
	m.Faults = append(m.Faults, Fault{fmt.Sprintf(text, arguments...), mend})
}

// List returns the machines at the interfaces of endpoints and those with a card. Interfaces that cannot be read count as without a machine.
func List(endpoints []control.AttachedEndpoint) []Machine {
	type at struct{ identity, name string }
	ports := map[at]overlay.Found{}
	attachments, _ := overlay.Attachments()
	for _, port := range attachments {
		ports[at{port.Identity, port.Interface}] = port
	}
	all := []Machine{}
	for _, endpoint := range endpoints {
		port := ports[at{endpoint.Identity, endpoint.Interface}]
		if machine := inspect(&endpoint, &port); machine != nil {
			all = append(all, *machine)
		}
	}
	return append(all, withCards(passthrough.NewBus())...)
}

// inspect returns the machine at an interface, nil if there is none.
func inspect(endpoint *control.AttachedEndpoint, port *overlay.Found) *Machine {
	note := attachment.ReadNote(port)
	attached := note.Device
	machine := &Machine{
		Identity: endpoint.Identity, Interface: endpoint.Interface, Device: attached.Kind, Queues: attached.Queues, Class: attached.Class, DAN: attached.DAN,
	}
	if !attached.Exists() {
		machine.Device = deviceInPod(endpoint)
		machine.Connection = machine.Device
		if machine.Device == "" {
			return nil
		}
		return machine
	}
	switch {
	case attached.DAN != "":
		machine.inspectFile(port.ContainerID, endpoint.Netns)
	case attached.Is(device.Veth):
		machine.inspectInterface(port.PortName(), endpoint.Netns)
	case attached.Is(device.VhostUser):
		machine.Connection = "vhost-user"
		machine.inspectSocket(note.VhostSocket)
	default:
		machine.Connection = "tap"
		machine.inspectTap(endpoint.Netns)
	}
	return machine
}

// deviceInPod returns the kind of the device found in the pod, for a port without a note.
func deviceInPod(endpoint *control.AttachedEndpoint) (kind string) {
	_ = ns.WithNetNSPath(endpoint.Netns, func(ns.NetNS) (err error) { // unreadable counts as none
		kind, err = vm.DeviceAt(endpoint.Interface)
		return err
	})
	return kind
}
