// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// mostSourceAddresses is how many ktsnd takes of an endpoint.
const mostSourceAddresses = 16

// rebuild writes records for the attachments that the kernel knows and that have none.
func rebuild(ctx context.Context, node *overlay.Node, store recordStore, client *control.Client, controlSocket string) (int, error) {
	found, err := node.Attachments()
	if err != nil {
		return 0, err
	}
	var all error
	count := 0
	for i := range found {
		if store.read(&found[i].Attachment) != nil {
			continue
		}
		made, err := rebuiltRecord(ctx, &found[i], client, controlSocket)
		if err == nil {
			err = made.findEncryption(node)
		}
		if err == nil {
			err = store.write(made)
		}
		if err == nil && made.Socket != "" {
			err = store.useSocket(&made.Attachment)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("interface %s of container %s: its record is lost: %w", found[i].Interface, found[i].ContainerID, err))
			continue
		}
		count++
	}
	return count, all
}

// rebuiltRecord is what the kernel and ktsnd still know. The pod's socket is in neither, unless a virtual machine has the interface.
func rebuiltRecord(ctx context.Context, found *overlay.Found, client *control.Client, controlSocket string) (*Record, error) {
	path := netnsPath(found.NetnsID)
	if path == "" || found.VNI == 0 {
		return nil, fmt.Errorf("its network namespace is in none of %v; attach it anew", netnsDirs)
	}
	// A port without the program counts nothing, in mode None.
	captured, err := capture.ReadPort(found.PortName())
	if err != nil {
		return nil, err
	}
	made := &Record{
		Version: recordVersion, Attachment: found.Attachment, Netns: path,
		VNI: found.VNI, Bridge: found.Bridge, Tunnel: found.Tunnel, ControlSocket: controlSocket, Capture: captured.Mode,
	}
	made.Receive = wasReceiving(found.PortName())
	switch found.Note {
	case "", overlay.NoteLost:
		made.Device, err = foundDevice(path, &found.Attachment, captured.ClassBy)
		if err == nil && found.Note != "" && !made.Device.Exists() {
			err = errors.New("a virtual machine has it, and the names of network, container and pod leave no room for its device in the alias; delete the pod so that it is recreated")
		}
	default:
		err = made.takeNote(found.Note)
	}
	if err != nil {
		return nil, err
	}
	err = made.findSources(ctx, client)
	return made, err
}

// findEncryption has the tunnel of a link tell whether it is encrypted.
func (r *Record) findEncryption(node *overlay.Node) (err error) {
	if r.Network == LinkNetwork {
		r.Encrypted, err = node.IsEncrypted(r.Tunnel)
	}
	return err
}

// findSources has ktsnd tell from which addresses the pod may send. A ktsnd that was started anew does not know it; then it is
// from those that the interface has.
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

// sourcesOf are the addresses of an interface.
func sourcesOf(interfaceName string) (*control.Sources, error) {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", interfaceName, err)
	}
	addresses, err := again(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", interfaceName, err)
	}
	sources := &control.Sources{HardwareAddresses: []string{link.Attrs().HardwareAddr.String()}}
	for _, one := range addresses {
		own, ok := netip.AddrFromSlice(one.IP)
		if own = own.Unmap(); ok && !own.IsLinkLocalUnicast() && len(sources.Addresses) < mostSourceAddresses {
			sources.Addresses = append(sources.Addresses, netip.PrefixFrom(own, own.BitLen()))
		}
	}
	return sources, nil
}
