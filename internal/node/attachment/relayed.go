// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// RelayedAttachment is an interface whose frames go through a relay.
type RelayedAttachment struct {
	overlay.Attachment
	// Mode says which frames; of an interface of vhost-user, whose frames all do, it says whether they may have a record.
	Mode capture.Mode
	// Netns is the path of the pod's network namespace.
	Netns string
	// Port is the node's end of the pod's interface.
	Port string
	// Socket is the path of the pod's application socket; "" when the plugin was not told.
	Socket        string
	ControlSocket string
	// Namespace is the pod's Kubernetes namespace; "" without Kubernetes.
	Namespace string
	// Device is how a virtual machine in the pod is connected.
	Device device.Device
}

// VhostSocket is where a virtual machine of vhost-user is served.
func (a *RelayedAttachment) VhostSocket() string {
	return vhostSocket(a.Socket, a.Interface)
}

// Relayed lists the attachments of the node whose frames go through a relay, also those whose pod has just gone.
func Relayed(stateDir string) ([]RelayedAttachment, error) {
	made, err := recordStore{stateDir}.withPorts()
	if err != nil {
		return nil, err
	}
	var all []RelayedAttachment
	for _, r := range made {
		if !isDiverted(r.Capture, r.Device) && !r.Device.Is(device.VhostUser) {
			continue
		}
		all = append(all, RelayedAttachment{
			Attachment: r.Attachment, Mode: r.Capture, Netns: r.Netns, Port: r.PortName(), Socket: r.AppSocket, ControlSocket: r.ControlSocket,
			Namespace: PodNamespace(r.Args), Device: r.Device,
		})
	}
	return all, nil
}
