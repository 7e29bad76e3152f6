// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// Far is a node at the other ends of encrypted links. The package treats the two nodes as a network.
type Far struct {
	// Cluster is "" for this node's cluster.
	Cluster, Node string
	Address       netip.Addr
	// Other are the statements of links about the node, and Own those about this one. They are not written at once, and anybody who may
	// write links can invent them.
	Other, Own []*v1alpha1.LinkNodeKeys
}

// FarNodes returns the nodes at the other ends of a node's encrypted links. localAddress is the node's tunnel address. Links that
// no pod of the cluster has asked for do not count, and within the cluster only those that the operator wrote do.
func FarNodes(all []*v1alpha1.TSNLink, node string, localAddress netip.Addr) []Far {
	nodesByKey := map[farKey]*Far{}
	for _, link := range all {
		spec := &link.Spec
		if !link.Admitted() || !spec.Encrypted() {
			continue
		}
		for _, ends := range [][2]*v1alpha1.LinkEnd{{&spec.Client, &spec.Endpoint}, {&spec.Endpoint, &spec.Client}} {
			here, there := ends[0], ends[1]
			address, err := netip.ParseAddr(there.NodeAddress)
			if here.Node != node || here.NodeAddress != localAddress.String() || err != nil || address == localAddress {
				continue
			}
			key := farKey{clusterOf(here, there), there.Node, address}
			if key.cluster == "" && link.Labels[v1alpha1.LinkMakerLabel] != v1alpha1.MakerOperator {
				continue
			}
			far := nodesByKey[key]
			if far == nil {
				far = &Far{Cluster: key.cluster, Node: key.node, Address: address}
				nodesByKey[key] = far
			}
			far.Other, far.Own = addStatement(far.Other, there.NodeKeys), addStatement(far.Own, here.NodeKeys)
		}
	}
	var nodes []Far
	for _, key := range slices.SortedFunc(maps.Keys(nodesByKey), func(a, b farKey) int {
		return strings.Compare(a.cluster+"/"+a.node, b.cluster+"/"+b.node)
	}) {
		nodes = append(nodes, *nodesByKey[key])
	}
	return nodes
}

// clusterOf returns the cluster of a link's other end, "" if it is the same.
func clusterOf(here, there *v1alpha1.LinkEnd) string {
	if there.Cluster == here.Cluster {
		return ""
	}
	return there.Cluster
}

// farKey identifies a node at the other end of links.
type farKey struct {
	cluster, node string
	address       netip.Addr
}

func (f *Far) key() farKey { return farKey{f.Cluster, f.Node, f.Address} }

// linkPrefix begins the names of pairs of nodes; those of networks have no slash.
const linkPrefix = "link/"

// good is the name of the pair in goodKey.
func (f *Far) good() string { return linkPrefix + f.Cluster + "/" + f.Node }

// member returns a node of the pair as a member of a network.
func (f *Far) member(cluster, node string, address netip.Addr, keys *v1alpha1.LinkNodeKeys) network.Member {
	member := network.Member{Node: node, Cluster: cluster, Address: address, Statement: clusterkey.LinkNode(node, address.String(), keys)}
	if keys != nil {
		member.ClusterKey, member.Succession = keys.ClusterKey, keys.ClusterKeySuccession
	}
	return member
}

// judgeFar judges a node at the other ends of links.
func (j *Judge) judgeFar(f *Far, ownAddress netip.Addr, keys []v1alpha1.ClusterKey) *Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	by := keysOf(keys)
	return j.judge(&scene{
		name: v1alpha1.LinkNetwork, good: f.good(), required: true, keys: by, successions: successionsOf(keys), misplaced: func(*network.Member) error { return nil },
		shards: [][]network.Member{{
			f.member("", j.Node, ownAddress, latestSigned(by, "", j.Node, ownAddress, f.Own)),
			f.member(f.Cluster, f.Node, f.Address, latestSigned(by, f.Cluster, f.Node, f.Address, f.Other)),
		}},
	})
}

// LinkState is whether the frames of a link to the other end's node are encrypted. In the zero value they are.
type LinkState struct {
	// Unknown names what is not known yet. Installed keys stay.
	Unknown string
	// Refused is why the link cannot be plugged, and Clear why its frames are not encrypted.
	Refused, Clear string
	// Silent is why nothing can be sent now.
	Silent string
}

// LinkMode is whether a link requires encryption.
type LinkMode bool

// Modes of links.
const (
	LinkPreferred LinkMode = false
	LinkRequired  LinkMode = true
)

// Link returns whether links to a node are encrypted.
func (j *Judge) Link(mode LinkMode, here, there *v1alpha1.LinkEnd) LinkState {
	address, _ := netip.ParseAddr(there.NodeAddress)
	key := farKey{clusterOf(here, there), there.Node, address}
	j.mu.Lock()
	defer j.mu.Unlock()
	if states, known := j.far[key]; known {
		return states[mode]
	}
	return LinkState{Unknown: fmt.Sprintf("the agent has not looked yet whether links to node %s can be encrypted", there.Node)}
}

// stateOf returns what a verdict about a node means for its links. The messages name the node.
func stateOf(v *Verdict, node string, f *Far) map[LinkMode]LinkState {
	both := func(state LinkState) map[LinkMode]LinkState {
		return map[LinkMode]LinkState{LinkPreferred: state, LinkRequired: state}
	}
	refused := func(reason string) map[LinkMode]LinkState {
		return map[LinkMode]LinkState{LinkPreferred: {Clear: reason}, LinkRequired: {Refused: reason}}
	}
	switch {
	case v.Unknown != "":
		return both(LinkState{Unknown: v.Unknown})
	case v.Refused != "":
		return refused("node " + node + " cannot encrypt: " + v.Refused)
	case v.Cannot != "":
		return refused(v.Cannot + "; the condition of that end says what it lacks")
	case v.Peers[f.Address] != nil:
		return both(LinkState{})
	case len(v.Faults) > 0:
		return both(LinkState{Silent: some(v.Faults)})
	}
	return both(LinkState{Silent: fmt.Sprintf("node %s has not announced keys yet", some(v.Waited))})
}

// setFar sets whether links to nodes are encrypted, and reports whether that has changed.
func (j *Judge) setFar(far map[farKey]map[LinkMode]LinkState) (changed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed = !maps.EqualFunc(j.far, far, maps.Equal[map[LinkMode]LinkState, map[LinkMode]LinkState])
	j.far = far
	return changed
}

// farNodes returns the nodes at the other ends of the node's links; known tells whether these are all.
func (r *Reconciler) farNodes(ctx context.Context) (all []Far, known bool, err error) {
	if r.Links == nil {
		return nil, true, nil
	}
	links, known := r.Links()
	if !known || !slices.ContainsFunc(links, func(l *v1alpha1.TSNLink) bool { return l.Admitted() && l.Spec.Encrypted() }) {
		return nil, known, nil
	}
	ownAddress, err := r.Own(ctx)
	if err != nil {
		return nil, false, err
	}
	return FarNodes(links, r.Judge.Node, ownAddress), true, nil
}

// addFar adds the nodes at the other ends of links, and sets whether links to them are encrypted.
func (r *Reconciler) addFar(w *wants, ownAddress netip.Addr, far []Far, keys []v1alpha1.ClusterKey) {
	states := map[farKey]map[LinkMode]LinkState{}
	for i := range far {
		v := r.Judge.judgeFar(&far[i], ownAddress, keys)
		states[far[i].key()] = stateOf(v, r.Judge.Node, &far[i])
		if v.Unknown != "" {
			w.complete = false
			continue
		}
		w.add(v)
		if len(v.Peers) > 0 { // do not wait for a node without keys: nothing is sent to it, and it gets the statement once it has keys
			w.awaited = append(w.awaited, v.Own)
		}
	}
	for i := range far { // now that all are known
		if reason := w.contested(far[i].Cluster, far[i].Address); reason != "" {
			silent := LinkState{Silent: reason}
			states[far[i].key()] = map[LinkMode]LinkState{LinkPreferred: silent, LinkRequired: silent}
		}
	}
	if r.Judge.setFar(states) && r.LinksChanged != nil {
		r.LinksChanged()
	}
}

// addStatement adds a link's statement about a node, unless another link has the same.
func addStatement(all []*v1alpha1.LinkNodeKeys, added *v1alpha1.LinkNodeKeys) []*v1alpha1.LinkNodeKeys {
	if added == nil || slices.ContainsFunc(all, func(other *v1alpha1.LinkNodeKeys) bool { return equality.Semantic.DeepEqual(added, other) }) {
		return all
	}
	return append(all, added)
}

// latestSigned returns the latest of links' statements about a node that its cluster has signed. If it has signed none, the first one is
// returned, so that its fault is reported, and nil if there is none.
func latestSigned(keys map[string]clusterkey.Public, cluster, node string, address netip.Addr, all []*v1alpha1.LinkNodeKeys) (latest *v1alpha1.LinkNodeKeys) {
	key, pinned := keys[cluster]
	for _, keys := range all {
		signed := pinned && (keys.ClusterKey == "" || keys.ClusterKey == key.String()) &&
			key.Verify(v1alpha1.LinkNetwork, clusterkey.LinkNode(node, address.String(), keys)) == nil
		if signed && (latest == nil || keys.Sequence > latest.Sequence) {
			latest = keys
		}
	}
	if latest == nil && len(all) > 0 {
		return all[0]
	}
	return latest
}
