// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"maps"
	"net/netip"
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
	// Netns is the path of the container's network namespace, "" if unknown.
	Netns string
	// Gone: the path does not exist any more.
	Gone bool
	// Present: the interface exists.
	Present bool
	// Ended: the container has ended, even if its pod has not: the interface went with the network namespace, or another container of
	// the pod has an interface of the name since then.
	Ended bool
}

// List returns all attachments of the node.
func List(stateDir string, node *overlay.Node) ([]Attached, error) {
	store := recordStore{stateDir}
	records, err := store.all()
	if err != nil {
		return nil, err
	}
	ports, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	var all []Attached
	known, indexes := map[string]bool{}, indexesOf(ports)
	replaced := store.replacedRecords(records, indexes)
	for _, r := range records {
		gone, present := isGone(r.Netns), indexes[r.PortName()] > 0
		ended := replaced[r] || r.hasPort() && gone && !present
		if !r.hasPort() {
			present = !gone
		}
		all = append(all, Attached{Attachment: r.Attachment, VNI: r.VNI, Netns: r.Netns, Gone: gone, Present: present, Ended: ended})
		known[r.PortName()] = true
	}
	for _, port := range ports {
		if !known[port.PortName()] {
			netns := netnsPath(port.NetnsID)
			all = append(all, Attached{Attachment: port.Attachment, VNI: port.VNI, Netns: netns, Gone: netns == "", Present: true})
		}
	}
	return all, nil
}

// indexesOf returns the indexes of ports by their names.
func indexesOf(ports []overlay.Found) map[string]int {
	indexes := map[string]int{}
	for i := range ports {
		indexes[ports[i].PortName()] = ports[i].Index
	}
	return indexes
}

// replacedRecords returns the records of containers that another container of the same pod has replaced. A pod gets another sandbox when
// its first one ends, and a runtime that has forgotten the first one never deletes it; its network namespace may stay.
func (s recordStore) replacedRecords(records []*Record, indexes map[string]int) map[*Record]bool {
	type key struct{ identity, interfaceName string }
	youngest, replaced := map[key]*Record{}, map[*Record]bool{}
	for _, r := range records {
		at := key{r.Identity, r.Interface}
		other := youngest[at]
		switch {
		case isGone(r.Netns):
		case other == nil:
			youngest[at] = r
		case s.younger(r, other, indexes):
			youngest[at] = r
			replaced[other] = true
		default:
			replaced[r] = s.younger(other, r, indexes)
		}
	}
	for _, r := range records {
		other := youngest[key{r.Identity, r.Interface}]
		replaced[r] = replaced[r] || other != nil && other.ContainerID != r.ContainerID && isGone(r.Netns)
	}
	return replaced
}

// younger reports whether an attachment of another container was made after this one. Ports decide if both have one: a record may have been lost and rebuilt.
func (s recordStore) younger(r, than *Record, indexes map[string]int) bool {
	if r.ContainerID == than.ContainerID {
		return false
	}
	if first, second := indexes[than.PortName()], indexes[r.PortName()]; first > 0 && second > 0 {
		return second > first
	}
	return s.since(&r.Attachment).After(s.since(&than.Attachment))
}

// PodAddresses returns the IPv4 address of a pod by VNI.
func PodAddresses(stateDir string) (map[uint32]netip.Addr, error) {
	records, err := recordStore{stateDir}.all()
	if err != nil {
		return nil, err
	}
	addresses := map[uint32]netip.Addr{}
	for _, r := range records {
		if r.Sources == nil {
			continue
		}
		for _, prefix := range r.Sources.Addresses {
			if prefix.Addr().Is4() {
				addresses[r.VNI] = prefix.Addr()
			}
		}
	}
	return addresses, nil
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
