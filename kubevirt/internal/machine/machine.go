// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Machine is a virtual machine instance.
type Machine struct {
	// Device is how its interfaces on networks are connected.
	Device device.Device
	// Interfaces are those of its specification that our binding connects.
	Interfaces []Interface
	// Annotated are the interfaces that its pod may have for the networks that its annotation names.
	Annotated []Interface
	// Arriving tells that it runs on another node and is to go on here.
	Arriving bool
	// Model is what libvirt calls its network devices.
	Model string
}

// Interface is one on a network of KuberneTSN.
type Interface struct {
	// Name is that of the specification, Pod that of the interface in the pod.
	Name, Pod string
	// Address and PCIAddress are those that the specification asks for; "": any.
	Address, PCIAddress string
	// ACPIIndex and BootOrder are none where they are 0.
	ACPIIndex int
	BootOrder uint
	// Down tells that its link is down.
	Down bool
}

// Annotations of the pod are those of the machine; they say on which networks it is, and how.
const (
	annotations       = "kubernetsn.io/"
	networkAnnotation = annotations + "network"
)

// States of an interface that is not there, and of one whose link is down.
const (
	stateAbsent = "absent"
	stateDown   = "down"
)

// virtio is the only model of a device that a network connects.
const virtio = "virtio"

// Read reads a VirtualMachineInstance. The name of the binding is that under which KubeVirt knows us.
func Read(text []byte, binding string) (*Machine, error) {
	var vmi instance
	if err := json.Unmarshal(text, &vmi); err != nil {
		return nil, fmt.Errorf("read the virtual machine instance: %w", err)
	}
	machine := &Machine{Model: modelOf(vmi.Spec.Domain.Devices.UseVirtioTransitional)}
	// It is defined while it migrates only where it goes to.
	machine.Arriving = vmi.Status.MigrationState != nil && !vmi.Status.MigrationState.Completed && !vmi.Status.MigrationState.Failed
	var err error
	if machine.Device, err = deviceOf(vmi.Metadata.Annotations); err != nil {
		return nil, err
	}
	machine.Annotated = annotated(vmi.Metadata.Annotations[networkAnnotation])
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		iface := &vmi.Spec.Domain.Devices.Interfaces[i]
		if iface.Binding == nil || iface.Binding.Name != binding || iface.State == stateAbsent {
			continue
		}
		if iface.Model != "" && iface.Model != virtio {
			return nil, fmt.Errorf("interface %s of the virtual machine has the model %q, and a network of KuberneTSN connects virtio only; leave the model out",
				iface.Name, iface.Model)
		}
		machine.Interfaces = append(machine.Interfaces, vmi.interfaceOf(iface))
	}
	return machine, nil
}

func (vmi *instance) interfaceOf(iface *specInterface) Interface {
	createdIface := Interface{
		Name: iface.Name, Pod: vmi.podInterface(iface.Name), Address: iface.MacAddress, PCIAddress: iface.PCIAddress, ACPIIndex: iface.ACPIIndex,
		Down: iface.State == stateDown,
	}
	if iface.BootOrder != nil {
		createdIface.BootOrder = *iface.BootOrder
	}
	return createdIface
}

// deviceOf reads the annotations. Without one it is a tap, as the operator has it for pods of KubeVirt.
func deviceOf(owner map[string]string) (device.Device, error) {
	asked := map[string]string{device.KindName: device.Tap}
	for _, name := range device.Names {
		if value, given := owner[annotations+name]; given {
			asked[name] = value
		}
	}
	createdDevice, err := device.Parse(asked)
	if err != nil {
		return createdDevice, fmt.Errorf("annotation %s%w", annotations, err)
	}
	return createdDevice, nil
}

// annotated are the interfaces of the networks that an annotation names: the operator calls them tsn0, tsn1 and so on.
func annotated(value string) (all []Interface) {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	for number := range strings.Count(value, ",") + 1 {
		name := fmt.Sprintf("tsn%d", number)
		all = append(all, Interface{Name: name, Pod: name})
	}
	return all
}

// modelOf is KubeVirt's way to name virtio devices.
func modelOf(transitional bool) string {
	if transitional {
		return virtio + "-transitional"
	}
	return virtio + "-non-transitional"
}
