// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// netnsDirs are the folders in which runtimes keep the network namespaces of pods.
var netnsDirs = []string{"/run/netns", "/run/docker/netns"}

// Restored counts what Restore restored.
type Restored struct {
	Endpoints, Sockets, Peers int
	// Rebuilt counts lost records that were written again.
	Rebuilt int
	// Gone counts interfaces of containers that have ended, as after a restart of the node. Their records stay until the runtime deletes
	// what it attached, or ktsn-agent does.
	Gone int
	// Faults are the errors of networks and of pods on them, by VNI. Other networks are not affected.
	Faults map[uint32]error
}

// fault adds an error of a network.
func (r *Restored) fault(vni uint32, err error) { r.Faults[vni] = errors.Join(r.Faults[vni], err) }

// Joined returns the errors of all networks as one, sorted by VNI.
func Joined(faults map[uint32]error) (all error) {
	for _, vni := range slices.Sorted(maps.Keys(faults)) {
		all = errors.Join(all, faults[vni])
	}
	return all
}

// Restore adds all attachments and peers of this node to a restarted ktsnd. It first rebuilds lost records from the
// kernel's state. It continues after errors: it returns errors of the node, and the result has errors of single networks.
func Restore(ctx context.Context, stateDir string, node *overlay.Node, client *control.Client, controlSocket string) (Restored, error) {
	done := Restored{Faults: map[uint32]error{}}
	store := recordStore{stateDir}
	rebuilt, all := rebuild(ctx, node, store, client, controlSocket)
	done.Rebuilt = rebuilt
	_, err := node.Guard(ctx)
	all = errors.Join(all, err)
	records, err := store.withPorts()
	all = errors.Join(all, err)
	refused, err := restoreEncryption(ctx, node, client, records)
	if err != nil {
		return done, errors.Join(all, err) // networks that may be encrypted must not be sent in clear
	}
	maps.Copy(done.Faults, refused)
	count, err := restorePeers(ctx, node, client, refused)
	done.Peers, all = count, errors.Join(all, err)
	attached := len(records)
	ports, err := node.Attachments()
	all = errors.Join(all, err)
	replaced := store.replacedRecords(records, indexesOf(ports))
	records = slices.DeleteFunc(records, func(r *Record) bool { return isGone(r.Netns) || replaced[r] })
	done.Gone = attached - len(records)
	records = slices.DeleteFunc(records, func(r *Record) bool { return refused[r.VNI] != nil })
	daemon := &daemon{client}
	for _, r := range records {
		if err := daemon.addEndpoint(ctx, r); err != nil {
			done.fault(r.VNI, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
			continue
		}
		done.Endpoints++
	}
	// Errors are ignored as in Add: `ktsn node receive attach` reports them.
	_, _ = RestoreReceive(ctx, stateDir, node)
	// Sockets come last: applications that find one expect endpoints and peers to be known.
	sockets, err := restoreSockets(ctx, daemon, records)
	done.Sockets = sockets
	return done, errors.Join(all, err)
}

// restorePeers adds the peers of all networks but the refused ones to ktsnd.
func restorePeers(ctx context.Context, node *overlay.Node, client *control.Client, but map[uint32]error) (count int, all error) {
	peers, err := node.Peers()
	all = errors.Join(all, err)
	ofLinks, err := node.LinkPeers()
	all = errors.Join(all, err)
	for _, peer := range slices.Concat(peers, ofLinks) {
		if but[peer.VNI] != nil {
			continue
		}
		if err := client.PeerAdd(ctx, peer); err != nil {
			all = errors.Join(all, fmt.Errorf("peer %s of network %d: %w", peer.Address, peer.VNI, err))
			continue
		}
		count++
	}
	return count, all
}

func restoreSockets(ctx context.Context, daemon *daemon, records []*Record) (int, error) {
	var all error
	paths := map[string]bool{}
	for _, r := range records {
		if r.Socket == "" || paths[r.Socket] {
			continue
		}
		if err := daemon.addSocket(ctx, r.Identity, r.Socket); err != nil {
			all = errors.Join(all, fmt.Errorf("socket of container %s: %w", r.ContainerID, err))
			continue
		}
		paths[r.Socket] = true
	}
	return len(paths), all
}

// netnsPath returns the file of the network namespace with this number, "" if there is none.
func netnsPath(id int) string {
	for _, dir := range netnsDirs {
		entries, _ := os.ReadDir(dir) // it may be missing
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			file, err := os.Open(path)
			if err != nil {
				continue
			}
			number, err := netlink.GetNetNsIdByFd(int(file.Fd()))
			file.Close()
			if err == nil && number == id && id >= 0 {
				return path
			}
		}
	}
	return ""
}

// maxEndpointSources is ktsnd's limit for an endpoint.
const maxEndpointSources = 16

// rebuild writes records for ports without one.
func rebuild(ctx context.Context, node *overlay.Node, store recordStore, client *control.Client, controlSocket string) (int, error) {
	ports, err := node.Attachments()
	if err != nil {
		return 0, err
	}
	var all error
	count := 0
	for i := range ports {
		if store.read(&ports[i].Attachment) != nil {
			continue
		}
		r, err := rebuiltRecord(ctx, &ports[i], client, controlSocket)
		if err == nil {
			err = r.findEncryption(node)
		}
		if err == nil {
			err = store.write(r)
		}
		if err == nil && r.Socket != "" {
			err = store.useSocket(&r.Attachment)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("interface %s of container %s: its record is lost: %w", ports[i].Interface, ports[i].ContainerID, err))
			continue
		}
		count++
	}
	return count, all
}

// rebuiltRecord collects what the kernel and ktsnd still know. Neither knows the pod's socket, unless a virtual machine
// has the interface.
func rebuiltRecord(ctx context.Context, port *overlay.Found, client *control.Client, controlSocket string) (*Record, error) {
	netns := netnsPath(port.NetnsID)
	if netns == "" || port.VNI == 0 {
		return nil, fmt.Errorf("its network namespace is in none of %v; attach it again", netnsDirs)
	}
	// A port without the program counts nothing, in mode None.
	captured, err := capture.ReadPort(port.PortName())
	if err != nil {
		return nil, err
	}
	r := &Record{
		Version: recordVersion, Attachment: port.Attachment, Netns: netns,
		VNI: port.VNI, Bridge: port.Bridge, Tunnel: port.Tunnel, ControlSocket: controlSocket, Capture: captured.Mode,
		Overlay: overlay.Network{Name: port.Network, VNI: port.VNI, Bridge: port.Bridge, Tunnel: port.Tunnel, Port: port.Port},
	}
	r.Receive = wasReceiving(port.PortName())
	switch port.Note {
	case "", overlay.NoteLost:
		r.Device, err = foundDevice(netns, &port.Attachment, captured.ClassBy)
		if err == nil && port.Note != "" && !r.Device.Exists() {
			err = errors.New("a virtual machine has it, and the names of network, container and pod leave no room for its device in the alias; delete the pod so that it is recreated")
		}
	default:
		err = r.takeNote(port.Note)
	}
	if err != nil {
		return nil, err
	}
	err = r.findSources(ctx, client)
	return r, err
}

// findEncryption reads from a link's tunnel whether it is encrypted.
func (r *Record) findEncryption(node *overlay.Node) (err error) {
	if r.Network == LinkNetwork {
		r.Overlay.Encrypted, err = node.IsEncrypted(r.Tunnel)
	}
	return err
}

// findSources gets the addresses that the pod may send from, from ktsnd. If ktsnd was restarted and does not know them,
// they are those of the interface.
func (r *Record) findSources(ctx context.Context, client *control.Client) error {
	endpoints, err := client.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, endpoint := range endpoints {
		if endpoint.Identity == r.Identity && endpoint.Interface == r.Interface && endpoint.Sources != nil {
			r.Sources, r.Grants = endpoint.Sources, endpoint.Grants
			return nil
		}
	}
	return ns.WithNetNSPath(r.Netns, func(ns.NetNS) (err error) {
		r.Sources, err = sourcesOf(r.Interface)
		return err
	})
}

// sourcesOf returns the addresses of an interface.
func sourcesOf(interfaceName string) (*control.Sources, error) {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", interfaceName, err)
	}
	addresses, err := netdev.Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", interfaceName, err)
	}
	sources := &control.Sources{HardwareAddresses: []string{link.Attrs().HardwareAddr.String()}}
	for _, address := range addresses {
		ip, ok := netip.AddrFromSlice(address.IP)
		if ip = ip.Unmap(); ok && !ip.IsLinkLocalUnicast() && len(sources.Addresses) < maxEndpointSources {
			sources.Addresses = append(sources.Addresses, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return sources, nil
}

// note returns what the kernel keeps with the node's end of a virtual machine's interface, because without a record
// nothing else knows it: kind, queues, class, owner and Kata's folder of its device, the capture mode (at vhost-user no
// program has it), and the folder of the pods' sockets, which may contain commas.
func (s *Spec) note() string {
	if !s.Device.Exists() {
		return ""
	}
	machine := s.Device
	return strings.Join([]string{machine.Kind, strconv.Itoa(machine.Queues), machine.Class, strconv.Itoa(machine.Owner), machine.DAN, s.Capture.String(), s.SocketDir}, ",")
}

// takeNote parses what note returned.
func (r *Record) takeNote(note string) error {
	const parts = 7
	fields := strings.SplitN(note, ",", parts)
	if len(fields) != parts {
		return fmt.Errorf("the note %q of a virtual machine's interface cannot be read", note)
	}
	options := map[string]string{}
	for i, name := range device.Names {
		if fields[i] != "" {
			options[name] = fields[i]
		}
	}
	var err error
	if r.Device, err = device.Parse(options); err != nil {
		return fmt.Errorf("the note of a virtual machine's interface: %w", err)
	}
	if r.Capture, err = capture.ParseMode(fields[parts-2]); err != nil {
		return fmt.Errorf("the note of a virtual machine's interface: %w", err)
	}
	if dir := fields[parts-1]; dir != "" {
		r.AppSocket = filepath.Join(dir, r.Identity, appSocketName)
	}
	if r.Device.IsOfRuntime() {
		r.Socket = r.AppSocket
	}
	return nil
}

// Noted is the note of a port.
type Noted struct {
	// Device is the virtual machine's; none if the port has no note.
	Device device.Device
	// VhostSocket is the path of the socket of a device of vhost-user.
	VhostSocket string
}

// ReadNote parses the note of a port.
func ReadNote(port *overlay.Found) Noted {
	read := Record{Attachment: port.Attachment}
	if port.Note == "" || read.takeNote(port.Note) != nil {
		return Noted{}
	}
	return Noted{Device: read.Device, VhostSocket: vhostSocket(read.AppSocket, read.Interface)}
}
