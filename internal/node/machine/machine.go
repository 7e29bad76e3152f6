// SPDX-License-Identifier: Apache-2.0

// Package machine says how virtual machines have the interfaces of pods, and what of that is missing: what tsn-cni has made it reads
// from the interfaces' ends on the node, and then it looks for what the machine's side makes of it. It changes nothing.
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

// Machine is one at an interface of a pod.
type Machine struct {
	Identity  string `json:"identity"`
	Interface string `json:"interface"`
	// Device is the kind: tap, vhost-user, veth or vfio.
	Device string `json:"device"`
	// Queues are pairs; 0 and an empty Class where nobody knows.
	Queues int    `json:"queues,omitempty"`
	Class  string `json:"class,omitempty"`
	// DAN is the folder in which Kata finds its devices.
	DAN string `json:"dan,omitempty"`
	// Connection says in words how the machine has the interface now.
	Connection string `json:"connection"`
	// Faults are what keeps it from having it.
	Faults []Fault `json:"faults,omitempty"`
}

// Fault is what is missing, and what to do about it.
type Fault struct {
	Text string `json:"text"`
	Mend string `json:"mend"`
}

func (m *Machine) lacks(mend, text string, arguments ...any) {
	m.Faults = append(m.Faults, Fault{fmt.Sprintf(text, arguments...), mend})
}

// Look looks for machines at the interfaces of endpoints, and for those that have a card in the place of one. What cannot be looked at has none.
func Look(endpoints []control.AttachedEndpoint) []Machine {
	type at struct{ identity, name string }
	ports := map[at]overlay.Found{}
	founds, _ := overlay.Attachments()
	for _, port := range founds {
		ports[at{port.Identity, port.Interface}] = port
	}
	all := []Machine{}
	for _, endpoint := range endpoints {
		port := ports[at{endpoint.Identity, endpoint.Interface}]
		if machine := lookAt(&endpoint, &port); machine != nil {
			all = append(all, *machine)
		}
	}
	return append(all, withCards(passthrough.NewBus())...)
}

// lookAt returns nil where no machine has the interface.
func lookAt(endpoint *control.AttachedEndpoint, port *overlay.Found) *Machine {
	noted := attachment.ReadNote(port)
	of := noted.Device
	machine := &Machine{
		Identity: endpoint.Identity, Interface: endpoint.Interface, Device: of.Kind, Queues: of.Queues, Class: of.Class, DAN: of.DAN,
	}
	if !of.Exists() {
		machine.Device = kernels(endpoint)
		machine.Connection = machine.Device
		if machine.Device == "" {
			return nil
		}
		return machine
	}
	switch {
	case of.DAN != "":
		machine.lookAtFile(port.ContainerID, endpoint.Netns)
	case of.Is(device.Veth):
		machine.lookAtInterface(port.PortName(), endpoint.Netns)
	case of.Is(device.VhostUser):
		machine.Connection = "vhost-user"
		machine.lookAtSocket(noted.VhostSocket)
	default:
		machine.Connection = "tap"
		machine.lookAtTap(endpoint.Netns)
	}
	return machine
}

// kernels is the device that the kernel shows in the pod, of whose port there is no note.
func kernels(endpoint *control.AttachedEndpoint) (kind string) {
	_ = ns.WithNetNSPath(endpoint.Netns, func(ns.NetNS) (err error) { // what cannot be looked at has none
		kind, err = vm.DeviceAt(endpoint.Interface)
		return err
	})
	return kind
}
