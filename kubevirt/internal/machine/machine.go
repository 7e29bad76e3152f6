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
	// Interfaces are the interfaces of its specification with our binding.
	Interfaces []Interface
	// Annotated are the interfaces that its pod may have for the networks in its annotation.
	Annotated []Interface
	// Arriving: the machine runs on another node and is migrating to this one.
	Arriving bool
	// Model is libvirt's name of the model of its network devices.
	Model string
}

// Interface is an interface on a network of KuberneTSN.
type Interface struct {
	// Name is the name in the specification, Pod the interface in the pod.
	Name, Pod string
	// Address and PCIAddress are those in the specification; "" for any.
	Address, PCIAddress string
	// ACPIIndex and BootOrder are 0 if they are not set.
	ACPIIndex int
	BootOrder uint
	// Down: the link is down.
	Down bool
}

// The machine's annotations, which KubeVirt copies to the pod, select networks and devices.
const (
	annotations       = "kubernetsn.io/"
	networkAnnotation = annotations + "network"
)

// States of an interface that is absent, and of one whose link is down.
const (
	stateAbsent = "absent"
	stateDown   = "down"
)

// virtio is the only supported device model.
const virtio = "virtio"

// Read reads a VirtualMachineInstance. binding is the name of this plugin in KubeVirt's configuration.
func Read(text []byte, binding string) (*Machine, error) {
	var vmi instance
	if err := json.Unmarshal(text, &vmi); err != nil {
		return nil, fmt.Errorf("read the virtual machine instance: %w", err)
	}
	machine := &Machine{Model: modelOf(vmi.Spec.Domain.Devices.UseVirtioTransitional)}
	// During a migration only the target's domain is defined.
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

// deviceOf reads the annotations. The default is a tap, as the operator sets it for pods of KubeVirt.
func deviceOf(owner map[string]string) (device.Device, error) {
	asked := map[string]string{device.KindName: device.Tap}
	for _, name := range device.Names {
		if value, given := owner[annotations+name]; given {
			asked[name] = value
		}
	}
	result, err := device.Parse(asked)
	if err != nil {
		return result, fmt.Errorf("annotation %s%w", annotations, err)
	}
	return result, nil
}

// annotated returns the interfaces of the networks in an annotation: the operator names them tsn0, tsn1 and so on.
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

// modelOf returns KubeVirt's names of virtio models.
func modelOf(transitional bool) string {
	if transitional {
		return virtio + "-transitional"
	}
	return virtio + "-non-transitional"
}
