// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// Far is a node at the other ends of encrypted links. To this package, the two nodes are a network.
type Far struct {
	// Cluster is "" for this node's.
	Cluster, Node string
	Address       netip.Addr
	// Other is what links say of the node, and Own what they tell others of this one; nothing where none says anything. They are not written at
	// once, and whoever writes them may have made it up.
	Other, Own []*v1alpha1.LinkNodeKeys
}

// FarNodes are the nodes at the other ends of a node's encrypted links. own is where the node's tunnels end. Links for which no pod of the
// cluster has asked are none, and those within the cluster are the operator's only.
func FarNodes(all []*v1alpha1.TSNLink, node string, own netip.Addr) []Far {
	found := map[farKey]*Far{}
	for _, link := range all {
		spec := &link.Spec
		if !link.Admitted() || !spec.Encrypted() {
			continue
		}
		for _, ends := range [][2]*v1alpha1.LinkEnd{{&spec.Client, &spec.Endpoint}, {&spec.Endpoint, &spec.Client}} {
			here, there := ends[0], ends[1]
			address, err := netip.ParseAddr(there.NodeAddress)
			if here.Node != node || here.NodeAddress != own.String() || err != nil || address == own {
				continue
			}
			key := farKey{clusterOf(here, there), there.Node, address}
			if key.cluster == "" && link.Labels[v1alpha1.LinkMakerLabel] != v1alpha1.MakerOperator {
				continue
			}
			one := found[key]
			if one == nil {
				one = &Far{Cluster: key.cluster, Node: key.node, Address: address}
				found[key] = one
			}
			one.Other, one.Own = addSaying(one.Other, there.NodeKeys), addSaying(one.Own, here.NodeKeys)
		}
	}
	var nodes []Far
	for _, key := range slices.SortedFunc(maps.Keys(found), func(a, b farKey) int {
		return strings.Compare(a.cluster+"/"+a.node, b.cluster+"/"+b.node)
	}) {
		nodes = append(nodes, *found[key])
	}
	return nodes
}

// clusterOf is the cluster of a link's other end, "" for that of this one.
func clusterOf(here, there *v1alpha1.LinkEnd) string {
	if there.Cluster == here.Cluster {
		return ""
	}
	return there.Cluster
}

// farKey tells nodes at other ends apart.
type farKey struct {
	cluster, node string
	address       netip.Addr
}

func (f *Far) key() farKey { return farKey{f.Cluster, f.Node, f.Address} }

// linkPrefix is what the names of pairs begin with; that of a network has no slash.
const linkPrefix = "link/"

// good is the name by which nodes of the pair are remembered.
func (f *Far) good() string { return linkPrefix + f.Cluster + "/" + f.Node }

// member is a node of the pair as one of a network.
func (f *Far) member(cluster, node string, address netip.Addr, keys *v1alpha1.LinkNodeKeys) network.Member {
	made := network.Member{Node: node, Cluster: cluster, Address: address, Said: clusterkey.LinkNode(node, address.String(), keys)}
	if keys != nil {
		made.ClusterKey, made.Succession = keys.ClusterKey, keys.ClusterKeySuccession
	}
	return made
}

// lookAtFar judges a node at the other ends of links.
func (j *Judge) lookAtFar(f *Far, own netip.Addr, keys []v1alpha1.ClusterKey) *Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	by := keysOf(keys)
	return j.judge(&scene{
		name: v1alpha1.LinkNetwork, good: f.good(), required: true, keys: by, successions: successionsOf(keys), misplaced: func(*network.Member) error { return nil },
		shards: [][]network.Member{{
			f.member("", j.Node, own, believed(by, "", j.Node, own, f.Own)),
			f.member(f.Cluster, f.Node, f.Address, believed(by, f.Cluster, f.Node, f.Address, f.Other)),
		}},
	})
}

// LinkState is how what a link sends to the other end's node is encrypted. The zero value: it is.
type LinkState struct {
	// Unknown is what is not known yet. What is in force stays.
	Unknown string
	// Refused is why the link cannot be, and Clear why its frames are not encrypted.
	Refused, Clear string
	// Silent is why nothing can be sent now.
	Silent string
}

// LinkMode is what a link asks for.
type LinkMode bool

// What links ask for.
const (
	LinkPreferred LinkMode = false
	LinkRequired  LinkMode = true
)

// Link says how links to a node are encrypted.
func (j *Judge) Link(mode LinkMode, here, there *v1alpha1.LinkEnd) LinkState {
	address, _ := netip.ParseAddr(there.NodeAddress)
	key := farKey{clusterOf(here, there), there.Node, address}
	j.mu.Lock()
	defer j.mu.Unlock()
	if is, known := j.far[key]; known {
		return is[mode]
	}
	return LinkState{Unknown: fmt.Sprintf("the agent has not looked yet whether links to node %s can be encrypted", there.Node)}
}

// stateOf is what a verdict of a node means for its links. They are told where the node is one of several, so it is named.
func stateOf(v *Verdict, node string, f *Far) map[LinkMode]LinkState {
	every := func(is LinkState) map[LinkMode]LinkState {
		return map[LinkMode]LinkState{LinkPreferred: is, LinkRequired: is}
	}
	refused := func(why string) map[LinkMode]LinkState {
		return map[LinkMode]LinkState{LinkPreferred: {Clear: why}, LinkRequired: {Refused: why}}
	}
	switch {
	case v.Unknown != "":
		return every(LinkState{Unknown: v.Unknown})
	case v.Refused != "":
		return refused("node " + node + " cannot encrypt: " + v.Refused)
	case v.Cannot != "":
		return refused(v.Cannot + "; the condition of that end says what it lacks")
	case v.Peers[f.Address] != nil:
		return every(LinkState{})
	case len(v.Faults) > 0:
		return every(LinkState{Silent: some(v.Faults)})
	}
	return every(LinkState{Silent: fmt.Sprintf("node %s has not announced keys yet", some(v.Waited))})
}

// setFar says how links to nodes are encrypted, and whether that is otherwise than before.
func (j *Judge) setFar(far map[farKey]map[LinkMode]LinkState) (changed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changed = !maps.EqualFunc(j.far, far, maps.Equal[map[LinkMode]LinkState, map[LinkMode]LinkState])
	j.far = far
	return changed
}

// farNodes are those of the node's links; known tells whether these are all.
func (r *Reconciler) farNodes(ctx context.Context) (all []Far, known bool, err error) {
	if r.Links == nil {
		return nil, true, nil
	}
	links, known := r.Links()
	if !known || !slices.ContainsFunc(links, func(one *v1alpha1.TSNLink) bool { return one.Admitted() && one.Spec.Encrypted() }) {
		return nil, known, nil
	}
	own, err := r.Own(ctx)
	if err != nil {
		return nil, false, err
	}
	return FarNodes(links, r.Judge.Node, own), true, nil
}

// addFar adds what links want, and says how they are encrypted.
func (r *Reconciler) addFar(w *wants, own netip.Addr, far []Far, keys []v1alpha1.ClusterKey) {
	states := map[farKey]map[LinkMode]LinkState{}
	for i := range far {
		one := &far[i]
		v := r.Judge.lookAtFar(one, own, keys)
		states[one.key()] = stateOf(v, r.Judge.Node, one)
		if v.Unknown != "" {
			w.complete = false
			continue
		}
		w.add(v)
		if len(v.Peers) > 0 { // nobody waits for a node that has no keys: nothing is sent to it, and it is told when it has
			w.awaited = append(w.awaited, v.Own)
		}
	}
	for i := range far { // when all are known
		if why := w.contested(far[i].Cluster, far[i].Address); why != "" {
			silent := LinkState{Silent: why}
			states[far[i].key()] = map[LinkMode]LinkState{LinkPreferred: silent, LinkRequired: silent}
		}
	}
	if r.Judge.setFar(states) && r.LinksChanged != nil {
		r.LinksChanged()
	}
}
