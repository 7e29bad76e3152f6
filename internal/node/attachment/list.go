// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"maps"
	"os"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Attached is an attachment of the node that has a record or a port.
type Attached struct {
	overlay.Attachment
	VNI uint32
	// Gone: the container's network namespace does not exist any more.
	Gone bool
}

// List returns all attachments of the node.
func List(stateDir string, node *overlay.Node) ([]Attached, error) {
	records, err := recordStore{stateDir}.all()
	if err != nil {
		return nil, err
	}
	ports, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	var all []Attached
	known := map[string]bool{}
	for _, r := range records {
		all = append(all, Attached{r.Attachment, r.VNI, isGone(r.Netns)})
		known[r.PortName()] = true
	}
	for _, port := range ports {
		if !known[port.PortName()] {
			all = append(all, Attached{port.Attachment, port.VNI, netnsPath(port.NetnsID) == ""})
		}
	}
	return all, nil
}

// OfLinks reports whether it is a link, or the sandbox of a pod with links. DetachLinks detaches these.
func (a *Attached) OfLinks() bool { return a.Network == SandboxNetwork || a.Network == LinkNetwork }

// Changes detects that attachments have come or gone, without reading their records.
type Changes struct {
	StateDir string
	// modified has the modification time of each folder of records; nil until all have settled.
	modified map[string]time.Time
}

// Any reports whether there may be changes since the last call. The first time, and shortly after a change, it returns
// true.
func (c *Changes) Any() bool {
	readAt := time.Now()
	times := c.modificationTimes()
	if c.modified != nil && maps.Equal(times, c.modified) {
		return false
	}
	c.modified = times
	for _, modified := range times {
		if !Settled(modified, readAt) {
			c.modified = nil
		}
	}
	return true
}

// modificationTimes returns the times of the folders that can be read.
func (c *Changes) modificationTimes() map[string]time.Time {
	times := map[string]time.Time{}
	store := recordStore{c.StateDir}
	networks, _ := store.networks()
	for _, network := range networks {
		if folder, err := os.Stat(store.folder(network)); err == nil {
			times[network] = folder.ModTime()
		}
	}
	return times
}

// RelayedAttachment is an interface whose frames go through a relay.
type RelayedAttachment struct {
	overlay.Attachment
	// Mode is which frames do; all of vhost-user do, and Mode is whether they may have a record.
	Mode capture.Mode
	// Netns is the path of the pod's network namespace.
	Netns string
	// Socket is the path of the pod's application socket, "" if unknown.
	Socket        string
	ControlSocket string
	// Namespace is the pod's Kubernetes namespace; "" without Kubernetes.
	Namespace string
	// Device is how a virtual machine in the pod is connected.
	Device device.Device
}

// VhostSocket returns the path of the socket at which a virtual machine is served.
func (a *RelayedAttachment) VhostSocket() string {
	return vhostSocket(a.Socket, a.Interface)
}

// Relayed lists the node's attachments whose frames go through a relay, including those whose pod has just gone.
func Relayed(stateDir string) ([]RelayedAttachment, error) {
	records, err := recordStore{stateDir}.withPorts()
	if err != nil {
		return nil, err
	}
	var all []RelayedAttachment
	for _, r := range records {
		if !isDiverted(r.Capture, r.Device) && !r.Device.Is(device.VhostUser) {
			continue
		}
		all = append(all, RelayedAttachment{
			Attachment: r.Attachment, Mode: r.Capture, Netns: r.Netns, Socket: r.AppSocket, ControlSocket: r.ControlSocket,
			Namespace: PodNamespace(r.Args), Device: r.Device,
		})
	}
	return all, nil
}
