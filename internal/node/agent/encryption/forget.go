// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

// Bounds of what is kept about nodes that are not on the node's networks, or at the other ends of its links, any more.
const (
	// maxAbsentNodes is how many nodes of a cluster: on each network, and at links.
	maxAbsentNodes = 1024
	// maxAbsentClusters is how many clusters with links: this one, and as many as can be pinned without an administrator.
	maxAbsentClusters = 1 + v1alpha1.MostClusterKeys
	// maxLeftNetworks is how many networks that the node has left, each counted once for every cluster on it.
	maxLeftNetworks = 256
)

// absentNode is a node that is absent, with all statements about it. With a node at links goes what was said of this one to it.
type absentNode struct {
	statements []string // by goodKey.String
	newest     int64    // the greatest sequence number
}

// absentGroup is the absent nodes of a cluster on one network, or at links.
type absentGroup struct {
	nodes  map[string]*absentNode
	newest int64
	// pinned reports whether the cluster's key is pinned now.
	pinned bool
}

// forget forgets the trusted nodes of networks that the node has left, and nodes that no link leads to. Statements about them are
// kept, so that a node that leaves and returns, or a link that is deleted and made again, does not bring back an older one.
func (j *Judge) forget(state *network.Cluster, far []Far) {
	known, present, pinned := map[string]bool{}, map[string]bool{}, map[string]bool{}
	incomplete := map[string]bool{} // networks whose nodes are not all known yet
	pin := func(keys []v1alpha1.ClusterKey) {
		for i := range keys {
			pinned[keys[i].Cluster] = true
		}
	}
	if state.Node != nil {
		pin(state.Node.Spec.ClusterKeys)
	}
	for i := range state.Networks {
		joined := &state.Networks[i]
		known[joined.Part.Name], incomplete[joined.Part.Name] = true, joined.Shards == nil
		if joined.Object != nil {
			pin(joined.Object.Status.ClusterKeys)
		}
		for _, shard := range joined.Shards {
			for n := range shard {
				present[goodKey{joined.Part.Name, shard[n].Cluster, shard[n].Node}.String()] = true
			}
		}
	}
	for i := range far {
		good := far[i].good()
		known[good] = true
		present[goodKey{good, far[i].Cluster, far[i].Node}.String()] = true
		present[goodKey{good, "", j.Node}.String()] = true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.good, func(at goodKey, _ *Trusted) bool { return !known[at.network] })
	absent, links, left := map[string]*absentGroup{}, map[string]*absentGroup{}, map[string]*absentGroup{}
	for at, seen := range j.seen {
		name, rest, _ := strings.Cut(at, " ")
		if present[at] || incomplete[name] {
			continue
		}
		cluster, _, _ := strings.Cut(rest, " ")
		groups, group, node := absent, name+" "+cluster, at
		if link, isLink := strings.CutPrefix(name, linkPrefix); isLink {
			cluster, _, _ = strings.Cut(link, "/")
			groups, group, node = links, cluster, name
		} else if !known[name] {
			groups = left
		}
		if groups[group] == nil {
			groups[group] = &absentGroup{nodes: map[string]*absentNode{}, pinned: pinned[cluster]}
		}
		groups[group].add(node, at, seen.Sequence)
	}
	j.bound(absent, len(absent))
	j.bound(links, maxAbsentClusters)
	j.bound(left, maxLeftNetworks)
}

func (g *absentGroup) add(name, statement string, sequence int64) {
	if g.nodes[name] == nil {
		g.nodes[name] = &absentNode{}
	}
	node := g.nodes[name]
	node.statements, node.newest = append(node.statements, statement), max(node.newest, sequence)
	g.newest = max(g.newest, sequence)
}

// bound drops the oldest statements beyond what is kept, those of clusters that are not pinned first. A cluster cannot displace those of another by making
// up nodes. The lock is held.
func (j *Judge) bound(groups map[string]*absentGroup, maxGroups int) {
	dropped := map[string]bool{}
	order := slices.SortedFunc(maps.Values(groups), func(a, b *absentGroup) int {
		if a.pinned != b.pinned {
			return map[bool]int{true: -1, false: 1}[a.pinned]
		}
		return cmp.Compare(b.newest, a.newest)
	})
	for i, group := range order {
		nodes := slices.SortedFunc(maps.Values(group.nodes), func(a, b *absentNode) int { return cmp.Compare(b.newest, a.newest) })
		if i < maxGroups {
			nodes = nodes[min(maxAbsentNodes, len(nodes)):]
		}
		for _, node := range nodes {
			for _, at := range node.statements {
				dropped[at] = true
			}
		}
	}
	if len(dropped) == 0 {
		return
	}
	j.unsaved = true
	for at := range dropped {
		delete(j.seen, at)
	}
	maps.DeleteFunc(j.good, func(at goodKey, _ *Trusted) bool { return dropped[at.String()] })
}
