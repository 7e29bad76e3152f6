// SPDX-License-Identifier: Apache-2.0

package security

import "net/netip"

// Outgoing hands out the associations of one sender of the node.
type Outgoing struct {
	ring   *Keyring
	sender Sender
	// width is the number of associations for each node in one life of the sender.
	width uint32
	// first is the first generation of this life, 0 before the first life.
	first uint32
	used  map[pairing]bool
}

// pairing identifies the associations of one generation.
type pairing struct {
	local Public
	to    End
}

// NewOutgoing starts a life of the sender with unused generations.
func NewOutgoing(ring *Keyring, sender Sender, width uint32) (*Outgoing, error) {
	o := &Outgoing{ring: ring, sender: sender, width: width}
	if err := o.Renew(); err != nil {
		return nil, err
	}
	return o, nil
}

// Renew starts a new life of the sender, whose packet counters restart, with unused generations. Generations of which no
// association was handed out are kept.
func (o *Outgoing) Renew() error {
	if o.first != 0 && len(o.used) == 0 {
		return nil
	}
	return o.renewAbove(0)
}

// RenewAbove starts a new life with generations above one that the sender has used without this Outgoing's knowledge.
func (o *Outgoing) RenewAbove(used uint32) error {
	if o.first > used {
		return o.Renew()
	}
	return o.renewAbove(used)
}

func (o *Outgoing) renewAbove(used uint32) error {
	first, err := o.ring.reserve(o.sender, used, o.width)
	if err != nil {
		return err
	}
	o.first, o.used = first, map[pairing]bool{}
	return nil
}

// Generation returns the first generation that Take hands out.
func (o *Outgoing) Generation() uint32 { return o.first }

// Taken reports whether Take has handed out the associations from the current key to a node.
func (o *Outgoing) Taken(to End) bool { return o.used[pairing{o.ring.current.Public, to}] }

// Take hands out the associations to a node. It returns none if it has done so already; call Renew first then.
func (o *Outgoing) Take(from netip.Addr, to End) ([]Association, error) {
	at := pairing{o.ring.current.Public, to}
	if o.used[at] {
		return nil, nil
	}
	var all []Association
	for generation := o.first; generation < o.first+o.width; generation++ {
		association, err := o.ring.current.outgoing(from, to, o.sender, generation)
		if err != nil {
			return nil, err
		}
		all = append(all, association)
	}
	o.used[at] = true
	return all, nil
}
