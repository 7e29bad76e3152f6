// SPDX-License-Identifier: Apache-2.0

// Command domains writes virtual machine instances, and the libvirt domains that KubeVirt's converter creates from
// them. The tests of the sidecar read them (kubevirt/testdata).
package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/pointer"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
)

const architecture = "amd64"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "domains:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("give the folder to write to")
	}
	for name, change := range map[string]func(*v1.VirtualMachineInstance){
		"annotation": func(*v1.VirtualMachineInstance) {},
		"binding":    bind,
		"hugepages": func(vmi *v1.VirtualMachineInstance) {
			bind(vmi)
			vmi.Spec.Domain.Memory.Hugepages = &v1.Hugepages{PageSize: "2Mi"}
		},
		"single": func(vmi *v1.VirtualMachineInstance) {
			bind(vmi)
			vmi.Spec.Domain.CPU.Cores = 1
		},
		"alone": func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Networks, vmi.Spec.Domain.Devices.Interfaces = nil, nil
			bind(vmi)
		},
		"target": func(vmi *v1.VirtualMachineInstance) {
			bind(vmi)
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{
				StartTimestamp: &metav1.Time{}, SourcePod: "virt-launcher-target-fghij", TargetPod: "virt-launcher-target-abcde",
			}
		},
	} {
		vmi := machine(name)
		change(vmi)
		if err := write(filepath.Join(arguments[0], name), vmi); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// machine returns an instance that is on the pod's network, and boots a kernel of an image.
func machine(name string) *v1.VirtualMachineInstance {
	vmi := v1.NewVMIReferenceFromNameWithNS("plant", name)
	vmi.UID = "f4686d2c-6e8d-4335-b8fd-81bee22f4814"
	vmi.Annotations = map[string]string{"kubernetsn.io/network": "line", "kubernetsn.io/device": "tap"}
	vmi.Spec.Architecture = architecture
	domain := &vmi.Spec.Domain
	domain.CPU = &v1.CPU{Cores: 2, Sockets: 1, Threads: 1, Model: "host-model", MaxSockets: 4}
	domain.Machine = &v1.Machine{Type: "q35"}
	domain.Memory = &v1.Memory{Guest: pointer.P(resource.MustParse("256Mi"))}
	domain.Firmware = &v1.Firmware{
		UUID: "e4686d2c-6e8d-4335-b8fd-81bee22f4814",
		KernelBoot: &v1.KernelBoot{
			KernelArgs: "console=ttyS0 quiet panic=-1 nokaslr",
			Container: &v1.KernelBootContainer{
				Image: "registry.example.org/kernel", KernelPath: "/boot/vmlinuz", InitrdPath: "/boot/initial.cpio",
			},
		},
	}
	domain.Devices.AutoattachGraphicsDevice, domain.Devices.AutoattachMemBalloon = pointer.P(false), pointer.P(false)
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
	return vmi
}

// bind adds an interface that the plugin connects.
func bind(vmi *v1.VirtualMachineInstance) {
	source := v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "line"}}
	vmi.Spec.Networks = append(vmi.Spec.Networks, v1.Network{Name: "blue", NetworkSource: source})
	devices := &vmi.Spec.Domain.Devices
	devices.Interfaces = append(devices.Interfaces, v1.Interface{Name: "blue", Binding: &v1.PluginBinding{Name: "kubernetsn"}})
}

// write writes what virt-launcher passes to its hooks.
func write(path string, vmi *v1.VirtualMachineInstance) error {
	v1.SetObjectDefaults_VirtualMachineInstance(vmi)
	domain := &api.Domain{}
	err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(vmi, domain, &converter.ConverterContext{
		Architecture: arch.NewConverter(architecture), VirtualMachine: vmi, AllowEmulation: true, CPUSet: []int{0, 1},
		DomainAttachmentByInterfaceName: map[string]string{"default": string(v1.Tap)},
	})
	if err != nil {
		return err
	}
	api.NewDefaulter(architecture).SetObjectDefaults_Domain(domain)
	text, err := xml.MarshalIndent(domain.Spec, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".xml", append(text, '\n'), 0o644); err != nil {
		return err
	}
	text, err = json.Marshal(vmi)
	if err != nil {
		return err
	}
	return os.WriteFile(path+".json", append(text, '\n'), 0o644)
}
