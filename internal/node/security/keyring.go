// SPDX-License-Identifier: Apache-2.0

package security

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"time"
)

// Times are how long keys last.
type Times struct {
	// Period is how often the node gets another key.
	Period time.Duration
	// Lead is for how long the next key is announced before it is used, and the last one accepted afterwards.
	Lead time.Duration
}

// DefaultTimes have a key used for an hour.
var DefaultTimes = Times{Period: time.Hour, Lead: 10 * time.Minute}

// Key is one of a node's keys.
type Key struct {
	Public  Public
	Made    time.Time
	private *ecdh.PrivateKey
	// secrets are those with other keys.
	secrets map[Public]secret
}

// idBytes are those of a public key that tell the keys of a node apart.
const idBytes = 8

// ID tells the keys of a node apart.
func (p Public) ID() string { return hex.EncodeToString(p[:idBytes]) }

// Keyring is the node's keys.
type Keyring struct {
	times Times
	store store
	now   func() time.Time

	ring     string
	revision uint64
	// next and previous may be nil.
	current, next, previous *Key
	promoted                time.Time
	// hastened has the next key made before it is time.
	hastened bool
	// last are the generations that were handed out last.
	last map[Sender]uint32
}

// Open opens the node's keyring in a folder; witnessDir is one that ends with the boot. why says why all begins anew, "" where it
// does not.
func Open(dir, witnessDir string, times Times, now func() time.Time) (ring *Keyring, why string, err error) {
	k := &Keyring{times: times, store: store{dir, witnessDir}, now: now}
	have, why, err := k.store.load()
	if err != nil {
		return nil, "", err
	}
	if have != nil {
		if err := k.read(have); err == nil {
			return k, "", nil
		}
		why = "the node's keys cannot be read"
	}
	id := make([]byte, idBytes)
	_, _ = rand.Read(id) // never fails
	k.ring, k.last = hex.EncodeToString(id), map[Sender]uint32{}
	if k.current, err = k.newKey(); err != nil {
		return nil, "", err
	}
	k.promoted = now()
	if err := k.save(); err != nil {
		return nil, "", err
	}
	return k, why, nil
}

// Remove removes the keyring of a folder.
func Remove(dir, witnessDir string) error { return store{dir, witnessDir}.remove() }

func (k *Keyring) newKey() (*Key, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for the node: %w", err)
	}
	return keyOf(private, k.now()), nil
}

func keyOf(private *ecdh.PrivateKey, made time.Time) *Key {
	key := &Key{Made: made, private: private, secrets: map[Public]secret{}}
	copy(key.Public[:], private.PublicKey().Bytes())
	return key
}

func (k *Keyring) read(have *stored) error {
	var all error
	key := func(from *storedKey) *Key {
		if from == nil {
			return nil
		}
		private, err := ecdh.X25519().NewPrivateKey(from.Private)
		if err != nil {
			all = errors.Join(all, err)
			return nil
		}
		return keyOf(private, time.Unix(from.MadeUnix, 0))
	}
	k.ring, k.revision, k.promoted = have.Ring, have.Revision, time.Unix(have.PromotedUnix, 0)
	k.current, k.next, k.previous = key(have.Current), key(have.Next), key(have.Previous)
	k.last = map[Sender]uint32{Kernel: have.Kernel, Ktsnd: have.Ktsnd}
	if k.current == nil {
		all = errors.Join(all, errors.New("there is no current key"))
	}
	return all
}

func (k *Keyring) save() error {
	key := func(from *Key) *storedKey {
		if from == nil {
			return nil
		}
		return &storedKey{from.private.Bytes(), from.Made.Unix()}
	}
	k.revision++
	return k.store.save(&stored{
		Ring: k.ring, Revision: k.revision, Current: key(k.current), Next: key(k.next), Previous: key(k.previous),
		PromotedUnix: k.promoted.Unix(), Kernel: k.last[Kernel], Ktsnd: k.last[Ktsnd],
	})
}

// Current is the key that is in use.
func (k *Keyring) Current() *Key { return k.current }

// Announced are the keys that others take packets by, and may use, the current one first: beside it the next one, or the last one as long
// as it is not forgotten. There are never both.
func (k *Keyring) Announced() []*Key {
	all := []*Key{k.current}
	for _, key := range []*Key{k.next, k.previous} {
		if key != nil {
			all = append(all, key)
		}
	}
	return all
}

// Roll brings the keys up to date: it makes the next one, has that take the place of the current one, and forgets the last one. told
// tells whether others have been told of a key, first whether they have been told that it is the one to send to, used whether this node
// still sends by it. A node of which others cannot hear keeps what it has, and so does one whose ktsnd goes on with the last key.
func (k *Keyring) Roll(told, first, used func(Public) bool) (changed bool, err error) {
	now := k.now()
	before := *k
	if k.previous != nil && !first(k.current.Public) {
		k.promoted = now // for others
	}
	if k.previous != nil && now.Sub(k.promoted) >= k.times.Lead && !used(k.previous.Public) {
		k.previous = nil
	}
	switch {
	case k.previous != nil: // one change at a time
	case k.next != nil && now.Sub(k.next.Made) >= k.times.Lead && told(k.next.Public):
		k.previous, k.current, k.next, k.promoted = k.current, k.next, nil, now
	case k.next == nil && (k.hastened || now.Sub(k.current.Made) >= k.times.Period) && told(k.current.Public):
		if k.next, err = k.newKey(); err != nil {
			return false, err
		}
		k.hastened = false
	}
	if k.next == before.next && k.previous == before.previous && k.current == before.current {
		return false, nil
	}
	if err := k.save(); err != nil {
		k.current, k.next, k.previous, k.promoted = before.current, before.next, before.previous, before.promoted
		return false, err
	}
	return true, nil
}

// Hasten has the next key made at once.
func (k *Keyring) Hasten() { k.hastened = true }

// Due is when Roll has something to do, whatever others are told.
func (k *Keyring) Due() time.Time {
	due := k.current.Made.Add(k.times.Period)
	if k.next != nil {
		due = k.next.Made.Add(k.times.Lead)
	}
	if k.previous != nil && k.promoted.Add(k.times.Lead).Before(due) {
		due = k.promoted.Add(k.times.Lead)
	}
	return due
}

// reserve hands out generations of a sender above a given one, which nobody has had, and returns the first. They are written down when it
// returns.
func (k *Keyring) reserve(sender Sender, above, count uint32) (first uint32, err error) {
	last := max(above, k.last[sender])
	if last > math.MaxUint32-count {
		return 0, fmt.Errorf("the generations of the node's keys are used up; remove %s and start the agent again", k.store.dir)
	}
	k.last[sender] = last + count
	if err := k.save(); err != nil {
		return 0, err // what may be on the disk already is not handed out
	}
	return last + 1, nil
}

// Incoming is the association by which another node sends to one of this node's keys.
func (k *Key) Incoming(from End, to netip.Addr, sender Sender, generation uint32) (Association, error) {
	shared, err := k.secret(from.Key)
	if err != nil {
		return Association{}, err
	}
	return shared.derive(from, End{to, k.Public}, sender, generation)
}

// outgoing is the association by which this node sends to another one's key.
func (k *Key) outgoing(from netip.Addr, to End, sender Sender, generation uint32) (Association, error) {
	shared, err := k.secret(to.Key)
	if err != nil {
		return Association{}, err
	}
	return shared.derive(End{from, k.Public}, to, sender, generation)
}

func (k *Key) secret(other Public) (secret, error) {
	if have := k.secrets[other]; have != nil {
		return have, nil
	}
	made, err := newSecret(k.private, other)
	if err == nil {
		k.secrets[other] = made
	}
	return made, err
}

// Forget forgets the secrets with keys that are none of these.
func (k *Keyring) Forget(but map[Public]bool) {
	for _, key := range k.Announced() {
		maps.DeleteFunc(key.secrets, func(other Public, _ secret) bool { return !but[other] })
	}
}
