// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"net/netip"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
)

// silentAfter is how long the announcement of generations waits for a peer that has not got them. It is shorter than the time for which
// a peer's last key is accepted, and longer than operators and hubs need.
const silentAfter = 20 * time.Second

// senders are those of a node.
var senders = []security.Sender{security.Kernel, security.Ktsnd}

// peerState has what was announced to each peer about this node, and which generations each peer has announced.
type peerState struct {
	// settle is how long a peer may take to accept a statement, linger how long an unplanned peer is kept.
	settle, linger time.Duration
	now            func() time.Time

	// announced is per peer: a peer without an announcement does not delay others.
	announced map[netip.Addr]*announcedPeer
	// firstAnnounced is when a generation was first announced to any peer.
	firstAnnounced map[senderGeneration]time.Time
	// floors are the latest generations that a peer's key has announced.
	floors map[security.Public]v1alpha1.SenderGenerations
	// goneSince is when peers were not wanted any more.
	goneSince map[netip.Addr]time.Time
}

// senderGeneration is a generation of a sender of this node.
type senderGeneration struct {
	sender     security.Sender
	generation int64
}

// announcedPeer is what was announced to one peer about this node.
type announcedPeer struct {
	senders map[security.Sender]*announcedGeneration
	// missingSince is since when the peer has got no announcement, zero if it has.
	missingSince time.Time
	// gone means that it is no peer now, and does not count for others.
	gone bool
}

// announcedGeneration has the generations of a sender that were announced to a peer. It accepts them after settle.
type announcedGeneration struct {
	former, latest int64
	since          time.Time
}

func (g *announcedGeneration) update(p *peerState, generation int64) (changed bool) {
	if generation == g.latest {
		return false
	}
	g.former, g.latest, g.since = g.accepted(p), generation, p.now()
	return true
}

// accepted returns the generation that the peer accepts now.
func (g *announcedGeneration) accepted(p *peerState) int64 {
	if p.now().Sub(g.since) < p.settle {
		return min(g.former, g.latest)
	}
	return g.latest
}

// reset forgets all peers.
func (p *peerState) reset() {
	*p = peerState{
		settle: p.settle, linger: p.linger, now: p.now, announced: map[netip.Addr]*announcedPeer{}, firstAnnounced: map[senderGeneration]time.Time{},
		floors: map[security.Public]v1alpha1.SenderGenerations{}, goneSince: map[netip.Addr]time.Time{},
	}
}

// accepted returns the generation of a sender that a peer accepts now, 0 if none was announced to it.
func (p *peerState) accepted(address netip.Addr, sender security.Sender) int64 {
	if peer := p.announced[address]; peer != nil {
		return peer.senders[sender].accepted(p)
	}
	return 0
}

// silent returns the peers that have not been told for so long, while others have been, that those do not wait for them. Where no peer is
// told, as while the API server does not answer, none is silent.
func (p *peerState) silent() map[netip.Addr]bool {
	silent, anyTold := map[netip.Addr]bool{}, false
	for address, peer := range p.announced {
		if peer.gone {
			continue
		}
		anyTold = anyTold || peer.missingSince.IsZero()
		if !peer.missingSince.IsZero() && p.now().Sub(peer.missingSince) >= silentAfter {
			silent[address] = true
		}
	}
	if !anyTold {
		return nil
	}
	return silent
}

// update records which keys and generations of the node were announced to the peers.
func (p *peerState) update(w *wants, keys *nodeKeys) {
	p.updateFirstAnnounced(w)
	for address := range w.peers {
		p.updatePeer(address, w.statements[address], keys)
	}
	for address, peer := range p.announced {
		peer.gone = w.peers[address] == nil
		if peer.gone && !w.kept[address] && w.complete {
			delete(p.announced, address)
		}
	}
}

// updateFirstAnnounced records when generations were first announced to any peer: a new peer knows them no later than this node.
func (p *peerState) updateFirstAnnounced(w *wants) {
	first := map[senderGeneration]time.Time{}
	for _, statement := range w.ownStatements {
		for _, sender := range senders {
			if statement == nil {
				continue
			}
			at := senderGeneration{sender, generationOf(sender, &statement.Sender)}
			if first[at] = p.firstAnnounced[at]; first[at].IsZero() {
				first[at] = p.now()
			}
		}
	}
	p.firstAnnounced = first
}

// updatePeer records the statement for a peer.
func (p *peerState) updatePeer(address netip.Addr, statement *Trusted, keys *nodeKeys) {
	generations := v1alpha1.SenderGenerations{}
	if statement != nil {
		generations = statement.Sender
	}
	peer, changed := p.announced[address], false
	if peer == nil {
		peer = &announcedPeer{senders: map[security.Sender]*announcedGeneration{}}
		for _, sender := range senders {
			latest := generationOf(sender, &generations)
			peer.senders[sender] = &announcedGeneration{latest: latest, since: p.firstAnnounced[senderGeneration{sender, latest}]}
		}
		p.announced[address] = peer
	}
	for _, sender := range senders {
		changed = peer.senders[sender].update(p, generationOf(sender, &generations)) || changed
	}
	switch {
	case keys.publishedTo(statement):
		peer.missingSince = time.Time{}
	case changed || peer.missingSince.IsZero():
		peer.missingSince = p.now()
	}
}

// settling reports whether a peer may not accept the last announcement yet.
func (p *peerState) settling() bool {
	for _, peer := range p.announced {
		for _, sender := range senders {
			if peer.senders[sender].accepted(p) != peer.senders[sender].latest {
				return true
			}
		}
	}
	return false
}

// keepGone keeps peers that are not wanted any more for a while. installed are those to which kernel or ktsnd send.
func (p *peerState) keepGone(w *wants, installed map[netip.Addr]bool) {
	now := p.now()
	for address := range installed {
		if w.peers[address] == nil && p.goneSince[address].IsZero() {
			p.goneSince[address] = now
		}
	}
	for address, since := range p.goneSince {
		if w.peers[address] != nil || now.Sub(since) >= p.linger {
			delete(p.goneSince, address)
			continue
		}
		w.kept[address] = true
	}
}

// raise returns the generations of a peer's key, which never go back: a recreated state would accept replayed packets.
func (p *peerState) raise(key security.Public, announced v1alpha1.SenderGenerations) v1alpha1.SenderGenerations {
	before := p.floors[key]
	after := v1alpha1.SenderGenerations{Kernel: max(before.Kernel, announced.Kernel), Ktsnd: max(before.Ktsnd, announced.Ktsnd)}
	p.floors[key] = after
	return after
}
