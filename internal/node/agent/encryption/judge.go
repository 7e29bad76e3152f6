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

// Judge decides which nodes to trust and whether the node's networks are encrypted. Any goroutine may call its methods.
type Judge struct {
	// Node is the name of the node.
	Node string

	mu sync.Mutex
	// unavailable is why the node cannot encrypt, nil if it can; tried means that this is known.
	unavailable error
	tried       bool
	// good are the last trusted statements about nodes.
	good map[goodKey]*Trusted
	// seen are the newest statements about nodes, by goodKey.String; unsaved means that they are newer than the file.
	seen    map[string]security.Seen
	unsaved bool
	// announcement is the node's announcement.
	announcement Announcement
	// trouble is why the desired state is not installed.
	trouble error
	// far are the last verdicts about the nodes at the other ends of links.
	far map[farKey]map[LinkMode]LinkState
}

// goodKey identifies a node on a network or at the other end of links.
type goodKey struct{ network, cluster, node string }

// String returns the key in the file of statements; names have no spaces.
func (k goodKey) String() string { return k.network + " " + k.cluster + " " + k.node }

// Announcement is what a node publishes about its keys.
type Announcement struct {
	Keys   []v1alpha1.NodeKey
	Sender *v1alpha1.SenderGenerations
	// Unavailable is why it has none, "" where it can encrypt.
	Unavailable string
}

// Trusted is a node whose cluster has signed the statement about it.
type Trusted struct {
	// Cluster has signed it; "" is this node's.
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
	// Unknown names what is missing for a verdict. Installed keys stay.
	Unknown string
	// Active means that frames are encrypted, or not sent.
	Active bool
	// Refused is why pods cannot be on it here, "" if they can.
	Refused string
	// Clear is why frames are not encrypted, "" if they are.
	Clear string
	// Cannot names another node that cannot encrypt, "" if all can.
	Cannot string
	// Peers are the other nodes to which frames can be encrypted, by their addresses.
	Peers map[netip.Addr]*Trusted
	// Own is the statement about this node for other nodes, nil if there is none.
	Own *Trusted
	// Faults are why nodes are not trusted, sorted; Waited names those that have not announced keys.
	Faults []string
	Waited []string
	// Differs means that one of Faults is about a cluster's key. Kept are addresses of nodes that are not trusted now and whose installed
	// keys stay.
	Differs bool
	Kept    map[netip.Addr]bool
	// Local are the addresses of the nodes of this node's cluster that the cluster has signed.
	Local map[netip.Addr]bool
}

// SetUnavailable sets why the node cannot encrypt, nil if it can.
func (j *Judge) SetUnavailable(err error) (changed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed = !j.tried || (err == nil) != (j.unavailable == nil) || err != nil && err.Error() != j.unavailable.Error()
	j.unavailable, j.tried = err, true
	return changed
}

// announce sets the announcement and why the desired state is not installed.
func (j *Judge) announce(ownAnnouncement *Announcement, trouble error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.announcement, j.trouble = *ownAnnouncement, trouble
}

// Announced returns the node's announcement.
func (j *Judge) Announced() Announcement {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.announcement
}

// Look judges one of the node's networks; nil means that it asks for no encryption.
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
			return cmp.Or(joined.ValidateSubnets(member), outsidePart(member, parts[member.Cluster]))
		},
	})
}

// outsidePart returns an error if a subnet of a node is not in its cluster's part of the network. The parts of clusters do not overlap.
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

// scene is a network or a pair of nodes to judge.
type scene struct {
	// name is the one that clusters sign, and good the one in goodKey.
	name, good string
	required   bool
	keys       map[string]clusterkey.Public
	// successions are those of keys, by cluster. Statements of other clusters have theirs in TSNPeers and links.
	successions map[string]string
	shards      [][]network.Member
	// misplaced returns why a node of another cluster must not have its subnets.
	misplaced func(*network.Member) error
}

// judge judges all nodes. The caller holds the lock.
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
			if blocks := j.judgeMember(s, &shard[i], v); blocks != "" && v.Cannot == "" {
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

// judgeMember judges a node of a network; cannot names it if it cannot encrypt.
func (j *Judge) judgeMember(s *scene, member *network.Member, v *Verdict) (cannot string) {
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

// trust checks the statement about a node. If it cannot be trusted, the last trusted one is returned with the error.
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
	if member.Statement.Signature == "" && len(member.Statement.Keys) == 0 {
		return &Trusted{Cluster: member.Cluster, Name: member.Node, Address: member.Address}, nil // no statement yet, or not any more
	}
	if err := key.Verify(s.name, member.Statement); err != nil {
		return last, err
	}
	if seen := j.seen[at.String()]; seen.ClusterKey == key.String() && member.Statement.Sequence < seen.Sequence {
		return last, fmt.Errorf("what is said of it (sequence %d) is older than what was accepted before (%d)", member.Statement.Sequence, seen.Sequence)
	}
	if err := s.misplaced(member); err != nil {
		return last, err
	}
	trusted := &Trusted{Cluster: member.Cluster, Name: member.Node, Address: member.Address, Subnets: member.Subnets, CannotEncrypt: member.Statement.CannotEncrypt, by: key}
	for i := range member.Statement.Keys {
		public, err := security.ParsePublic(member.Statement.Keys[i].PublicKey)
		if err != nil {
			return last, err
		}
		trusted.Keys = append(trusted.Keys, public)
	}
	if member.Statement.Sender != nil {
		trusted.Sender = *member.Statement.Sender
	}
	j.accept(at, trusted, member.Statement.Sequence)
	return trusted, nil
}

// accept notes a statement about a node, so that no older one is accepted later.
func (j *Judge) accept(at goodKey, trusted *Trusted, sequence int64) {
	if j.good == nil {
		j.good = map[goodKey]*Trusted{}
	}
	j.good[at] = trusted
	now := security.Seen{ClusterKey: trusted.by.String(), Sequence: sequence}
	if j.seen[at.String()] == now {
		return
	}
	if j.seen == nil {
		j.seen = map[string]security.Seen{}
	}
	j.seen[at.String()], j.unsaved = now, true
}

// remember sets the statements that were accepted before the agent started.
func (j *Judge) remember(seen map[string]security.Seen) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen, j.unsaved = seen, false
}

// toSave returns the newest statements, nil if the file has them.
func (j *Judge) toSave() map[string]security.Seen {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.unsaved {
		return nil
	}
	j.unsaved = false
	return maps.Clone(j.seen)
}

// unsavedNow reports whether the file lacks the newest statements.
func (j *Judge) unsavedNow() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unsaved
}

// saveAgain notes that the result of toSave was not saved.
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

// nameOf returns a node's name for messages.
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

// differsError means that a cluster signs by another key than the pinned one.
type differsError struct {
	pinned clusterkey.Public
	says   string
}

func (e *differsError) Error() string { return clusterkey.Differs(e.pinned, e.says) }

// keysOf returns the keys by which clusters sign.
func keysOf(clusterKeys []v1alpha1.ClusterKey) map[string]clusterkey.Public {
	keys := map[string]clusterkey.Public{}
	for i := range clusterKeys {
		if key, err := clusterkey.Parse(clusterKeys[i].PublicKey); err == nil {
			keys[clusterKeys[i].Cluster] = key
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

// partsOf returns the other clusters' parts of the network.
func partsOf(keys []v1alpha1.ClusterKey) map[string]clusterkey.Part {
	parts := map[string]clusterkey.Part{}
	for i := range keys {
		if part, err := clusterkey.ParsePart(keys[i].IPv4, keys[i].IPv6); err == nil {
			parts[keys[i].Cluster] = part
		}
	}
	return parts
}

// some joins the first few of many.
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
