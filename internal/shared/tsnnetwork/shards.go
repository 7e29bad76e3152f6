// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Shard is a part of a network's peers: the nodes of one TSNPeers.
type Shard struct {
	Number  int
	Nodes   []v1alpha1.PeerNode
	Changed bool
}

// DivideShards divides the wanted nodes into shards. Nodes stay in their shard while it has room for their static addresses; other nodes fill
// shards with room, first those that change anyway, so that a change of one node changes one shard. The result includes emptied shards. The
// numbers in foreign are not used.
func DivideShards(shards []Shard, wanted map[string]v1alpha1.PeerNode, foreign map[int]bool) []Shard {
	slices.SortFunc(shards, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
	placed := make(map[string]bool, len(wanted))
	for i := range shards {
		shards[i] = keepNodes(&shards[i], wanted, placed)
	}
	var added []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !placed[name] {
			added = append(added, name)
		}
	}
	for _, changed := range []bool{true, false} {
		for i := range shards {
			if shards[i].Changed == changed {
				added = fill(&shards[i], added, wanted)
			}
		}
	}
	for number := 0; len(added) > 0; number++ {
		used := slices.ContainsFunc(shards, func(s Shard) bool { return s.Number == number })
		if !used && !foreign[number] {
			shard := Shard{Number: number}
			added = fill(&shard, added, wanted)
			shards = append(shards, shard)
		}
	}
	return shards
}

// keepNodes returns a shard with its nodes that are still wanted and not placed in an earlier shard.
func keepNodes(from *Shard, wanted map[string]v1alpha1.PeerNode, placed map[string]bool) Shard {
	to := Shard{Number: from.Number}
	for _, node := range from.Nodes {
		want, ok := wanted[node.Name]
		if ok && !placed[node.Name] && to.hasRoom(&want) {
			to.Nodes = append(to.Nodes, want)
			placed[node.Name] = true
		}
	}
	to.Changed = !equality.Semantic.DeepEqual(to.Nodes, from.Nodes)
	return to
}

// hasRoom reports whether a node can be added to a shard: an empty one has room for any node.
func (s *Shard) hasRoom(node *v1alpha1.PeerNode) bool {
	switch {
	case len(s.Nodes) == 0:
		return true
	case len(s.Nodes) >= v1alpha1.MaxPeers:
		return false
	}
	addresses := len(node.Addresses)
	for i := range s.Nodes {
		addresses += len(s.Nodes[i].Addresses)
	}
	return addresses <= v1alpha1.MaxPeersAddresses
}

// fill adds the nodes to a shard for which it has room, and returns the others.
func fill(into *Shard, added []string, wanted map[string]v1alpha1.PeerNode) (left []string) {
	for _, name := range added {
		node := wanted[name]
		if !into.hasRoom(&node) {
			left = append(left, name)
			continue
		}
		into.Nodes = append(into.Nodes, node)
		into.Changed = true
	}
	slices.SortFunc(into.Nodes, func(a, b v1alpha1.PeerNode) int { return strings.Compare(a.Name, b.Name) })
	return left
}

// ShardName returns the name of the TSNPeers with a number.
func ShardName(network string, number int) string { return fmt.Sprintf("%s-%d", network, number) }

// ShardNumber returns the number in the name of TSNPeers, -1 if the name has another form.
func ShardNumber(network, name string) int {
	text, exists := strings.CutPrefix(name, network+"-")
	number, err := strconv.Atoi(text)
	if !exists || err != nil || number < 0 || ShardName(network, number) != name {
		return -1
	}
	return number
}
