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

// Shard is some of a network's peers: the nodes of the TSNPeers with a number.
type Shard struct {
	Number  int
	Nodes   []v1alpha1.PeerNode
	Changed bool
}

// DivideShards puts the nodes that shall be peers into shards: those that are in one stay there, those that are new fill those with
// room, first those that change anyway. So a change of one node changes one shard. Emptied shards are among the result. The numbers
// of foreign ones are not used.
func DivideShards(have []Shard, wanted map[string]v1alpha1.PeerNode, foreign map[int]bool) []Shard {
	slices.SortFunc(have, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
	placed := make(map[string]bool, len(wanted))
	for i := range have {
		have[i] = kept(&have[i], wanted, placed)
	}
	var fresh []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !placed[name] {
			fresh = append(fresh, name)
		}
	}
	for _, changed := range []bool{true, false} {
		for i := range have {
			if have[i].Changed == changed {
				fresh = fill(&have[i], fresh, wanted)
			}
		}
	}
	for number := 0; len(fresh) > 0; number++ {
		used := slices.ContainsFunc(have, func(s Shard) bool { return s.Number == number })
		if !used && !foreign[number] {
			shard := Shard{Number: number}
			fresh = fill(&shard, fresh, wanted)
			have = append(have, shard)
		}
	}
	return have
}

// kept is a shard with those of its nodes that shall still be peers, as they shall be, and are in no shard before it.
func kept(from *Shard, wanted map[string]v1alpha1.PeerNode, placed map[string]bool) Shard {
	to := Shard{Number: from.Number}
	for _, node := range from.Nodes {
		want, ok := wanted[node.Name]
		if ok && !placed[node.Name] && len(to.Nodes) < v1alpha1.MaxPeers {
			to.Nodes = append(to.Nodes, want)
			placed[node.Name] = true
		}
	}
	to.Changed = !equality.Semantic.DeepEqual(to.Nodes, from.Nodes)
	return to
}

// fill moves nodes into a shard as long as it has room, and returns the others.
func fill(into *Shard, fresh []string, wanted map[string]v1alpha1.PeerNode) []string {
	count := min(len(fresh), v1alpha1.MaxPeers-len(into.Nodes))
	if count <= 0 {
		return fresh
	}
	for _, name := range fresh[:count] {
		into.Nodes = append(into.Nodes, wanted[name])
	}
	slices.SortFunc(into.Nodes, func(a, b v1alpha1.PeerNode) int { return strings.Compare(a.Name, b.Name) })
	into.Changed = true
	return fresh[count:]
}

// ShardName is that of the TSNPeers with a number.
func ShardName(network string, number int) string { return fmt.Sprintf("%s-%d", network, number) }

// ShardNumber is -1 for TSNPeers whose name is not of that form.
func ShardNumber(network, name string) int {
	text, exists := strings.CutPrefix(name, network+"-")
	number, err := strconv.Atoi(text)
	if !exists || err != nil || number < 0 || ShardName(network, number) != name {
		return -1
	}
	return number
}
