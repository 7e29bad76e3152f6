// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// A node may have a thousand links, each with its own network. The work for one must not depend on their number: its peer has its own
// file, and its elements are added to the filter without reading it. Guard, which reads everything, repairs changes by others.

// linksDir has a file for each link, named after its VNI: the peer behind the tunnel, or null for a link between two pods of this node.
const linksDir = "links"

func (n *Node) linkPath(vni uint32) string {
	return filepath.Join(n.dir, linksDir, strconv.FormatUint(uint64(vni), 10))
}

// LinkVNIs returns the networks of links in the state directory.
func LinkVNIs(stateDir string) (map[uint32]bool, error) {
	entries, err := os.ReadDir(filepath.Join(stateDir, linksDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the links: %w", err)
	}
	all := map[uint32]bool{}
	for _, entry := range entries {
		if vni, err := strconv.ParseUint(strings.TrimSuffix(entry.Name(), Unfinished), 10, 32); err == nil {
			all[uint32(vni)] = true
		}
	}
	return all, nil
}

// LinkPeers returns the peers of all links.
func (n *Node) LinkPeers() ([]control.Peer, error) {
	vnis, err := LinkVNIs(n.dir)
	if err != nil {
		return nil, err
	}
	var all []control.Peer
	for vni := range vnis {
		peer, err := n.linkPeer(vni)
		if err != nil {
			return nil, err
		}
		if peer != nil {
			all = append(all, *peer)
		}
	}
	return all, nil
}

// linkPeer returns the peer of a link, nil if it has none, or if its file is damaged.
func (n *Node) linkPeer(vni uint32) (*control.Peer, error) {
	peer, _, err := n.readLinkPeer(vni)
	if errors.Is(err, errDamaged) {
		return nil, nil
	}
	return peer, err
}

// errDamaged: the file is incomplete after a crash of the machine, or somebody has changed it.
var errDamaged = errors.New("it is damaged")

func (n *Node) readLinkPeer(vni uint32) (peer *control.Peer, known bool, err error) {
	text, err := os.ReadFile(n.linkPath(vni))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the peer of a link: %w", err)
	}
	if json.Unmarshal(text, &peer) != nil {
		return nil, true, errDamaged
	}
	return peer, true, nil
}

// linkPeerBefore returns the peer to remove; if its file is damaged, the one that ktsnd knows.
func (n *Node) linkPeerBefore(ctx context.Context, vni uint32, timed TimedLinks) (peer *control.Peer, known bool, err error) {
	peer, known, err = n.readLinkPeer(vni)
	if !errors.Is(err, errDamaged) {
		return peer, known, err
	}
	if timed == nil {
		return nil, true, nil
	}
	all, err := timed.Peers(ctx)
	if err != nil {
		return nil, true, fmt.Errorf("ask ktsnd for the peer of a link, whose file is damaged: %w", err)
	}
	for i := range all {
		if all[i].VNI == vni {
			return &all[i], true, nil
		}
	}
	return nil, true, nil
}

// peersOf returns the peers of a network.
func (n *Node) peersOf(network *Network) ([]control.Peer, error) {
	if network.PointToPoint {
		peer, err := n.linkPeer(network.VNI)
		if peer == nil {
			return nil, err
		}
		return []control.Peer{*peer}, err
	}
	peers, err := n.readPeers()
	var all []control.Peer
	for i := range peers {
		if peers[i].VNI == network.VNI {
			all = append(all, peers[i])
		}
	}
	return all, err
}

// TimedLinks is the part of ktsnd that links need.
type TimedLinks interface {
	Timed
	// Peers lists those of all networks.
	Peers(context.Context) ([]control.Peer, error)
	// Encrypt has nothing of a network be sent in clear, or everything.
	Encrypt(ctx context.Context, vni uint32, required bool) error
}

// SetLinkPeer makes a node the only peer of a link, which may be plugged; nil is none, for a link between two pods of
// this node. It changes everything or nothing.
func (n *Node) SetLinkPeer(ctx context.Context, network *Network, peer *control.Peer, timed TimedLinks) (err error) {
	if peer != nil {
		if err := CheckPeer(*peer); err != nil {
			return err
		}
	}
	unlock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	before, known, err := n.linkPeerBefore(ctx, network.VNI, timed)
	if err != nil {
		return err
	}
	var undo undoing
	defer undo.onError(&err)
	undo.add(func() error { return n.writeLinkPeer(network.VNI, before, known) })
	if err := n.writeLinkPeer(network.VNI, peer, true); err != nil {
		return err
	}
	fault.Point("link-peer-written")
	undo.add(func() error { return n.changeLinkPeer(network, peer, before) })
	if err := n.changeLinkPeer(network, before, peer); err != nil {
		return err
	}
	fault.Point("link-peer-flooded")
	if timed == nil {
		return nil
	}
	if network.Encrypted { // before there is a peer to send to
		if !known {
			undo.add(func() error { return timed.Encrypt(context.WithoutCancel(ctx), network.VNI, false) })
		}
		if err := timed.Encrypt(ctx, network.VNI, true); err != nil {
			return err
		}
	}
	undo.add(func() error { return tellLinkPeer(context.WithoutCancel(ctx), timed, peer, before) })
	return tellLinkPeer(ctx, timed, before, peer)
}

// ForgetLink removes the peer of a link, and the mark that it was encrypted, when the node has no port of it any more:
// another link will get its number. An unknown link is not an error.
func (n *Node) ForgetLink(ctx context.Context, network *Network, timed TimedLinks) error {
	unlock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	bridge, err := n.link(network.Bridge)
	if err != nil {
		return err
	}
	if bridge != nil {
		if inClear, err := n.sendsInClear(network); err != nil || !inClear {
			return err
		}
		return forgetEncryption(ctx, network, timed)
	}
	peer, known, err := n.linkPeerBefore(ctx, network.VNI, timed)
	if err != nil {
		return err
	}
	if timed != nil {
		if err := tellLinkPeer(ctx, timed, peer, nil); err != nil {
			return err
		}
	}
	if err := forgetEncryption(ctx, network, timed); err != nil || !known {
		return err
	}
	if err := n.writeLinkPeer(network.VNI, nil, false); err != nil {
		return err
	}
	if left, err := LinkVNIs(n.dir); err != nil || len(left) > 0 {
		return err
	}
	return n.guard() // which is not needed any more, if there is nothing else
}

func (n *Node) writeLinkPeer(vni uint32, peer *control.Peer, known bool) error {
	path := n.linkPath(vni)
	if !known {
		for _, name := range []string{path, path + Unfinished} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("forget the peer of a link: %w", err)
			}
		}
		_ = os.Remove(filepath.Dir(path)) // succeeds when it was the last
		return nil
	}
	text, err := json.Marshal(peer)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = WriteFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("remember the peer of a link: %w", err)
	}
	return nil
}

func tellLinkPeer(ctx context.Context, timed Timed, before, peer *control.Peer) error {
	if before != nil && (peer == nil || peer.Address != before.Address) {
		if err := timed.PeerDel(ctx, before.VNI, before.Address); err != nil {
			return err
		}
	}
	if peer == nil {
		return nil
	}
	return timed.PeerAdd(ctx, *peer)
}

// changeLinkPeer changes the peer in filter and tunnel, if there is a tunnel. The lock is held.
func (n *Node) changeLinkPeer(network *Network, before, peer *control.Peer) error {
	link, err := n.link(network.Tunnel)
	if err != nil {
		return err
	}
	tunnel, ok := link.(*netlink.Vxlan)
	if !ok || !ours(tunnel) {
		return nil
	}
	if err := n.guardLink(linkOf(tunnel, before), linkOf(tunnel, peer)); err != nil {
		return err
	}
	if before != nil && (peer == nil || peer.Address != before.Address) {
		if err := n.unflood(tunnel, before.Address); err != nil {
			return err
		}
	}
	if peer == nil {
		return nil
	}
	return n.flood(tunnel, peer.Address)
}

// linkOf returns the filter's contents for a link.
func linkOf(tunnel *netlink.Vxlan, peer *control.Peer) *filter.Link {
	link := &filter.Link{Tunnel: filterTunnel(tunnel, false)}
	if peer != nil {
		link.Peers = []control.Peer{*peer}
	}
	return link
}

// guardLink changes the filter's contents for a link; nil is nothing. The lock is held.
func (n *Node) guardLink(before, after *filter.Link) error {
	if n.changeLinks([]filter.LinkChange{{Before: before, After: after}}) == nil {
		return nil
	}
	return n.guard() // it is not what it should be, or not there
}

// openLink makes the filter accept packets to a link's tunnel from its peer.
func (n *Node) openLink(network *Network, tunnel *netlink.Vxlan) error {
	peer, err := n.linkPeer(network.VNI)
	if err != nil {
		return err
	}
	return n.guardLink(nil, linkOf(tunnel, peer))
}
