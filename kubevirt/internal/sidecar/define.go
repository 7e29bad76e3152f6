// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/kubevirt/internal/domain"
	"github.com/kubernetsn/kubernetsn/kubevirt/internal/machine"
)

// Definer edits the domains of virtual machines on networks.
type Definer struct {
	// Binding is the name of this plugin in KubeVirt's configuration.
	Binding string
	// Clock is the path at which QEMU creates the socket for the node's time; "" for none.
	Clock string
	pod   pod
}

// Define returns the domain with its network devices. The domain of a machine that is on no network is unchanged.
func (d *Definer) Define(instance, text []byte) ([]byte, error) {
	asked, err := machine.Read(instance, d.Binding)
	if err != nil {
		return nil, err
	}
	chosen, err := d.choose(asked)
	if err != nil || len(chosen) == 0 {
		return text, err
	}
	if asked.Arriving {
		return nil, errors.New("a virtual machine on a network of KuberneTSN cannot be migrated: its queues and the frames that wait for their times " +
			"are the other node's; cancel the migration, and stop the machine and start it anew")
	}
	createdDomain, err := domain.Parse(text)
	if err != nil {
		return nil, err
	}
	queues, err := queuesOf(asked.Device, createdDomain)
	if err != nil {
		return nil, err
	}
	for i := range chosen {
		if err := d.connect(createdDomain, asked, &chosen[i], queues); err != nil {
			return nil, err
		}
	}
	if asked.Device.Is(device.VhostUser) {
		createdDomain.ShareMemory()
	}
	if d.Clock != "" {
		createdDomain.AddChannel(hosttime.PortName, d.Clock)
	}
	return createdDomain.Bytes()
}

// choose returns the machine's interfaces on networks. Annotated interfaces are included unless KubeVirt has attached
// the network by another name.
func (d *Definer) choose(asked *machine.Machine) ([]machine.Interface, error) {
	chosen := asked.Interfaces
	for _, iface := range asked.Annotated {
		_, there := d.pod.link(iface.Pod)
		if there && !slices.ContainsFunc(chosen, func(other machine.Interface) bool { return other.Pod == iface.Pod }) {
			chosen = append(chosen, iface)
		}
	}
	if len(asked.Annotated) > 0 && len(chosen) == 0 {
		return nil, fmt.Errorf("the virtual machine is to be on a network (kubernetsn.io/network), and its pod has no interface %s; see the events of the pod",
			asked.Annotated[0].Pod)
	}
	return chosen, nil
}

// queuesOf returns the number of queue pairs of an interface. Linux activates no more than the machine has processors.
func queuesOf(as device.Device, in *domain.Domain) (int, error) {
	processors, err := in.Processors()
	if err != nil {
		return 0, err
	}
	if as.Queues > 1 && processors < 2 {
		return 0, fmt.Errorf("%d queues (kubernetsn.io/%s) need a virtual machine with at least 2 processors, and it has %d: with one, a queue waits while "+
			"another is served, and classes do not hold; give it more processors or one queue", as.Queues, device.QueuesName, processors)
	}
	return min(as.Queues, processors), nil
}

func (d *Definer) connect(edited *domain.Domain, asked *machine.Machine, iface *machine.Interface, queues int) error {
	attachment, err := attachmentOf(d.pod, iface.Pod, asked.Device)
	if err != nil {
		return fmt.Errorf("interface %s of the virtual machine: %w", iface.Name, err)
	}
	if err := checkAddress(iface, attachment); err != nil {
		return err
	}
	return edited.SetInterface(&domain.Interface{
		Name: iface.Name, Tap: attachment.tap, Socket: attachment.socket, Address: attachment.address, Model: asked.Model, MTU: attachment.mtu, Queues: queues,
		PCIAddress: iface.PCIAddress, ACPIIndex: iface.ACPIIndex, BootOrder: iface.BootOrder, Down: iface.Down,
	})
}

// checkAddress rejects a machine whose frames would not be sent.
func checkAddress(iface *machine.Interface, existing *attachment) error {
	if iface.Address == "" {
		return nil
	}
	if wanted, err := net.ParseMAC(iface.Address); err != nil || wanted.String() != existing.address {
		return fmt.Errorf("interface %s of the virtual machine is to have the hardware address %s, and the pod's interface has %s, the only one whose "+
			"frames are sent; leave macAddress out", iface.Name, iface.Address, existing.address)
	}
	return nil
}
