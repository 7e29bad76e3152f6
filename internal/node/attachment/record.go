// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Record describes an attachment. It is written to the state directory before anything of it is made. It need not be
// synced to the disk: what it describes does not survive the kernel either.
type Record struct {
	// Version is the version of the format.
	Version int `json:"version"`
	overlay.Attachment
	Netns  string `json:"netns"`
	VNI    uint32 `json:"vni"`
	Bridge string `json:"bridge"`
	Tunnel string `json:"tunnel"`
	// Overlay is the network on this node as it was when the attachment was made.
	Overlay overlay.Network `json:"overlay,omitzero"`
	// Args is CNI_ARGS, which the IPAM plugin gets again.
	Args          string `json:"args,omitempty"`
	ControlSocket string `json:"controlSocket,omitempty"`
	// Socket is the path of the pod's socket if it was created with the attachment, else "".
	Socket string `json:"socket,omitempty"`
	// AppSocket is the path of the pod's socket, whoever created it; "" if unknown.
	AppSocket string `json:"appSocket,omitempty"`
	// Unseen is the treatment of datagrams that libktsn.so does not see; "" is "drop".
	Unseen string `json:"unseen,omitempty"`
	// KeepsOffNetwork: messages with a transmit time are kept from leaving through other interfaces of the pod, too early. Records of
	// plugins that did not do that lack it.
	KeepsOffNetwork bool `json:"keepsOffNetwork,omitempty"`
	// Sources are the addresses that the pod may send from; nil before it has any.
	Sources *control.Sources `json:"sources,omitempty"`
	// Grants are what the network's pods may do in addition; nil: nothing.
	Grants *control.Grants `json:"grants,omitempty"`
	// Capture is what goes through the pod's relay.
	Capture capture.Mode `json:"capture"`
	// Receive is how datagrams reach the pod, as far as the kernel and ktsnd can.
	Receive Receive `json:"receive,omitzero"`
	// Device is how a virtual machine in the pod is connected.
	Device device.Device `json:"device,omitzero"`
	// Sandbox: there is no interface; ktsn-agent plugs links into the sandbox.
	Sandbox bool `json:"sandbox,omitempty"`
	// Link is the link of the interface, nil for one on a network.
	Link *Link `json:"link,omitempty"`
	// ForwardBefore has the pod's forwarding settings by family before links changed them.
	ForwardBefore map[string]string `json:"forwardBefore,omitempty"`
}

const recordVersion = 1

// hasPort reports whether the attachment has a port on the node's bridge. Attachments with a card and sandboxes for
// links have none.
func (r *Record) hasPort() bool { return !r.Device.Is(device.VFIO) && !r.Sandbox }

// network returns the record's network, as far as removing needs it.
func (r *Record) network() *overlay.Network {
	network := &overlay.Network{VNI: r.VNI, Bridge: r.Bridge, Tunnel: r.Tunnel, PointToPoint: r.Network == LinkNetwork, Encrypted: r.Overlay.Encrypted}
	if !network.PointToPoint {
		network.Name = r.Network
	}
	return network
}

// recordStore is the part of the state directory that remembers attachments:
//
//	attachments/NETWORK/CONTAINER:INTERFACE    a record
//	sockets/IDENTITY/PORT                      an attachment that uses the pod's socket; empty
type recordStore struct{ dir string }

// separator is not allowed in container IDs.
const separator = ":"

func (s recordStore) folder(network string) string {
	return filepath.Join(s.dir, "attachments", network)
}

func (s recordStore) path(attachment *overlay.Attachment) string {
	return filepath.Join(s.folder(attachment.Network), attachment.ContainerID+separator+attachment.Interface)
}

func (s recordStore) write(r *Record) error {
	r.Version = recordVersion
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	path := s.path(&r.Attachment)
	err = overlay.WriteFile(path, text)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make the state directory: %w", err)
		}
		err = overlay.WriteFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}

// read returns nil when there is no record or an invalid one: after a crash of the machine it may be half a file, and
// everything that it described is gone then.
func (s recordStore) read(attachment *overlay.Attachment) *Record {
	text, err := os.ReadFile(s.path(attachment))
	if err != nil {
		return nil
	}
	var r Record
	if json.Unmarshal(text, &r) != nil || r.Version != recordVersion {
		return nil
	}
	return &r
}

// readOr returns the record of an attachment, or the given one when there is none.
func (s recordStore) readOr(otherwise *Record) *Record {
	if r := s.read(&otherwise.Attachment); r != nil {
		return r
	}
	return otherwise
}

// since returns when a record was last written; the zero value for none.
func (s recordStore) since(attachment *overlay.Attachment) time.Time {
	file, err := os.Stat(s.path(attachment))
	if err != nil {
		return time.Time{}
	}
	return file.ModTime()
}

func (s recordStore) remove(attachment *overlay.Attachment) error {
	path := s.path(attachment)
	for _, name := range []string{path, path + overlay.Unfinished} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the record: %w", err)
		}
	}
	_ = os.Remove(s.folder(attachment.Network)) // succeeds after the network's last record
	return nil
}

// list returns the attachments of a network, whether or not their records can be read.
func (s recordStore) list(network string) ([]overlay.Attachment, error) {
	entries, err := os.ReadDir(s.folder(network))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the records: %w", err)
	}
	var all []overlay.Attachment
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), overlay.Unfinished)
		containerID, interfaceName, ok := strings.Cut(name, separator)
		if ok {
			all = append(all, overlay.Attachment{Network: network, ContainerID: containerID, Interface: interfaceName})
		}
	}
	return all, nil
}

// networks lists the names of networks with attachments.
func (s recordStore) networks() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "attachments"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the records: %w", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// useSocket records that an attachment uses its pod's socket. A pod's attachments come and go one after the other, so
// there is no lock.
func (s recordStore) useSocket(attachment *overlay.Attachment) error {
	folder := filepath.Join(s.dir, "sockets", attachment.Identity)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("remember the use of the pod's socket: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, attachment.PortName()), nil, 0o600); err != nil {
		return fmt.Errorf("remember the use of the pod's socket: %w", err)
	}
	return nil
}

// releaseSocket undoes useSocket and reports whether no other attachment of the pod uses the socket.
func (s recordStore) releaseSocket(attachment *overlay.Attachment) (last bool, err error) {
	folder := filepath.Join(s.dir, "sockets", attachment.Identity)
	err = os.Remove(filepath.Join(folder, attachment.PortName()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("forget the use of the pod's socket: %w", err)
	}
	err = os.Remove(folder) // a folder that is not empty stays
	return err == nil || errors.Is(err, fs.ErrNotExist), nil
}

// hasInterface reports whether an attachment of a container has an interface of that name, even if its record is invalid.
func (s recordStore) hasInterface(containerID, name string) (bool, error) {
	networks, err := s.networks()
	return slices.ContainsFunc(networks, func(network string) bool {
		_, errStat := os.Lstat(s.path(&overlay.Attachment{Network: network, ContainerID: containerID, Interface: name}))
		return errStat == nil
	}), err
}

// all reads all valid records.
func (s recordStore) all() ([]*Record, error) {
	return s.those(func(*overlay.Attachment) bool { return true })
}

// those reads the valid records whose network, container and interface are chosen. On a node with many links the others
// need not be read.
func (s recordStore) those(chosen func(*overlay.Attachment) bool) ([]*Record, error) {
	networks, err := s.networks()
	if err != nil {
		return nil, err
	}
	var records []*Record
	for _, network := range networks {
		attachments, err := s.list(network)
		if err != nil {
			return nil, err
		}
		records = append(records, s.readThose(attachments, chosen)...)
	}
	return records, nil
}

// readThose reads the valid records of the chosen attachments.
func (s recordStore) readThose(attachments []overlay.Attachment, chosen func(*overlay.Attachment) bool) (records []*Record) {
	for i := range attachments {
		if !chosen(&attachments[i]) {
			continue
		}
		if r := s.read(&attachments[i]); r != nil {
			records = append(records, r)
		}
	}
	return records
}

// withPorts reads the records of attachments that have ports.
func (s recordStore) withPorts() ([]*Record, error) {
	records, err := s.all()
	return slices.DeleteFunc(records, func(r *Record) bool { return !r.hasPort() }), err
}

// countPorts counts a network's attachments with ports, including those with an invalid record.
func (s recordStore) countPorts(network string) (count int, err error) {
	attachments, err := s.list(network)
	for i := range attachments {
		if r := s.read(&attachments[i]); r == nil || r.hasPort() {
			count++
		}
	}
	return count, err
}

// ofContainer reads the records of a container's attachments.
func (s recordStore) ofContainer(id string) ([]*Record, error) {
	return s.those(func(key *overlay.Attachment) bool { return key.ContainerID == id })
}

// replaced reports whether another container has that interface of the pod now, in an existing network namespace.
func (s recordStore) replaced(old *Record) (bool, error) {
	records, err := s.those(func(other *overlay.Attachment) bool {
		return other.Interface == old.Interface && other.ContainerID != old.ContainerID
	})
	if err != nil {
		return false, err
	}
	for _, other := range records {
		if other.Identity != old.Identity {
			continue
		}
		if _, err := os.Stat(other.Netns); err == nil {
			return true, nil
		}
	}
	return false, nil
}
