// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
)

// program installs the states in the kernel: first those for receiving, then those for sending.
func (ins *installer) program(kernel Kernel, ownAddress netip.Addr, w *wants) error {
	have, err := kernel.States()
	if err != nil {
		return err
	}
	incoming, err := ins.incoming(ownAddress, w)
	if err != nil {
		return err
	}
	known := map[xfrm.Name]bool{}
	for i := range have {
		known[have[i].Name] = true
	}
	var all error
	for name, state := range incoming {
		if !known[name] {
			all = errors.Join(all, ins.addIncoming(kernel, state))
		}
	}
	all = errors.Join(all, ins.send(kernel, ownAddress, w, have))
	for i := range have {
		name := have[i].Name
		other := name.From
		if other == ownAddress {
			other = name.To
		}
		if incoming[name] != nil || w.kept[other] || !w.complete || name.From == ownAddress && ins.keeps(name, w) {
			continue
		}
		all = errors.Join(all, kernel.RemoveState(name))
		if name.To == ownAddress {
			ins.removed[name] = true
		}
	}
	return errors.Join(all, ins.forgetPeers(kernel, w))
}

// addIncoming installs a state for receiving. A state that existed before would accept packets that were recorded then, and one whose SPI
// belongs to another state receives nothing: in both cases the node gets another key soon.
func (ins *installer) addIncoming(kernel Kernel, state *xfrm.State) error {
	err := kernel.AddState(state)
	if errors.Is(err, unix.EEXIST) || err == nil && ins.removed[state.Name] {
		delete(ins.removed, state.Name)
		ins.log.Info("the node gets another key soon", "peer", state.From, "error", err)
		ins.keys.ring.Hasten()
	}
	return err
}

// keeps reports whether the kernel goes on sending by a state: the one that was installed last, or one of a former agent if none was.
func (ins *installer) keeps(name xfrm.Name, w *wants) bool {
	sent := ins.sent[name.To]
	return w.peers[name.To] != nil && (sent == nil || sent.spi == name.SPI)
}

// incoming returns the states by which the kernel receives from peers.
func (ins *installer) incoming(ownAddress netip.Addr, w *wants) (map[xfrm.Name]*xfrm.State, error) {
	states := map[xfrm.Name]*xfrm.State{}
	peerKeys := map[security.Public]bool{}
	for address, peer := range w.peers {
		for _, key := range peer.Keys {
			peerKeys[key] = true
			announced := ins.peers.raise(key, peer.Sender)
			for _, mine := range ins.keys.ring.Announced() {
				if err := addStates(states, mine, security.End{Address: address, Key: key}, ownAddress, announced); err != nil {
					return nil, err
				}
			}
		}
	}
	for key := range ins.peers.floors {
		if !peerKeys[key] {
			delete(ins.peers.floors, key)
		}
	}
	ins.keys.ring.Forget(peerKeys)
	return states, nil
}

// addStates adds the states for a key of a peer.
func addStates(states map[xfrm.Name]*xfrm.State, mine *security.Key, from security.End, ownAddress netip.Addr, announced v1alpha1.SenderGenerations) error {
	for sender, generation := range map[security.Sender]int64{security.Kernel: announced.Kernel, security.Ktsnd: announced.Ktsnd} {
		for _, g := range security.Window(sender, generation) {
			association, err := mine.Incoming(from, ownAddress, sender, g)
			if err != nil {
				return err
			}
			name := xfrm.Name{From: from.Address, To: ownAddress, SPI: association.SPI}
			states[name] = &xfrm.State{Name: name, Key: association.Key, Incoming: true}
		}
	}
	return nil
}

// send installs unused keys for sending to all peers that accept them.
func (ins *installer) send(kernel Kernel, ownAddress netip.Addr, w *wants, have []xfrm.Found) error {
	packets := map[xfrm.Name]uint64{}
	for i := range have {
		packets[have[i].Name] = have[i].Packets + 1
	}
	lost := func(address netip.Addr, current bool) bool {
		if !current {
			return false
		}
		count := packets[xfrm.Name{From: ownAddress, To: address, SPI: ins.sent[address].spi}]
		return count == 0 || count > maxPackets
	}
	if ins.mustRenew(ins.keys.kernel, ins.sent, w, lost) {
		if err := ins.keys.kernel.Renew(); err != nil {
			return err
		}
	}
	policies, err := kernel.Peers()
	if err != nil {
		return err
	}
	known := map[netip.Addr]bool{}
	for _, address := range policies {
		known[address] = true
	}
	var all error
	for address, peer := range w.peers {
		all = errors.Join(all, ins.sendTo(kernel, ownAddress, address, peer, w))
		if !known[address] {
			all = errors.Join(all, kernel.AddPeer(ownAddress, address))
		}
	}
	return all
}

func (ins *installer) sendTo(kernel Kernel, ownAddress, address netip.Addr, peer *Trusted, w *wants) error {
	to := security.End{Address: address, Key: peer.Keys[0]}
	if ins.sent[address].current(ins.keys.ring.Current().Public, to, ins.keys.kernel) || !ins.reached(address, w.statements[address], ins.keys.kernel, security.Kernel) {
		return nil
	}
	associations, err := ins.keys.kernel.Take(ownAddress, to)
	if err != nil || len(associations) == 0 {
		return err
	}
	state := &xfrm.State{Name: xfrm.Name{From: ownAddress, To: address, SPI: associations[0].SPI}, Key: associations[0].Key}
	if err := kernel.AddState(state); err != nil {
		return err
	}
	ins.sent[address] = &handed{ins.keys.ring.Current().Public, to, ins.keys.kernel.Generation(), associations[0].SPI}
	return nil
}

// current reports whether this is the association by which a sender should send now.
func (h *handed) current(ownKey security.Public, to security.End, by *security.Outgoing) bool {
	return h != nil && h.local == ownKey && h.to == to && h.serial == by.Generation()
}

// reached reports whether a peer that got statement about this node accepts what a sender would send now.
func (ins *installer) reached(address netip.Addr, statement *Trusted, by *security.Outgoing, sender security.Sender) bool {
	return ins.reaches(address, statement, sender, by.Generation())
}

func (ins *installer) reaches(address netip.Addr, statement *Trusted, sender security.Sender, generation uint32) bool {
	if statement == nil || ins.keys.settling() {
		return false
	}
	announced := min(generationOf(sender, &statement.Sender), ins.peers.accepted(address, sender))
	return slices.Contains(statement.Keys, ins.keys.ring.Current().Public) && announced > 0 && security.Reaches(sender, announced, generation)
}

// mustRenew reports whether a sender needs unused generations: it would get keys again that it had, because it lost them or a peer returned
// with its former key, or outdated returns true for a peer. current tells outdated that the sender's association for the peer is current.
func (ins *installer) mustRenew(by *security.Outgoing, have map[netip.Addr]*handed, w *wants, outdated func(address netip.Addr, current bool) bool) bool {
	for address, peer := range w.peers {
		to := security.End{Address: address, Key: peer.Keys[0]}
		current := have[address].current(ins.keys.ring.Current().Public, to, by)
		if !current && by.Taken(to) || outdated(address, current) {
			return true
		}
	}
	return false
}

// expel removes from the kernel the states of nodes that are not trusted any more. They do not linger.
func (ins *installer) expel(kernel Kernel, ownAddress netip.Addr, w *wants) error {
	var all error
	for address := range w.rejected {
		if w.peers[address] == nil {
			delete(w.kept, address)
		}
		if given := ins.sent[address]; w.rejects(address, given) {
			if err := kernel.RemoveState(xfrm.Name{From: ownAddress, To: address, SPI: given.spi}); err != nil {
				all = errors.Join(all, err)
				continue
			}
			delete(ins.sent, address)
		}
	}
	return all
}

// forgetPeers removes the policies of nodes that are no peers any more.
func (ins *installer) forgetPeers(kernel Kernel, w *wants) error {
	if !w.complete {
		return nil
	}
	for address := range ins.sent {
		if w.peers[address] == nil && !w.kept[address] {
			delete(ins.sent, address)
		}
	}
	policies, err := kernel.Peers()
	if err != nil {
		return err
	}
	var all error
	for _, address := range policies {
		if w.peers[address] == nil && !w.kept[address] {
			all = errors.Join(all, kernel.RemovePeer(address))
		}
	}
	return all
}
