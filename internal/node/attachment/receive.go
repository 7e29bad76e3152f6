// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
)

// errDecrypted: the program at the uplink cannot see datagrams that the kernel decrypts.
var errDecrypted = errors.New("the network is encrypted, and the kernel decrypts")

// Receive is how datagrams reach a pod in addition to the kernel's ordinary path.
type Receive struct {
	// Rings: sockets get receive rings. Redirect: datagrams go straight to the pod's interface.
	Rings    bool `json:"rings,omitempty"`
	Redirect bool `json:"redirect,omitempty"`
}

func (r Receive) any() bool { return r.Rings || r.Redirect }

// receiveIntoRings directs datagrams for the pod into receive rings of its sockets, or straight to its interface. Where
// the kernel cannot, they take the ordinary path, and the runtime's log says why.
func (a *adding) receiveIntoRings(ctx context.Context) {
	if a.RingsRequested && !a.RingsOffered {
		fmt.Fprintf(os.Stderr, "tsn-cni: interface %s of container %s asks for receive rings, which its network does not offer "+
			"(receive.rings); its datagrams are the kernel's\n", a.Interface, a.ContainerID)
	}
	r := &a.Record
	// The address may have been that of a pod whose DEL was lost; the program would redirect its datagrams to an interface that is gone.
	if err := r.leaveToKernel(); err != nil {
		fmt.Fprintf(os.Stderr, "tsn-cni: datagrams for interface %s of container %s may go to an earlier pod's interface: %v\n", a.Interface, a.ContainerID, err)
	}
	if !a.Receive.any() {
		return
	}
	a.undo = append(a.undo, r.leaveToKernel)
	if err := r.receiveIntoRings(ctx, a.node); err != nil {
		fmt.Fprintf(os.Stderr, "tsn-cni: datagrams for interface %s of container %s take the kernel's ordinary path: %v\n",
			a.Interface, a.ContainerID, err)
	}
}

// receiveIntoRings adds the attachment to the program at the network's uplink, which it attaches where it is missing.
func (r *Record) receiveIntoRings(ctx context.Context, node *overlay.Node) error {
	endpoint, uplink, err := r.endpointOfRings()
	if err != nil {
		return err
	}
	if _, err := receive.Ensure(receive.DefaultDir, uplink); err != nil {
		return err
	}
	if err := node.TellReceive(ctx); err != nil {
		return err
	}
	maps, err := receive.Open(receive.DefaultDir)
	if err != nil {
		return err
	}
	defer maps.Close()
	return maps.PutEndpoint(endpoint)
}

// endpointOfRings returns what the program needs to know, and the uplink's name.
func (r *Record) endpointOfRings() (endpoint *receive.Endpoint, uplinkName string, err error) {
	link, err := netlink.LinkByName(r.Tunnel)
	if err != nil {
		return nil, "", fmt.Errorf("look for %s: %w", r.Tunnel, err)
	}
	tunnel, ok := link.(*netlink.Vxlan)
	if ok && overlay.IsEncrypted(tunnel) {
		return nil, "", errDecrypted
	}
	if !ok || tunnel.SrcAddr.To4() == nil || tunnel.VtepDevIndex == 0 {
		return nil, "", fmt.Errorf("%s is no VXLAN device with an uplink and an IPv4 address of its own", r.Tunnel)
	}
	uplinkDevice, err := netlink.LinkByIndex(tunnel.VtepDevIndex)
	if err != nil {
		return nil, "", fmt.Errorf("look for the uplink of %s: %w", r.Tunnel, err)
	}
	port, err := netlink.LinkByName(r.PortName())
	if err != nil {
		return nil, "", fmt.Errorf("look for %s: %w", r.PortName(), err)
	}
	address, _ := netip.AddrFromSlice(tunnel.SrcAddr.To4())
	endpoint = &receive.Endpoint{
		VNI: r.VNI, Port: port.Attrs().Index, Uplink: tunnel.VtepDevIndex, Tunnel: netip.AddrPortFrom(address, uint16(tunnel.Port)),
		Rings: r.Receive.Rings, Redirect: r.Receive.Redirect,
	}
	return endpoint, uplinkDevice.Attrs().Name, r.readPodForRings(endpoint)
}

// readPodForRings fills in the fields from inside the pod.
func (r *Record) readPodForRings(endpoint *receive.Endpoint) error {
	netns, err := ns.GetNS(r.Netns)
	if err != nil {
		return fmt.Errorf("open the pod's network namespace: %w", err)
	}
	defer netns.Close()
	if endpoint.Netns, err = receive.NetnsOf(netns); err != nil {
		return err
	}
	return netns.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName(r.Interface)
		if err != nil {
			return fmt.Errorf("look for %s in the pod: %w", r.Interface, err)
		}
		endpoint.Interface, endpoint.MAC = link.Attrs().Index, link.Attrs().HardwareAddr
		addresses, err := netdev.Dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
		if err != nil {
			return fmt.Errorf("list the addresses of %s in the pod: %w", r.Interface, err)
		}
		for i := range addresses {
			addAddress(endpoint, addresses[i].IP)
		}
		return nil
	})
}

// addAddress takes the first address of each family; datagrams to others take the kernel's path.
func addAddress(endpoint *receive.Endpoint, address net.IP) {
	ip, ok := netip.AddrFromSlice(address)
	ip = ip.Unmap()
	switch {
	case !ok || ip.IsLinkLocalUnicast():
	case ip.Is4() && !endpoint.IPv4.IsValid():
		endpoint.IPv4 = ip
	case ip.Is6() && !endpoint.IPv6.IsValid():
		endpoint.IPv6 = ip
	}
}

// leaveToKernel undoes receiveIntoRings.
func (r *Record) leaveToKernel() error {
	maps, err := openRings()
	if maps == nil {
		return err
	}
	defer maps.Close()
	endpoint, _, err := r.endpointOfRings()
	if err != nil {
		return nil //nolint:nilerr // the interface is gone; sweepRings removes its entry
	}
	return maps.DelEndpoint(endpoint.VNI, endpoint.MAC)
}

// openRings returns nil if there is no program, or one of another release, whose maps this one cannot use.
func openRings() (*receive.Maps, error) {
	maps, err := receive.Open(receive.DefaultDir)
	if errors.Is(err, receive.ErrAbsent) || errors.Is(err, receive.ErrOtherRelease) {
		return nil, nil
	}
	return maps, err
}

// sweepRings removes entries of interfaces that are gone from the program.
func sweepRings() error {
	maps, err := openRings()
	if maps == nil {
		return err
	}
	defer maps.Close()
	_, err = maps.Sweep()
	return err
}

// hasRings reports whether the program is attached and knows the attachment as it is.
func (r *Record) hasRings() (bool, error) {
	want, uplink, err := r.endpointOfRings()
	if err != nil {
		return false, err
	}
	attached, err := receive.IsAttached(uplink)
	if err != nil || !attached {
		return false, err
	}
	maps, err := openRings()
	if maps == nil {
		return false, err
	}
	defer maps.Close()
	return maps.Has(want)
}

// checkRings adds the attachment to the program again if somebody removed it, and reports that. If it cannot, that is
// no difference: the pod's datagrams take the kernel's path.
func (r *Record) checkRings(ctx context.Context, node *overlay.Node) error {
	if !r.Receive.any() {
		return nil
	}
	has, err := r.hasRings()
	if err != nil || has {
		return nil //nolint:nilerr // other checks report missing devices
	}
	if r.receiveIntoRings(ctx, node) != nil {
		return nil
	}
	return fmt.Errorf("the program at the uplink knew %s in the pod no more; it does again, and sockets that are opened from now on have receive "+
		"rings where the pod has asked for them", r.Interface)
}

// RestoreReceive adds all attachments with receive rings to the programs at their uplinks, and returns how many
// succeeded. An error of one does not keep the others from being added.
func RestoreReceive(ctx context.Context, stateDir string, node *overlay.Node) (count int, all error) {
	count, all = recordStore{stateDir}.forReceiving(func(r *Record) error { return r.receiveIntoRings(ctx, node) })
	return count, errors.Join(all, sweepRings())
}

// forReceiving calls do for the attachments with receive rings or redirection whose pods exist, and returns how often it
// succeeded.
func (store recordStore) forReceiving(do func(*Record) error) (count int, all error) {
	records, all := store.withPorts()
	for _, r := range records {
		if !r.Receive.any() || isGone(r.Netns) {
			continue
		}
		switch err := do(r); {
		case err == nil:
			count++
		case !errors.Is(err, errDecrypted):
			all = errors.Join(all, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
		}
	}
	return count, all
}

// OpenNode is overlay.Open for callers that change peers or networks. If they have to replace another release's program
// for receive rings, the attachments are added to the new one.
func OpenNode(stateDir string, patience time.Duration) (*overlay.Node, error) {
	node, err := overlay.Open(stateDir, patience)
	if err != nil {
		return nil, err
	}
	node.KnowPods(func(maps *receive.Maps) error { return recordStore{stateDir}.tellRings(maps) })
	return node, nil
}

// tellRings adds the interfaces only; the caller attaches the program and adds peers.
func (store recordStore) tellRings(maps *receive.Maps) error {
	_, all := store.forReceiving(func(r *Record) error {
		endpoint, _, err := r.endpointOfRings()
		if err != nil {
			return err
		}
		return maps.PutEndpoint(endpoint)
	})
	return all
}

func isGone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// wasReceiving returns what the program knows of a port, for a record that was lost.
func wasReceiving(portName string) Receive {
	maps, err := openRings()
	if maps == nil || err != nil {
		return Receive{}
	}
	defer maps.Close()
	port, err := netlink.LinkByName(portName)
	if err != nil {
		return Receive{}
	}
	endpoints, err := maps.Endpoints()
	index := slices.IndexFunc(endpoints, func(endpoint receive.Endpoint) bool { return endpoint.Port == port.Attrs().Index })
	if err != nil || index < 0 {
		return Receive{}
	}
	return Receive{Rings: endpoints[index].Rings, Redirect: endpoints[index].Redirect}
}
