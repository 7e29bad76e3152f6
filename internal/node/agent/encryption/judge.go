// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// Judge says of a node's networks how they are encrypted. Its functions may be called by any goroutine.
type Judge struct {
	// Node is the name of the node.
	Node string

	mu sync.Mutex
	// unavailable is why the node cannot encrypt, nil if it can; tried tells whether that is known.
	unavailable error
	tried       bool
	// good are nodes as they were last believed.
	good map[goodKey]*Trusted
	// seen are the newest statements about nodes, by goodKey.String; unsaved tells that they are newer than the file.
	seen    map[string]security.Seen
	unsaved bool
	// own is what the node announces of itself.
	own Announcement
	// trouble is why not all is in force that shall be.
	trouble error
	// far are the nodes at the other ends of links, as they were judged last.
	far map[farKey]map[LinkMode]LinkState
}

// goodKey is a node as one network, or the node at the other end of links, knows it.
type goodKey struct{ network, cluster, node string }

// String is the key in the file of statements: no name has a blank.
func (k goodKey) String() string { return k.network + " " + k.cluster + " " + k.node }

// Announcement is what a node says of its keys.
type Announcement struct {
	Keys   []v1alpha1.NodeKey
	Sender *v1alpha1.SenderGenerations
	// Unavailable is why it has none, "" where it can encrypt.
	Unavailable string
}

// Trusted is a node whose cluster has signed what is said of it.
type Trusted struct {
	// Cluster is that which has signed it, "" for this node's.
	Cluster string
	Name    string
	Address netip.Addr
	// Subnets are its ranges of the network's addresses, none for a node at the other end of links.
	Subnets       []netip.Prefix
	Keys          []security.Public
	Sender        v1alpha1.SenderGenerations
	CannotEncrypt bool

	// by is the key by which the cluster signed.
	by clusterkey.Public
}

// Verdict is how a network is encrypted.
type Verdict struct {
	// Unknown is that not all is known on which it depends, and what is missing. What is in force stays.
	Unknown string
	// Active tells that frames are encrypted, or not sent.
	Active bool
	// Refused is why pods cannot be on it here, "" if they can.
	Refused string
	// Clear is why frames are not encrypted, "" if they are.
	Clear string
	// Cannot says of another node that it cannot encrypt, "" if all can.
	Cannot string
	// Peers are the other nodes to which frames can be encrypted, by their addresses.
	Peers map[netip.Addr]*Trusted
	// Own is what other nodes are told of this one, nil where they are not.
	Own *Trusted
	// Faults say of nodes why they are not believed, in order; Waited names those that have not announced keys.
	Faults []string
	Waited []string
	// Differs tells that one of Faults is about a cluster's key; Kept are addresses of nodes that are not believed now. Of these, what is
	// in force stays.
	Differs bool
	Kept    map[netip.Addr]bool
	// Local are the addresses of the nodes of this node's cluster that the cluster has signed.
	Local map[netip.Addr]bool
}

// SetUnavailable says why the node cannot encrypt, nil if it can.
func (j *Judge) SetUnavailable(err error) (changed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed = !j.tried || (err == nil) != (j.unavailable == nil) || err != nil && err.Error() != j.unavailable.Error()
	j.unavailable, j.tried = err, true
	return changed
}

// Announce says what the node announces of itself, and what does not hold.
func (j *Judge) announce(own *Announcement, trouble error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.own, j.trouble = *own, trouble
}

// Announced is what the node announces of itself.
func (j *Judge) Announced() Announcement {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.own
}

// Look judges one of the node's networks; nil: it asks for no encryption.
func (j *Judge) Look(joined *network.Joined) *Verdict {
	if joined.Object == nil || !joined.Object.Spec.Encrypted() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	parts := partsOf(joined.Object.Status.ClusterKeys)
	return j.judge(&scene{
		successions: successionsOf(joined.Object.Status.ClusterKeys),
		name:        joined.Part.Name, good: joined.Part.Name, required: joined.Object.Spec.Encryption == v1alpha1.EncryptionRequired,
		keys: keysOf(joined.Object.Status.ClusterKeys), shards: joined.Shards,
		misplaced: func(member *network.Member) error {
			if member.Cluster == "" {
				return nil
			}
			return cmp.Or(joined.Trespasses(member), outsidePart(member, parts[member.Cluster]))
		},
	})
}

// outsidePart says which range of a node is not in its cluster's part of the network. Parts of clusters have no address in common.
func outsidePart(member *network.Member, part clusterkey.Part) error {
	for _, subnet := range member.Subnets {
		switch {
		case !part.IPv4.IsValid():
			return fmt.Errorf("the operator has not pinned cluster %s's part of the network yet (ConfigMap %s)", member.Cluster, v1alpha1.ClusterKeyPins)
		case !part.Has(subnet):
			return fmt.Errorf("its %s is not in cluster %s's part of the network, %s", subnet, member.Cluster, part)
		}
	}
	return nil
}

// scene is what there is to judge.
type scene struct {
	// name is that which clusters sign, and good that by which nodes are remembered.
	name, good string
	required   bool
	keys       map[string]clusterkey.Public
	// successions are those of keys, by cluster. Other clusters' TSNPeers and links have theirs instead.
	successions map[string]string
	shards      [][]network.Member
	// misplaced says why a node of another cluster cannot have its ranges of addresses.
	misplaced func(*network.Member) error
}

// judge looks at all nodes. The lock is held.
func (j *Judge) judge(s *scene) *Verdict {
	v := &Verdict{Peers: map[netip.Addr]*Trusted{}, Kept: map[netip.Addr]bool{}, Local: map[netip.Addr]bool{}}
	switch {
	case !j.tried:
		v.Unknown = "the agent has not tried yet whether the node can encrypt"
		return v
	case s.shards == nil:
		v.Unknown = "the API server has not said yet which nodes are on the network"
		return v
	}
	v.Active = true
	if j.unavailable != nil {
		v.Clear = j.unavailable.Error()
		if s.required {
			v.Refused = v.Clear
		}
	}
	for _, shard := range s.shards {
		for i := range shard {
			if blocks := j.lookAt(s, &shard[i], v); blocks != "" && v.Cannot == "" {
				v.Cannot = blocks
			}
		}
	}
	if v.Clear == "" && !s.required {
		v.Clear = v.Cannot
	}
	if v.Clear != "" && !s.required {
		v.Active, v.Peers = false, nil
	}
	slices.Sort(v.Faults)
	return v
}

// lookAt judges a node of a network, and says if it cannot encrypt.
func (j *Judge) lookAt(s *scene, member *network.Member, v *Verdict) (cannot string) {
	name := nameOf(member)
	trusted, err := j.trust(s, member)
	if member.Cluster == "" && trusted != nil && trusted.by != (clusterkey.Public{}) {
		v.Local[member.Address] = true
	}
	if err != nil {
		v.Faults = append(v.Faults, fmt.Sprintf("node %s: %v", name, err))
		v.Differs = v.Differs || isDiffers(err)
		if !j.revoked(s, member) {
			v.Kept[member.Address] = true
		}
	}
	switch {
	case member.Cluster == "" && member.Node == j.Node:
		v.Own = trusted
	case trusted == nil:
	case trusted.CannotEncrypt:
		return fmt.Sprintf("node %s cannot encrypt", name)
	case len(trusted.Keys) == 0:
		v.Waited = append(v.Waited, name)
	default:
		if have := v.Peers[member.Address]; have == nil || have.Cluster != "" && trusted.Cluster == "" {
			v.Peers[member.Address] = trusted
		}
	}
	return ""
}

// trust checks what is said of a node. Where it cannot be believed, what was believed last is returned with the error.
func (j *Judge) trust(s *scene, member *network.Member) (*Trusted, error) {
	at := goodKey{s.good, member.Cluster, member.Node}
	last := j.good[at]
	if last != nil && (last.Address != member.Address || j.revoked(s, member)) {
		last = nil
	}
	key, pinned := s.keys[member.Cluster]
	if !pinned {
		return last, errors.New(noKey(member))
	}
	if member.ClusterKey != "" && member.ClusterKey != key.String() {
		return last, &differsError{key, member.ClusterKey}
	}
	if member.Said.Signature == "" && len(member.Said.Keys) == 0 {
		return &Trusted{Cluster: member.Cluster, Name: member.Node, Address: member.Address}, nil // nothing is said yet, or any more
	}
	if err := key.Verify(s.name, member.Said); err != nil {
		return last, err
	}
	if seen := j.seen[at.String()]; seen.ClusterKey == key.String() && member.Said.Sequence < seen.Sequence {
		return last, fmt.Errorf("what is said of it (sequence %d) is older than what was accepted before (%d)", member.Said.Sequence, seen.Sequence)
	}
	if err := s.misplaced(member); err != nil {
		return last, err
	}
	made := &Trusted{Cluster: member.Cluster, Name: member.Node, Address: member.Address, Subnets: member.Subnets, CannotEncrypt: member.Said.CannotEncrypt, by: key}
	for i := range member.Said.Keys {
		public, err := security.ParsePublic(member.Said.Keys[i].PublicKey)
		if err != nil {
			return last, err
		}
		made.Keys = append(made.Keys, public)
	}
	if member.Said.Sender != nil {
		made.Sender = *member.Said.Sender
	}
	j.accept(at, made, member.Said.Sequence)
	return made, nil
}

// accept remembers a statement about a node, so that no older one is accepted later.
func (j *Judge) accept(at goodKey, made *Trusted, sequence int64) {
	if j.good == nil {
		j.good = map[goodKey]*Trusted{}
	}
	j.good[at] = made
	now := security.Seen{ClusterKey: made.by.String(), Sequence: sequence}
	if j.seen[at.String()] == now {
		return
	}
	if j.seen == nil {
		j.seen = map[string]security.Seen{}
	}
	j.seen[at.String()], j.unsaved = now, true
}

// remember takes what was accepted before the agent was started.
func (j *Judge) remember(seen map[string]security.Seen) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen, j.unsaved = seen, false
}

// toSave are the newest statements, nil where the file has them.
func (j *Judge) toSave() map[string]security.Seen {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.unsaved {
		return nil
	}
	j.unsaved = false
	return maps.Clone(j.seen)
}

// unsavedNow tells whether the file does not have the newest statements.
func (j *Judge) unsavedNow() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unsaved
}

// saveAgain says that what toSave returned was not saved.
func (j *Judge) saveAgain() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unsaved = true
}

// revoked reports whether the cluster's pinned key replaces, without being its successor, the key that signed the last accepted statement about a node.
// A successor revokes nothing: the status can name it before the TSNPeers that it signs arrive. The first statement by the successor is accepted in
// place of the former one.
func (j *Judge) revoked(s *scene, member *network.Member) bool {
	last := j.good[goodKey{s.good, member.Cluster, member.Node}]
	key, pinned := s.keys[member.Cluster]
	return last != nil && pinned && last.by != key && !s.succeeds(member.Cluster, key, last.by)
}

// succeeds reports whether the former key, or a successor of it, has signed a cluster's key.
func (s *scene) succeeds(cluster string, key, former clusterkey.Public) bool {
	if key.Succeeds(former, s.successions[cluster]) {
		return true
	}
	tried := ""
	for _, shard := range s.shards {
		for i := range shard {
			member := &shard[i]
			if member.Cluster != cluster || member.ClusterKey != key.String() || member.Succession == tried {
				continue
			}
			tried = member.Succession
			if key.Succeeds(former, tried) {
				return true
			}
		}
	}
	return false
}

// nameOf names a node for people.
func nameOf(member *network.Member) string {
	if member.Cluster == "" {
		return member.Node
	}
	return member.Cluster + "/" + member.Node
}

func noKey(member *network.Member) string {
	if member.Cluster == "" {
		return "the operator has not said yet by which key this cluster signs its nodes"
	}
	signer := "an unknown key"
	if key, err := clusterkey.Parse(member.ClusterKey); err == nil {
		signer = key.Fingerprint()
	}
	return fmt.Sprintf("the operator has pinned no key of cluster %s (ConfigMap %s), which signs by %s", member.Cluster, v1alpha1.ClusterKeyPins, signer)
}

// differsError is that a cluster signs by another key than the one that is pinned.
type differsError struct {
	pinned clusterkey.Public
	says   string
}

func (e *differsError) Error() string { return clusterkey.Differs(e.pinned, e.says) }

// keysOf are the keys by which clusters sign.
func keysOf(said []v1alpha1.ClusterKey) map[string]clusterkey.Public {
	keys := map[string]clusterkey.Public{}
	for _, one := range said {
		if key, err := clusterkey.Parse(one.PublicKey); err == nil {
			keys[one.Cluster] = key
		}
	}
	return keys
}

// successionsOf returns the successions of the keys by which clusters sign.
func successionsOf(keys []v1alpha1.ClusterKey) map[string]string {
	successions := map[string]string{}
	for i := range keys {
		successions[keys[i].Cluster] = keys[i].Succession
	}
	return successions
}

// partsOf are the parts of the network that other clusters have.
func partsOf(said []v1alpha1.ClusterKey) map[string]clusterkey.Part {
	parts := map[string]clusterkey.Part{}
	for _, one := range said {
		if part, err := clusterkey.ParsePart(one.IPv4, one.IPv6); err == nil {
			parts[one.Cluster] = part
		}
	}
	return parts
}

// some names a few of many.
func some(all []string) string {
	const most = 3
	if len(all) <= most {
		return strings.Join(all, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(all[:most], "; "), len(all)-most)
}

func isDiffers(err error) bool {
	var differs *differsError
	return errors.As(err, &differs)
}
