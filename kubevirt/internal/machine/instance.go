// SPDX-License-Identifier: Apache-2.0

package machine

// instance has the used fields of a VirtualMachineInstance (kubevirt.io/v1).
type instance struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Domain struct {
			Devices struct {
				Interfaces            []specInterface `json:"interfaces"`
				UseVirtioTransitional bool            `json:"useVirtioTransitional"`
			} `json:"devices"`
		} `json:"domain"`
		Networks []network `json:"networks"`
	} `json:"spec"`
	Status struct {
		Interfaces     []statusInterface `json:"interfaces"`
		MigrationState *struct {
			Completed bool `json:"completed"`
			Failed    bool `json:"failed"`
		} `json:"migrationState"`
	} `json:"status"`
}

type specInterface struct {
	Name       string `json:"name"`
	Model      string `json:"model"`
	MacAddress string `json:"macAddress"`
	PCIAddress string `json:"pciAddress"`
	ACPIIndex  int    `json:"acpiIndex"`
	BootOrder  *uint  `json:"bootOrder"`
	State      string `json:"state"`
	Binding    *struct {
		Name string `json:"name"`
	} `json:"binding"`
}

type network struct {
	Name   string `json:"name"`
	Multus *struct {
		Default bool `json:"default"`
	} `json:"multus"`
}

type statusInterface struct {
	Name             string `json:"name"`
	PodInterfaceName string `json:"podInterfaceName"`
}
