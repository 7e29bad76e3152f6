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

// Times are the lifetimes of keys.
type Times struct {
	// Period is the time between the creation of two keys.
	Period time.Duration
	// Lead is how long the next key is announced before it is used, and how long the previous one is accepted afterwards.
	Lead time.Duration
}

// DefaultTimes use each key for about an hour.
var DefaultTimes = Times{Period: time.Hour, Lead: 10 * time.Minute}

// Key is one of a node's keys.
type Key struct {
	Public  Public
	Made    time.Time
	private *ecdh.PrivateKey
	// secrets has the secrets shared with other keys.
	secrets map[Public]secret
}

// idBytes is the length of the prefix of a public key that identifies it among the keys of a node.
const idBytes = 8

// ID returns the identifier of a key among the keys of a node.
func (p Public) ID() string { return hex.EncodeToString(p[:idBytes]) }

// Keyring has the node's keys.
type Keyring struct {
	times Times
	store store
	now   func() time.Time

	ring     string
	revision uint64
	// next and previous may be nil.
	current, next, previous *Key
	promoted                time.Time
	// hastened requests the next key before its time.
	hastened bool
	// last has the last generation handed out to each sender.
	last map[Sender]uint32
}

// Open opens the node's keyring in a folder; witnessDir is a folder that does not survive a reboot. why is the reason for a new
// keyring, "" for an existing one.
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
		return nil, fmt.Errorf("create a key for the node: %w", err)
	}
	return keyOf(private, k.now()), nil
}

func keyOf(private *ecdh.PrivateKey, created time.Time) *Key {
	key := &Key{Made: created, private: private, secrets: map[Public]secret{}}
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

// Current returns the key in use.
func (k *Keyring) Current() *Key { return k.current }

// Announced returns the keys that other nodes accept and may use: the current one first, followed by the next one or the previous
// one. There are never both.
func (k *Keyring) Announced() []*Key {
	all := []*Key{k.current}
	for _, key := range []*Key{k.next, k.previous} {
		if key != nil {
			all = append(all, key)
		}
	}
	return all
}

// Roll rotates the keys when they are due: it creates the next key, makes it the current one, and forgets the previous one.
// announced reports whether other nodes know a key, preferred whether they know it as the key to send to, used whether this node
// still sends with it. Roll keeps the keys while announcements do not reach other nodes or ktsnd still uses the previous key.
func (k *Keyring) Roll(announced, preferred, used func(Public) bool) (changed bool, err error) {
	now := k.now()
	before := *k
	if k.previous != nil && !preferred(k.current.Public) {
		k.promoted = now // other nodes do not send to it yet
	}
	if k.previous != nil && now.Sub(k.promoted) >= k.times.Lead && !used(k.previous.Public) {
		k.previous = nil
	}
	switch {
	case k.previous != nil: // one change at a time
	case k.next != nil && now.Sub(k.next.Made) >= k.times.Lead && announced(k.next.Public):
		k.previous, k.current, k.next, k.promoted = k.current, k.next, nil, now
	case k.next == nil && (k.hastened || now.Sub(k.current.Made) >= k.times.Period) && announced(k.current.Public):
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

// Hasten makes the next Roll create the next key without waiting for Period.
func (k *Keyring) Hasten() { k.hastened = true }

// Due returns the time of the next change by Roll, apart from announcements.
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

// reserve reserves count unused generations of a sender, all above the given one, and returns the first. When it returns they
// are on the disk.
func (k *Keyring) reserve(sender Sender, above, count uint32) (first uint32, err error) {
	last := max(above, k.last[sender])
	if last > math.MaxUint32-count {
		return 0, fmt.Errorf("the generations of the node's keys are used up; remove %s and start the agent again", k.store.dir)
	}
	k.last[sender] = last + count
	if err := k.save(); err != nil {
		return 0, err // they may be on the disk: do not hand them out again
	}
	return last + 1, nil
}

// Incoming returns the association with which another node sends to this key.
func (k *Key) Incoming(from End, to netip.Addr, sender Sender, generation uint32) (Association, error) {
	shared, err := k.secret(from.Key)
	if err != nil {
		return Association{}, err
	}
	return shared.derive(from, End{to, k.Public}, sender, generation)
}

// outgoing returns the association with which this node sends to another node's key.
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
	shared, err := newSecret(k.private, other)
	if err == nil {
		k.secrets[other] = shared
	}
	return shared, err
}

// Forget removes the secrets with all keys but the given ones.
func (k *Keyring) Forget(but map[Public]bool) {
	for _, key := range k.Announced() {
		maps.DeleteFunc(key.secrets, func(other Public, _ secret) bool { return !but[other] })
	}
}
