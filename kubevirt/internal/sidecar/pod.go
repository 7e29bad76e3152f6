// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// link is an interface of the pod.
type link struct {
	address string
	mtu     int
}

// pod is the pod with the devices that tsn-cni created: the pod of this program, except in tests.
type pod interface {
	// link returns false if the pod has no interface of that name.
	link(name string) (link, bool)
}

// ownPod is the pod of this process.
type ownPod struct{}

func (ownPod) link(name string) (link, bool) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return link{}, false // the only possible error in the process's own namespace
	}
	return link{iface.HardwareAddr.String(), iface.MTU}, true
}

// socketFolder is the mount point of the pod's volume in each container.
const socketFolder = "/run/ktsn"

// recordBytes is the size of the record before a frame with a transmit time. The MTU of tsn-cni's tap includes it, that
// of a vhost-user relay does not.
const recordBytes = 24

// attachment is the device that tsn-cni created for the machine.
type attachment struct {
	tap, socket, address string
	mtu                  int
}

// attachmentOf returns the attachment of an interface.
func attachmentOf(in pod, name string, as device.Device) (*attachment, error) {
	link, there := in.link(name)
	if !there {
		return nil, fmt.Errorf("the pod has no interface %s; attach it to a network of KuberneTSN, by its annotation kubernetsn.io/network", name)
	}
	object := &attachment{address: link.address, mtu: link.mtu}
	if as.Is(device.VhostUser) {
		object.socket = filepath.Join(socketFolder, device.SocketName(name))
		object.mtu -= recordBytes
		return object, nil
	}
	tap, err := device.TapName(name)
	if err != nil {
		return nil, err
	}
	if _, there := in.link(tap); !there {
		return nil, fmt.Errorf("the pod's interface %s has no tap %s; have tsn-cni make it, by the annotation kubernetsn.io/device: tap", name, tap)
	}
	object.tap = tap
	return object, nil
}
