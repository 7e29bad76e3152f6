// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Attached is an attachment of the node, by record or kernel.
type Attached struct {
	overlay.Attachment
	VNI uint32
	// Gone tells that the container's network namespace does not exist any more.
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
		_, err := os.Stat(r.Netns)
		all = append(all, Attached{r.Attachment, r.VNI, errors.Is(err, fs.ErrNotExist)})
		known[r.PortName()] = true
	}
	for _, port := range ports {
		if !known[port.PortName()] {
			all = append(all, Attached{port.Attachment, port.VNI, netnsPath(port.NetnsID) == ""})
		}
	}
	return all, nil
}

// OfLinks tells whether it is a link, or the sandbox of a pod with links. DetachLinks detaches these.
func (a *Attached) OfLinks() bool { return a.Network == SandboxNetwork || a.Network == LinkNetwork }

// Changes tells whether attachments have come or gone, without reading their records.
type Changes struct {
	StateDir string
	// modified is when each folder of records was last changed; nil until all have settled.
	modified map[string]time.Time
}

// Any reports whether there may be changes since it was last asked. The first time, and shortly after a change, it is true.
func (c *Changes) Any() bool {
	readAt := time.Now()
	times := c.look()
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

// look reads the times of the folders. One that cannot be read has none.
func (c *Changes) look() map[string]time.Time {
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
			Attachment: r.Attachment, Mode: r.Capture, Netns: r.Netns, Port: r.PortName(), Socket: r.AppSocket, ControlSocket: r.ControlSocket,
			Namespace: PodNamespace(r.Args), Device: r.Device,
		})
	}
	return all, nil
}
