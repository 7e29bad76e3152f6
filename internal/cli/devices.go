// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// machineDevice is how a virtual machine has a pod's interface.
type machineDevice struct {
	Identity  string `json:"identity"`
	Interface string `json:"interface"`
	// Device is tap or vhost-user.
	Device string `json:"device"`
}

// devicesOf looks for virtual machines at the interfaces of endpoints. The kernel knows them, ktsnd does not. A network namespace that
// cannot be entered has none.
func devicesOf(endpoints []control.AttachedEndpoint) []machineDevice {
	devices := []machineDevice{}
	for _, endpoint := range endpoints {
		if found := deviceIn(endpoint.Netns, endpoint.Interface); found != "" {
			devices = append(devices, machineDevice{endpoint.Identity, endpoint.Interface, found})
		}
	}
	return devices
}

// deviceIn is the device at an interface in a network namespace, empty if there is none.
func deviceIn(netns, interfaceName string) (found string) {
	_ = ns.WithNetNSPath(netns, func(ns.NetNS) (err error) { // what cannot be looked at has none
		found, err = vm.DeviceAt(interfaceName)
		return err
	})
	return found
}
