// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"net"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// result says what was made, behind what the plugins before this one in a chain made.
func (r *request) result(ipam *current.Result, plugged *overlay.Plugged, address net.HardwareAddr) *current.Result {
	all := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	if r.Previous != nil {
		all.Interfaces = append(all.Interfaces, r.Previous.Interfaces...)
		all.IPs = append(all.IPs, r.Previous.IPs...)
		all.Routes = append(all.Routes, r.Previous.Routes...)
		all.DNS = r.Previous.DNS
	}
	pod := &current.Interface{
		Name:    r.Interface,
		Mac:     address.String(),
		Mtu:     plugged.MTU,
		Sandbox: r.netns,
	}
	if r.ControlSocket != "" {
		pod.SocketPath = r.socketPath()
	}
	if r.Device.Is(device.VhostUser) {
		pod.SocketPath = vhostSocket(r.socketPath(), r.Interface)
	}
	all.Interfaces = append(all.Interfaces,
		&current.Interface{Name: plugged.Bridge, Mac: plugged.BridgeAddr.String()},
		&current.Interface{Name: plugged.Port, Mac: plugged.PortAddr.String(), Mtu: overlay.PortMTU(plugged.MTU, frontBytes(r.Capture))})
	all.Interfaces = append(all.Interfaces, r.deviceInterfaces(plugged.MTU)...)
	all.Interfaces = append(all.Interfaces, pod)
	for _, ip := range ipam.IPs {
		ip.Interface = current.Int(len(all.Interfaces) - 1)
		all.IPs = append(all.IPs, ip)
	}
	all.Routes = append(all.Routes, ipam.Routes...)
	switch {
	case !r.Standard.DNS.IsEmpty():
		all.DNS = r.Standard.DNS
	case !ipam.DNS.IsEmpty():
		all.DNS = ipam.DNS
	}
	return all
}

// deviceInterfaces are what there is in the pod beside its interface.
func (r *request) deviceInterfaces(mtu int) []*current.Interface {
	if !r.Device.Is(device.Tap) {
		return nil
	}
	tap, err := tapOf(&r.Attachment, r.Device, mtu)
	if err != nil {
		return nil // none that was made
	}
	return []*current.Interface{{Name: tap.Name, Mtu: tap.MTU, Sandbox: r.netns}}
}

// print writes a result in the version of the configuration.
func (r *request) print(result *current.Result) error {
	leaveOutLater(result, r.Standard.CNIVersion)
	return types.PrintResult(result, r.Standard.CNIVersion)
}

// leaveOutLater takes out of a result what an older version of the specification does not know.
func leaveOutLater(result *current.Result, of string) {
	if later, err := version.GreaterThanOrEqualTo(of, "1.1.0"); err == nil && !later {
		for _, made := range result.Interfaces {
			made.Mtu, made.SocketPath, made.PciID = 0, "", "" // came with 1.1
		}
	}
}
