// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// maxSubnets is ktsnd's limit for one peer.
const maxSubnets = 64

// MaxVNI is the largest VXLAN network identifier.
const MaxVNI = 1<<24 - 1

// PeerAdd adds another node to a network: the filter accepts its packets if their sources are in its subnets, the
// tunnel floods to it, ktsnd sends timed messages for its subnets to it, and the file of peers has it for tunnels that
// are made, or a ktsnd that is started, later. It does everything or nothing. Repeating it replaces the subnets.
func (n *Node) PeerAdd(ctx context.Context, peer control.Peer, timed Timed) error {
	return n.ChangePeers(ctx, []Change{{Peer: peer}}, timed)
}

// PeerDel undoes PeerAdd. An unknown peer is not an error.
func (n *Node) PeerDel(ctx context.Context, vni uint32, address netip.Addr, timed Timed) error {
	return n.ChangePeers(ctx, []Change{{Peer: control.Peer{VNI: vni, Address: address}, Gone: true}}, timed)
}

// CheckPeer returns what is wrong with a peer.
func CheckPeer(peer control.Peer) error {
	switch {
	case peer.VNI == 0 || peer.VNI > MaxVNI:
		return fmt.Errorf("vni %d: give 1 to %d", peer.VNI, MaxVNI)
	case !peer.Address.Is4() || peer.Address.IsUnspecified() || peer.Address.IsMulticast() || peer.Address.IsLoopback():
		return fmt.Errorf("address %s: give the IPv4 address of the other node", peer.Address)
	case len(peer.Subnets) == 0 || len(peer.Subnets) > maxSubnets:
		return fmt.Errorf("%d subnets: give 1 to %d, those of the pods on the other node", len(peer.Subnets), maxSubnets)
	}
	for _, subnet := range peer.Subnets {
		if subnet.Addr().Is4In6() || subnet.Addr().Zone() != "" {
			return fmt.Errorf("subnet %s: give an IPv4 or IPv6 subnet such as 10.70.2.0/24 or fd42:2::/64", subnet)
		}
		if subnet.Masked() != subnet {
			return fmt.Errorf("subnet %s: bits are set behind the prefix; give %s", subnet, subnet.Masked())
		}
	}
	return nil
}

// Peers returns the peers in the file.
func (n *Node) Peers() ([]control.Peer, error) { return n.readPeers() }

// FloodTargets returns, for each network with a tunnel, the nodes to which it floods.
func (n *Node) FloodTargets() (map[uint32]map[netip.Addr]bool, error) {
	tunnels, err := listTunnels()
	if err != nil {
		return nil, err
	}
	all := map[uint32]map[netip.Addr]bool{}
	for _, tunnel := range tunnels {
		if tunnel.VxlanId == 0 {
			continue
		}
		if all[uint32(tunnel.VxlanId)], err = n.floods(tunnel); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// peersFile is the form of the file of peers.
type peersFile struct {
	Peers []control.Peer `json:"peers"`
}

func (n *Node) peersPath() string { return filepath.Join(n.dir, "peers.json") }

func (n *Node) readPeers() ([]control.Peer, error) {
	text, err := os.ReadFile(n.peersPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var file peersFile
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the peers in %s: %w; remove the file and add them anew", n.peersPath(), err)
	}
	return file.Peers, nil
}

// writePeers replaces the file atomically.
func (n *Node) writePeers(peers []control.Peer) error {
	text, err := json.MarshalIndent(peersFile{peers}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the peers: %w", err)
	}
	return WriteFile(n.peersPath(), append(text, '\n'))
}

// WriteFile replaces a file that only root can read, atomically. Two writers of one file must take turns.
func WriteFile(path string, content []byte) error {
	temporary := path + Unfinished
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		_ = os.Remove(temporary) // if it is there, and a file
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// Unfinished is the suffix of a file that WriteFile has not renamed yet.
const Unfinished = "~"
