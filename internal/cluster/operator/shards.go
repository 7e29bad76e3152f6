// SPDX-License-Identifier: Apache-2.0

package operator

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

// shard is some of a network's peers: the nodes of the TSNPeers with a number.
type shard struct {
	number  int
	nodes   []v1alpha1.PeerNode
	changed bool
}

// divide puts the nodes that shall be peers into shards: those that are in one stay there, those that are new fill those with
// room, first those that change anyway. So a change of one node changes one shard. Emptied shards are among the result. The numbers
// of foreign ones are not used.
func divide(have []shard, wanted map[string]v1alpha1.PeerNode, foreign map[int]bool) []shard {
	slices.SortFunc(have, func(a, b shard) int { return cmp.Compare(a.number, b.number) })
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
			if have[i].changed == changed {
				fresh = fill(&have[i], fresh, wanted)
			}
		}
	}
	for number := 0; len(fresh) > 0; number++ {
		used := slices.ContainsFunc(have, func(s shard) bool { return s.number == number })
		if !used && !foreign[number] {
			made := shard{number: number}
			fresh = fill(&made, fresh, wanted)
			have = append(have, made)
		}
	}
	return have
}

// kept is a shard with those of its nodes that shall still be peers, as they shall be, and are in no shard before it.
func kept(from *shard, wanted map[string]v1alpha1.PeerNode, placed map[string]bool) shard {
	to := shard{number: from.number}
	for _, node := range from.nodes {
		want, is := wanted[node.Name]
		if is && !placed[node.Name] && len(to.nodes) < v1alpha1.MaxPeers {
			to.nodes = append(to.nodes, want)
			placed[node.Name] = true
		}
	}
	to.changed = !equality.Semantic.DeepEqual(to.nodes, from.nodes)
	return to
}

// fill moves nodes into a shard as long as it has room, and returns the others.
func fill(into *shard, fresh []string, wanted map[string]v1alpha1.PeerNode) []string {
	count := min(len(fresh), v1alpha1.MaxPeers-len(into.nodes))
	if count <= 0 {
		return fresh
	}
	for _, name := range fresh[:count] {
		into.nodes = append(into.nodes, wanted[name])
	}
	slices.SortFunc(into.nodes, func(a, b v1alpha1.PeerNode) int { return strings.Compare(a.Name, b.Name) })
	into.changed = true
	return fresh[count:]
}

// shardName is that of the TSNPeers with a number.
func shardName(network string, number int) string { return fmt.Sprintf("%s-%d", network, number) }

// shardNumber is -1 for TSNPeers whose name is not of that form.
func shardNumber(network, name string) int {
	text, found := strings.CutPrefix(name, network+"-")
	number, err := strconv.Atoi(text)
	if !found || err != nil || number < 0 || shardName(network, number) != name {
		return -1
	}
	return number
}
