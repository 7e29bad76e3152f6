// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// Endpoint is a pod's interface whose datagrams may go into receive rings.
type Endpoint struct {
	VNI uint32
	MAC net.HardwareAddr
	// Netns is the pod's network namespace.
	Netns Netns
	// Interface is the index of the pod's interface, in the pod; Port is the index of the node's end, 0 for none.
	Interface, Port int
	// Uplink is the index of the interface by which packets for the tunnel come; Tunnel is the tunnel's address and UDP port.
	Uplink int
	Tunnel netip.AddrPort
	// IPv4 and IPv6 are the addresses whose datagrams are taken; the zero value: none of the family.
	IPv4, IPv6 netip.Addr
	// Rings: sockets may have receive rings. Redirect: datagrams over IPv4 that are for no ring go straight to the pod's
	// interface, which Port leads to.
	Rings, Redirect bool
}

// Netns is a network namespace as the program knows it.
type Netns struct {
	// Cookie is never used again.
	Cookie uint64
	// ID is its number in the network namespace of the uplink.
	ID int
}

// endpointKey is struct ktsn_receive_endpoint_key, endpointValue struct ktsn_receive_endpoint.
type (
	endpointKey struct {
		VNI  uint32
		MAC  [6]byte
		Zero uint16
	}
	endpointValue struct {
		Cookie                  uint64
		NetnsID                 int32
		Interface, Port, Uplink uint32
		Node, IPv4              [4]byte
		IPv6                    [16]byte
		TunnelPort              [2]byte
		Has                     uint16
		Reserved                uint32
	}
)

// Values of Has: KTSN_RECEIVE_HAS_..., _RINGS, _REDIRECT.
const (
	hasIPv4     = 1
	hasIPv6     = 2
	hasRings    = 4
	hasRedirect = 8
)

func endpointKeyOf(vni uint32, mac net.HardwareAddr) (endpointKey, error) {
	key := endpointKey{VNI: vni}
	if len(mac) != len(key.MAC) {
		return key, fmt.Errorf("%s is no hardware address of an Ethernet interface", mac)
	}
	copy(key.MAC[:], mac)
	return key, nil
}

// PutEndpoint makes the program take datagrams for the pod's sockets that have rings.
func (m *Maps) PutEndpoint(endpoint *Endpoint) error {
	key, err := endpointKeyOf(endpoint.VNI, endpoint.MAC)
	if err != nil {
		return err
	}
	value := valueOf(endpoint)
	if err := m.endpoints.Put(&key, &value); err != nil {
		return fmt.Errorf("add %s in network %d to the program for receive rings: %w", endpoint.MAC, endpoint.VNI, err)
	}
	return nil
}

func valueOf(endpoint *Endpoint) endpointValue {
	value := endpointValue{
		Cookie: endpoint.Netns.Cookie, NetnsID: int32(endpoint.Netns.ID), Interface: uint32(endpoint.Interface), Port: uint32(endpoint.Port),
		Uplink: uint32(endpoint.Uplink), Node: endpoint.Tunnel.Addr().As4(),
	}
	binary.BigEndian.PutUint16(value.TunnelPort[:], endpoint.Tunnel.Port())
	if endpoint.IPv4.Is4() {
		value.IPv4 = endpoint.IPv4.As4()
		value.Has |= hasIPv4
	}
	if endpoint.IPv6.Is6() {
		value.IPv6 = endpoint.IPv6.As16()
		value.Has |= hasIPv6
	}
	if endpoint.Rings {
		value.Has |= hasRings
	}
	if endpoint.Redirect {
		value.Has |= hasRedirect
	}
	return value
}

func endpointOf(key *endpointKey, value *endpointValue) Endpoint {
	endpoint := Endpoint{
		VNI: key.VNI, MAC: append(net.HardwareAddr{}, key.MAC[:]...), Netns: Netns{value.Cookie, int(value.NetnsID)},
		Interface: int(value.Interface), Port: int(value.Port), Uplink: int(value.Uplink),
		Tunnel: netip.AddrPortFrom(netip.AddrFrom4(value.Node), binary.BigEndian.Uint16(value.TunnelPort[:])),
		Rings:  value.Has&hasRings != 0, Redirect: value.Has&hasRedirect != 0,
	}
	if value.Has&hasIPv4 != 0 {
		endpoint.IPv4 = netip.AddrFrom4(value.IPv4)
	}
	if value.Has&hasIPv6 != 0 {
		endpoint.IPv6 = netip.AddrFrom16(value.IPv6)
	}
	return endpoint
}

// DelEndpoint undoes PutEndpoint. A missing entry is not an error.
func (m *Maps) DelEndpoint(vni uint32, mac net.HardwareAddr) error {
	key, err := endpointKeyOf(vni, mac)
	if err != nil {
		return err
	}
	if err := m.endpoints.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("remove %s in network %d from the program for receive rings: %w", mac, vni, err)
	}
	return nil
}

// Has reports whether the map has exactly this entry.
func (m *Maps) Has(endpoint *Endpoint) (bool, error) {
	key, err := endpointKeyOf(endpoint.VNI, endpoint.MAC)
	if err != nil {
		return false, err
	}
	var value endpointValue
	err = m.endpoints.Lookup(&key, &value)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s in the program for receive rings: %w", endpoint.MAC, err)
	}
	return value == valueOf(endpoint), nil
}

// Endpoints lists the entries.
func (m *Maps) Endpoints() ([]Endpoint, error) {
	all := []Endpoint{}
	var key endpointKey
	var value endpointValue
	entries := m.endpoints.Iterate()
	for entries.Next(&key, &value) {
		all = append(all, endpointOf(&key, &value))
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("list the pods with receive rings: %w", err)
	}
	return all, nil
}

// Sweep removes entries whose interface is gone, and returns their number.
func (m *Maps) Sweep() (int, error) {
	all, err := m.Endpoints()
	if err != nil {
		return 0, err
	}
	count := 0
	var failed error
	for i := range all {
		gone, err := isGone(&all[i])
		if err == nil && gone {
			gone, err = m.forget(&all[i])
		}
		if err == nil && gone {
			count++
		}
		failed = errors.Join(failed, err)
	}
	return count, failed
}

// forget removes an entry unless a pod with the same address has replaced it.
func (m *Maps) forget(endpoint *Endpoint) (bool, error) {
	same, err := m.Has(endpoint)
	if err != nil || !same {
		return false, err
	}
	return true, m.DelEndpoint(endpoint.VNI, endpoint.MAC)
}

// isGone reports whether the node's end of the interface is missing or leads to another network namespace.
func isGone(endpoint *Endpoint) (bool, error) {
	if endpoint.Port == 0 {
		return false, nil
	}
	link, err := netlink.LinkByIndex(endpoint.Port)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for interface %d: %w", endpoint.Port, err)
	}
	return link.Attrs().NetNsID != endpoint.Netns.ID, nil
}
