// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
)

const (
	// kernelWidth and ktsndWidth are how many associations each life of a sender gets.
	kernelWidth, ktsndWidth = 1, security.KtsndLife
)

// nodeKeys are the node's keys, and what the node announces of them.
type nodeKeys struct {
	// settle is how long other nodes may take to accept a key after the API server has it.
	settle time.Duration
	now    func() time.Time

	// ring is nil while the node has no keys.
	ring          *security.Keyring
	kernel, ktsnd *security.Outgoing
	// generations are those that the node announces.
	generations *v1alpha1.SenderGenerations
	// publishedAt is when the other nodes' API objects had each key first.
	publishedAt map[security.Public]time.Time
}

// open opens the keyring. reason is why it is a new one, "" if it is not.
func (k *nodeKeys) open(openRing func() (*security.Keyring, string, error)) (reason string, err error) {
	ring, reason, err := openRing()
	if err != nil {
		return "", err
	}
	kernel, err := security.NewOutgoing(ring, security.Kernel, kernelWidth)
	if err != nil {
		return "", err
	}
	ktsnd, err := security.NewOutgoing(ring, security.Ktsnd, ktsndWidth)
	if err != nil {
		return "", err
	}
	k.ring, k.kernel, k.ktsnd, k.generations, k.publishedAt = ring, kernel, ktsnd, nil, map[security.Public]time.Time{}
	if reason == "" {
		for _, key := range ring.Announced() {
			k.publishedAt[key.Public] = key.Made // by the agent before this one
		}
	}
	return reason, nil
}

// close forgets the keyring.
func (k *nodeKeys) close() { *k = nodeKeys{settle: k.settle, now: k.now} }

// announcement returns what the node announces while it has keys.
func (k *nodeKeys) announcement() Announcement {
	a := Announcement{Sender: k.generations}
	for _, key := range k.ring.Announced() {
		a.Keys = append(a.Keys, v1alpha1.NodeKey{
			ID: key.Public.ID(), Algorithm: v1alpha1.KeyAlgorithm, PublicKey: key.Public.String(), NotBefore: metav1.NewTime(key.Made),
		})
	}
	return a
}

// noteKeys notes when keys were first published to other nodes.
func (k *nodeKeys) noteKeys(w *wants) {
	published := map[security.Public]time.Time{}
	for _, statement := range w.ownStatements {
		for i := 0; statement != nil && i < len(statement.Keys); i++ {
			since := k.publishedAt[statement.Keys[i]]
			if since.IsZero() {
				since = k.now()
			}
			published[statement.Keys[i]] = since
		}
	}
	if len(published) > 0 {
		k.publishedAt = published
	}
}

// settling reports whether other nodes may not accept the current key yet.
func (k *nodeKeys) settling() bool {
	if k.ring == nil {
		return false
	}
	since := k.publishedAt[k.ring.Current().Public]
	return !since.IsZero() && k.now().Sub(since) < k.settle
}

// publishedTo reports whether the statement for a peer has the current key and at least the announced generations.
func (k *nodeKeys) publishedTo(statement *Trusted) bool {
	return statement != nil && slices.Contains(statement.Keys, k.ring.Current().Public) && !slices.ContainsFunc(senders, func(sender security.Sender) bool {
		return generationOf(sender, k.generations) > generationOf(sender, &statement.Sender)
	})
}

// generationToAnnounce returns the generation of a sender by which it sends to all peers, or an earlier one until it does, as far as the
// peers with both statements accept both. It does not wait for silent peers, which have got none. It never goes back: what was
// announced was in use everywhere else.
func (k *nodeKeys) generationToAnnounce(by *security.Outgoing, sender security.Sender, given map[netip.Addr]*handed, peers *peerState, w *wants) int64 {
	sends := int64(by.Generation())
	announced := generationOf(sender, k.generations)
	for _, statement := range w.ownStatements {
		if statement != nil {
			announced = max(announced, generationOf(sender, &statement.Sender))
		}
	}
	silent := peers.silent()
	for address := range w.peers {
		if announced > 0 && !silent[address] && (given[address] == nil || given[address].serial != by.Generation()) {
			return min(sends, max(announced, security.Before(sender, by.Generation())))
		}
	}
	return sends
}

// generationOf returns the generation of one sender, 0 if there is none.
func generationOf(sender security.Sender, generations *v1alpha1.SenderGenerations) int64 {
	switch {
	case generations == nil:
		return 0
	case sender == security.Ktsnd:
		return generations.Ktsnd
	default:
		return generations.Kernel
	}
}
