// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// TellReceive gives the program for receive rings the peers of this node's networks, if it was loaded after the last
// change of them. Without a program it does nothing.
func (n *Node) TellReceive(ctx context.Context) error {
	unlock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	peers, err := n.readPeers()
	if err != nil {
		return err
	}
	return n.setReceivePeers(peers)
}

// setReceivePeers gives the program for receive rings the peers whose datagrams it takes: none for networks that are encrypted or about to be.
// The lock is held.
func (n *Node) setReceivePeers(peers []control.Peer, encrypting ...uint32) error {
	maps, err := receive.Open(n.receiveDir)
	if errors.Is(err, receive.ErrOtherRelease) {
		maps, err = n.reloadReceive()
	}
	if errors.Is(err, receive.ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	defer maps.Close()
	tunnels, err := ownTunnels()
	if err != nil {
		return err
	}
	for _, tunnel := range tunnels {
		node, ok := netip.AddrFromSlice(tunnel.SrcAddr.To4())
		if !ok {
			continue // no datagram of it is taken
		}
		accepted := peers
		if encrypted(tunnel) || slices.Contains(encrypting, uint32(tunnel.VxlanId)) {
			accepted = nil // clear datagrams of an encrypted network are dropped, also while it was sent in clear before
		}
		if err := maps.SetPeers(uint32(tunnel.VxlanId), node, accepted); err != nil {
			return err
		}
	}
	return nil
}

// setReceivePeersOrDetach detaches a program that cannot be given the peers: datagrams then take the kernel's path, and the program takes none
// from peers that are gone. A change of peers does not fail for it.
func (n *Node) setReceivePeersOrDetach(peers []control.Peer, encrypting ...uint32) error {
	err := n.setReceivePeers(peers, encrypting...)
	if err == nil {
		return nil
	}
	if _, errOff := receive.Detach(n.receiveDir); errOff != nil {
		return errors.Join(err, errOff)
	}
	slog.Error("the program for receive rings could not be told of peers and was taken off; datagrams take the kernel's path; "+
		"`ktsn node receive attach UPLINK` says what is wrong", "err", err)
	return nil
}

// reloadReceive has this release's program in the place of another's, whose maps this one cannot write: it would go on to take
// datagrams of peers that have gone. Pods that it does not know again have the kernel's path.
func (n *Node) reloadReceive() (*receive.Maps, error) {
	uplinks, err := receive.Uplinks()
	if err != nil {
		return nil, err
	}
	emptied := false
	for _, uplink := range uplinks {
		done, err := receive.Attach(n.receiveDir, uplink.Name)
		if err != nil {
			return nil, err
		}
		emptied = emptied || done.Emptied
	}
	if len(uplinks) == 0 {
		return nil, receive.ErrAbsent
	}
	maps, err := receive.Open(n.receiveDir)
	if err != nil || !emptied || n.pods == nil {
		return maps, err
	}
	if err := n.pods(maps); err != nil {
		slog.Warn("datagrams for some pods take the kernel's ordinary path, since the program for receive rings was replaced", "err", err)
	}
	return maps, nil
}
