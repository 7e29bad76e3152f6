// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Change is the desired state of one peer.
type Change struct {
	Peer control.Peer
	// Gone: the peer is removed; only the network and the address of Peer are used then.
	Gone bool
}

// ChangePeers adds and removes many peers: it reads and writes filter, forwarding tables and the file of peers once,
// however many peers there are. A refused peer stays as it was, and the others are changed; the error names the refused
// ones.
func (n *Node) ChangePeers(ctx context.Context, changes []Change, timed Timed) error {
	changes, refused := checked(changes)
	if len(changes) > 0 {
		if err := n.changePeers(ctx, changes, timed, refused); err != nil {
			return err
		}
	}
	return refused.error()
}

// changePeers makes all changes that are not refused, or none.
func (n *Node) changePeers(ctx context.Context, changes []Change, timed Timed, refused *refusals) (err error) {
	unlock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	remembered, err := n.readPeers()
	if err != nil {
		return err
	}
	var undo undoing
	defer undo.onError(&err)

	undo.add(func() error { return n.guardFor(remembered) })
	if err := n.guardFor(changed(remembered, changes)); err != nil {
		return err
	}
	fault.Point("peer-guarded")
	done, err := n.tell(ctx, remembered, changes, timed, refused, &undo)
	if err != nil {
		return err
	}
	peers := changed(remembered, done)
	if len(done) < len(changes) {
		if err := n.guardFor(peers); err != nil {
			return err
		}
	}
	if len(done) == 0 {
		return nil
	}
	return n.writePeers(peers)
}

// tell changes forwarding tables and ktsnd, peer by peer, and returns the changes that were made.
func (n *Node) tell(ctx context.Context, remembered []control.Peer, changes []Change, timed Timed, refused *refusals,
	undo *undoing) (done []Change, err error) {
	tables, err := n.forwarding(changes)
	if err != nil {
		return nil, err
	}
	before := map[peerName]*control.Peer{}
	for i := range remembered {
		before[nameOf(&remembered[i])] = &remembered[i]
	}
	for i := range changes {
		change := &changes[i]
		var undoOne undoing
		lost, err := n.tellOf(ctx, change, before[nameOf(&change.Peer)], tables[change.Peer.VNI], timed, &undoOne)
		if err == nil {
			undo.steps = append(undo.steps, undoOne.steps...)
			done = append(done, *change)
			continue
		}
		undoOne.onError(&err)
		refused.add(change, err)
		if lost {
			break
		}
	}
	return done, nil
}

// tellOf changes forwarding tables and ktsnd for one peer. lost: ktsnd does not answer any more.
func (n *Node) tellOf(ctx context.Context, change *Change, before *control.Peer, tables []forwarding, timed Timed,
	undo *undoing) (lost bool, err error) {
	for _, table := range tables {
		flooded := table.floods(change.Peer.Address)
		undo.add(func() error { return n.setFlood(table.tunnel, change.Peer.Address, flooded) })
		if err := n.change(table, change, before); err != nil {
			return false, err
		}
	}
	fault.Point("peer-flooded")
	if timed == nil {
		return false, nil
	}
	wanted := &change.Peer
	if change.Gone {
		wanted = nil
	}
	undo.add(func() error { return setTimed(context.WithoutCancel(ctx), timed, change.Peer, before) })
	err = setTimed(ctx, timed, change.Peer, wanted)
	fault.Point("peer-told")
	var refusal *control.Error
	return err != nil && !errors.As(err, &refusal), err
}

// forwarding is the table of a tunnel.
type forwarding struct {
	tunnel netlink.Link
	// entries are those that lead to a node, by its address.
	entries map[netip.Addr][]netlink.Neigh
}

// floods reports whether the tunnel floods to a node.
func (f *forwarding) floods(peer netip.Addr) bool {
	for i := range f.entries[peer] {
		if isZero(f.entries[peer][i].HardwareAddr) {
			return true
		}
	}
	return false
}

// forwarding reads the tables of the tunnels of the networks that something changes in, whoever made them.
func (n *Node) forwarding(changes []Change) (map[uint32][]forwarding, error) {
	concerned := map[uint32]bool{}
	for i := range changes {
		concerned[changes[i].Peer.VNI] = true
	}
	tunnels, err := listTunnels()
	if err != nil {
		return nil, err
	}
	all := map[uint32][]forwarding{}
	for _, tunnel := range tunnels {
		if !concerned[uint32(tunnel.VxlanId)] {
			continue
		}
		entries, err := n.fdb(tunnel.Index)
		if err != nil {
			return nil, err
		}
		table := forwarding{tunnel, map[netip.Addr][]netlink.Neigh{}}
		for i := range entries {
			if address, ok := netip.AddrFromSlice(entries[i].IP); ok {
				table.entries[address.Unmap()] = append(table.entries[address.Unmap()], entries[i])
			}
		}
		all[uint32(tunnel.VxlanId)] = append(all[uint32(tunnel.VxlanId)], table)
	}
	return all, nil
}

// change makes the tunnel flood to the peer, or removes the peer's entries. It removes what the tunnel has learnt of a peer that has lost a
// subnet: the pod of a static address may be on another node now, whose announcement the filter dropped if it came first.
func (n *Node) change(table forwarding, change *Change, before *control.Peer) error {
	entries := table.entries[change.Peer.Address]
	if change.Gone {
		return n.forget(table.tunnel, change.Peer.Address, entries)
	}
	if before != nil && slices.ContainsFunc(before.Subnets, func(subnet netip.Prefix) bool { return !slices.Contains(change.Peer.Subnets, subnet) }) {
		learnt := slices.DeleteFunc(slices.Clone(entries), func(entry netlink.Neigh) bool {
			return isZero(entry.HardwareAddr) || entry.State&unix.NUD_PERMANENT != 0
		})
		if err := n.forget(table.tunnel, change.Peer.Address, learnt); err != nil {
			return err
		}
	}
	return n.flood(table.tunnel, change.Peer.Address)
}

func (n *Node) setFlood(tunnel netlink.Link, peer netip.Addr, wanted bool) error {
	if wanted {
		return n.flood(tunnel, peer)
	}
	return n.unflood(tunnel, peer)
}

func setTimed(ctx context.Context, timed Timed, named control.Peer, wanted *control.Peer) error {
	if wanted != nil {
		return timed.PeerAdd(ctx, *wanted)
	}
	return timed.PeerDel(ctx, named.VNI, named.Address)
}

// peerName identifies a peer.
type peerName struct {
	vni     uint32
	address netip.Addr
}

func nameOf(peer *control.Peer) peerName { return peerName{peer.VNI, peer.Address} }

// changed returns the peers after the changes; changed peers come last.
func changed(peers []control.Peer, changes []Change) []control.Peer {
	gone := map[peerName]bool{}
	for i := range changes {
		gone[nameOf(&changes[i].Peer)] = true
	}
	var all []control.Peer
	for i := range peers {
		if !gone[nameOf(&peers[i])] {
			all = append(all, peers[i])
		}
	}
	for i := range changes {
		if !changes[i].Gone {
			all = append(all, changes[i].Peer)
		}
	}
	return all
}

// checked separates valid changes from invalid ones.
func checked(changes []Change) (good []Change, refused *refusals) {
	refused = &refusals{alone: len(changes) == 1}
	for i := range changes {
		change := &changes[i]
		if change.Gone {
			good = append(good, *change)
		} else if err := CheckPeer(change.Peer); err != nil {
			refused.add(change, err)
		} else {
			good = append(good, *change)
		}
	}
	return good, refused
}

// refusals collects refused peers.
type refusals struct {
	// alone: there was one change only, which needs no name.
	alone bool
	first []error
	more  int
}

// maxRefusals limits how many peers an error names.
const maxRefusals = 3

func (r *refusals) add(change *Change, err error) {
	if len(r.first) == maxRefusals {
		r.more++
		return
	}
	if !r.alone {
		err = fmt.Errorf("peer %s of network %d: %w", change.Peer.Address, change.Peer.VNI, err)
	}
	r.first = append(r.first, err)
}

func (r *refusals) error() error {
	err := errors.Join(r.first...)
	if r.more > 0 {
		err = fmt.Errorf("%w\nand %d more peers", err, r.more)
	}
	return err
}

// undoing collects undo steps for a later failure, and runs them in reverse order.
type undoing struct{ steps []func() error }

func (u *undoing) add(step func() error) { u.steps = append(u.steps, step) }

func (u *undoing) onError(err *error) {
	if *err == nil {
		return
	}
	for _, step := range slices.Backward(u.steps) {
		*err = errors.Join(*err, step())
	}
}
