// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// peerKey is struct ktsn_receive_peer.
type peerKey struct {
	PrefixBits, VNI uint32
	Node, Peer      [4]byte
	Family          uint32
	Source          [16]byte
}

// peerBits is KTSN_RECEIVE_PEER_BITS: the number of bits in front of the source.
const peerBits = 128

// SetPeers replaces the peers of a network: the program takes datagrams that come from these peers and have a source behind
// them, and no others. node is this node's tunnel address. Peers of other networks in the list are ignored.
func (m *Maps) SetPeers(vni uint32, node netip.Addr, peers []control.Peer) error {
	wanted := keysOf(vni, node, peers)
	var stale []peerKey
	var key peerKey
	var value uint8
	entries := m.peers.Iterate()
	for entries.Next(&key, &value) {
		if key.VNI == vni && key.Node == node.As4() && !wanted[key] {
			stale = append(stale, key)
		}
		delete(wanted, key)
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("list the peers of the program for receive rings: %w", err)
	}
	// Remove before adding: taking a forbidden datagram is worse than missing one.
	for i := range stale {
		if err := m.peers.Delete(&stale[i]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove a peer from the program for receive rings: %w", err)
		}
	}
	for key := range wanted {
		err := m.peers.Put(&key, uint8(1))
		if errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("add peers to the program for receive rings: there are more than %d subnets behind them; datagrams of the others take the kernel's path",
				m.peers.MaxEntries())
		}
		if err != nil {
			return fmt.Errorf("add a peer to the program for receive rings: %w", err)
		}
	}
	return nil
}

// keysOf returns the entries for the peers. A peer without a subnet of a family may have any source of that family, as in the
// filter of the node's tunnels.
func keysOf(vni uint32, node netip.Addr, peers []control.Peer) map[peerKey]bool {
	keys := map[peerKey]bool{}
	for _, peer := range peers {
		if peer.VNI != vni {
			continue
		}
		for _, subnet := range append(slices.Clone(peer.Subnets), missing(peer.Subnets)...) {
			key := keyOf(&peer, subnet)
			key.Node = node.As4()
			keys[key] = true
		}
	}
	return keys
}

// missing returns the prefix of length 0 of each family without a subnet.
func missing(subnets []netip.Prefix) (all []netip.Prefix) {
	for _, everything := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
		if !hasFamily(subnets, everything.Addr().Is4()) {
			all = append(all, everything)
		}
	}
	return all
}

func hasFamily(subnets []netip.Prefix, ipv4 bool) bool {
	for _, subnet := range subnets {
		if subnet.Addr().Is4() == ipv4 {
			return true
		}
	}
	return false
}

func keyOf(peer *control.Peer, subnet netip.Prefix) peerKey {
	subnet = subnet.Masked() // the form that the kernel returns
	key := peerKey{PrefixBits: uint32(peerBits + subnet.Bits()), VNI: peer.VNI, Peer: peer.Address.As4(), Family: unix.AF_INET6}
	if subnet.Addr().Is4() {
		key.Family = unix.AF_INET
	}
	copy(key.Source[:], subnet.Addr().AsSlice())
	return key
}
