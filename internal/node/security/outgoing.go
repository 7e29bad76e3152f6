// SPDX-License-Identifier: Apache-2.0

package security

import "net/netip"

// Outgoing hands out the associations by which one sender of the node sends.
type Outgoing struct {
	ring   *Keyring
	sender Sender
	// width is how many associations a life of the sender gets for each node.
	width uint32
	// first is the generation of this life, 0 before the first one.
	first uint32
	used  map[pairing]bool
}

// pairing is what associations of one generation differ in.
type pairing struct {
	own Public
	to  End
}

// NewOutgoing begins with a generation that nobody has used, whatever was handed out before.
func NewOutgoing(ring *Keyring, sender Sender, width uint32) (*Outgoing, error) {
	o := &Outgoing{ring: ring, sender: sender, width: width}
	if err := o.Renew(); err != nil {
		return nil, err
	}
	return o, nil
}

// Renew goes on with generations that nobody has used: for a sender that begins to count anew. Where none has been handed out yet, these are
// what there is.
func (o *Outgoing) Renew() error {
	if o.first != 0 && len(o.used) == 0 {
		return nil
	}
	return o.renewAbove(0)
}

// RenewAbove goes on with generations above one that the sender has used, though it is not known here.
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

// Generation is the first one of what Take hands out.
func (o *Outgoing) Generation() uint32 { return o.first }

// Taken tells whether Take has handed out those to a node already, by the key that the node uses now.
func (o *Outgoing) Taken(to End) bool { return o.used[pairing{o.ring.current.Public, to}] }

// Take hands out the associations to a node, none if it has done so already: then Renew first.
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
