// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
)

// program gives the kernel the keys: first those by which others send, then those by which it sends itself.
func (r *Reconciler) program(kernel Kernel, own netip.Addr, w *wants) error {
	have, err := kernel.States()
	if err != nil {
		return err
	}
	incoming, err := r.incoming(own, w)
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
			all = errors.Join(all, r.take(kernel, state))
		}
	}
	all = errors.Join(all, r.send(kernel, own, w, have))
	for i := range have {
		name := have[i].Name
		other := name.From
		if other == own {
			other = name.To
		}
		if incoming[name] != nil || w.kept[other] || !w.complete || name.From == own && r.keeps(name, w) {
			continue
		}
		all = errors.Join(all, kernel.RemoveState(name))
		if name.To == own {
			r.removed[name] = true
		}
	}
	return errors.Join(all, r.forgetPeers(kernel, w))
}

// take has the kernel take packets by a state. One that was there before would take packets once more that were recorded then, and one of
// which the number is another's takes none: both last until this node has another key.
func (r *Reconciler) take(kernel Kernel, state *xfrm.State) error {
	err := kernel.AddState(state)
	if errors.Is(err, unix.EEXIST) || err == nil && r.removed[state.Name] {
		delete(r.removed, state.Name)
		r.Log.Info("the node gets another key soon", "peer", state.From, "error", err)
		r.ring.Hasten()
	}
	return err
}

// keeps tells whether the kernel goes on sending by a state: the one that it was given, or one from before if it was not given any.
func (r *Reconciler) keeps(name xfrm.Name, w *wants) bool {
	sent := r.sent[name.To]
	return w.peers[name.To] != nil && (sent == nil || sent.spi == name.SPI)
}

// incoming are the states by which the kernel takes what peers send.
func (r *Reconciler) incoming(own netip.Addr, w *wants) (map[xfrm.Name]*xfrm.State, error) {
	states := map[xfrm.Name]*xfrm.State{}
	others := map[security.Public]bool{}
	for address, peer := range w.peers {
		for _, key := range peer.Keys {
			others[key] = true
			announced := r.raise(key, peer.Sender)
			for _, mine := range r.ring.Announced() {
				if err := addIncoming(states, mine, security.End{Address: address, Key: key}, own, announced); err != nil {
					return nil, err
				}
			}
		}
	}
	for key := range r.floors {
		if !others[key] {
			delete(r.floors, key)
		}
	}
	r.ring.Forget(others)
	return states, nil
}

func addIncoming(states map[xfrm.Name]*xfrm.State, mine *security.Key, from security.End, own netip.Addr, announced v1alpha1.SenderGenerations) error {
	for sender, generation := range map[security.Sender]int64{security.Kernel: announced.Kernel, security.Ktsnd: announced.Ktsnd} {
		for _, one := range security.Window(sender, generation) {
			made, err := mine.Incoming(from, own, sender, one)
			if err != nil {
				return err
			}
			name := xfrm.Name{From: from.Address, To: own, SPI: made.SPI}
			states[name] = &xfrm.State{Name: name, Key: made.Key, Incoming: true}
		}
	}
	return nil
}

// raise never goes back with what a key has announced: a state that is made anew would take packets once more that were taken already.
func (r *Reconciler) raise(key security.Public, announced v1alpha1.SenderGenerations) v1alpha1.SenderGenerations {
	before := r.floors[key]
	after := v1alpha1.SenderGenerations{Kernel: max(before.Kernel, announced.Kernel), Ktsnd: max(before.Ktsnd, announced.Ktsnd)}
	r.floors[key] = after
	return after
}

// send has the kernel send by keys that nobody has used, to all peers that can take them.
func (r *Reconciler) send(kernel Kernel, own netip.Addr, w *wants, have []xfrm.Found) error {
	packets := map[xfrm.Name]uint64{}
	for i := range have {
		packets[have[i].Name] = have[i].Packets + 1
	}
	lost := func(address netip.Addr, current bool) bool {
		if !current {
			return false
		}
		made := packets[xfrm.Name{From: own, To: address, SPI: r.sent[address].spi}]
		return made == 0 || made > mostPackets
	}
	if r.mustRenew(r.kernel, r.sent, w, lost) {
		if err := r.kernel.Renew(); err != nil {
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
		all = errors.Join(all, r.sendTo(kernel, own, address, peer, w))
		if !known[address] {
			all = errors.Join(all, kernel.AddPeer(own, address))
		}
	}
	return all
}

func (r *Reconciler) sendTo(kernel Kernel, own, address netip.Addr, peer *Trusted, w *wants) error {
	to := security.End{Address: address, Key: peer.Keys[0]}
	if r.sent[address].is(r.ring.Current().Public, to, r.kernel) || !r.reached(address, w.own[address], r.kernel, security.Kernel) {
		return nil
	}
	all, err := r.kernel.Take(own, to)
	if err != nil || len(all) == 0 {
		return err
	}
	state := &xfrm.State{Name: xfrm.Name{From: own, To: address, SPI: all[0].SPI}, Key: all[0].Key}
	if err := kernel.AddState(state); err != nil {
		return err
	}
	r.sent[address] = &handed{r.ring.Current().Public, to, r.kernel.Generation(), all[0].SPI}
	return nil
}

// is tells whether this is what a sender shall send by now.
func (h *handed) is(own security.Public, to security.End, by *security.Outgoing) bool {
	return h != nil && h.own == own && h.to == to && h.serial == by.Generation()
}

// reached tells whether the node at an address, which is told this of the present one, takes what a sender would send by now.
func (r *Reconciler) reached(address netip.Addr, own *Trusted, by *security.Outgoing, sender security.Sender) bool {
	return r.reaches(address, own, sender, by.Generation())
}

func (r *Reconciler) reaches(address netip.Addr, own *Trusted, sender security.Sender, generation uint32) bool {
	if own == nil || r.settles() {
		return false
	}
	announced := min(generationOf(sender, &own.Sender), r.taken(address, sender))
	known := false
	for _, key := range own.Keys {
		known = known || key == r.ring.Current().Public
	}
	return known && announced > 0 && security.Reaches(sender, announced, generation)
}

// announced is the generation that the node announces of a sender: the one by which it sends to all, or an earlier one until it does, as
// far as those that hear it take both. It does not wait for peers that are silent: those have not heard of any of them. It never goes back:
// what was announced was in use everywhere else.
func (r *Reconciler) announced(by *security.Outgoing, sender security.Sender, have map[netip.Addr]*handed, w *wants) int64 {
	sends := int64(by.Generation())
	said := generationOf(sender, r.generations)
	for _, own := range w.told {
		if own != nil {
			said = max(said, generationOf(sender, &own.Sender))
		}
	}
	silent := r.silent()
	for address := range w.peers {
		if said > 0 && !silent[address] && (have[address] == nil || have[address].serial != by.Generation()) {
			return min(sends, max(said, security.Before(sender, by.Generation())))
		}
	}
	return sends
}

// generationOf is what is said of one sender, 0 where nothing is.
func generationOf(sender security.Sender, said *v1alpha1.SenderGenerations) int64 {
	switch {
	case said == nil:
		return 0
	case sender == security.Ktsnd:
		return said.Ktsnd
	default:
		return said.Kernel
	}
}

// mustRenew tells whether a sender needs generations that nobody has used: it would get keys again that it had, since it lost them or a
// node came back with its key from before, or outdated says so of a node; current tells that what it has for that one is by the keys of now.
func (r *Reconciler) mustRenew(by *security.Outgoing, have map[netip.Addr]*handed, w *wants, outdated func(address netip.Addr, current bool) bool) bool {
	for address, peer := range w.peers {
		to := security.End{Address: address, Key: peer.Keys[0]}
		current := have[address].is(r.ring.Current().Public, to, by)
		if !current && by.Taken(to) || outdated(address, current) {
			return true
		}
	}
	return false
}

// forgetPeers has the kernel send to nobody to whom it is not to send.
func (r *Reconciler) forgetPeers(kernel Kernel, w *wants) error {
	if !w.complete {
		return nil
	}
	for address := range r.sent {
		if w.peers[address] == nil && !w.kept[address] {
			delete(r.sent, address)
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
