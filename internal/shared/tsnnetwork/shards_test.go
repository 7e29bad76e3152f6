// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// nodesNamed are peers with numbers from one on.
func nodesNamed(from, count int) map[string]v1alpha1.PeerNode {
	nodes := map[string]v1alpha1.PeerNode{}
	for i := from; i < from+count; i++ {
		name := fmt.Sprintf("node-%04d", i)
		nodes[name] = v1alpha1.PeerNode{Name: name, Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256), IPv4: "10.42.0.0/24"}
	}
	return nodes
}

// settled are the shards that stay, as they are next time.
func settled(shards []Shard) []Shard {
	var stay []Shard
	for _, s := range shards {
		if len(s.Nodes) > 0 {
			stay = append(stay, Shard{Number: s.Number, Nodes: s.Nodes})
		}
	}
	return stay
}

// changes names the shards that are written: what becomes of each.
func changes(shards []Shard) string {
	var text []string
	for _, s := range shards {
		if s.Changed || len(s.Nodes) == 0 {
			text = append(text, fmt.Sprintf("%d:%d", s.Number, len(s.Nodes)))
		}
	}
	return fmt.Sprint(text)
}

func TestDivideShards(t *testing.T) {
	wanted := nodesNamed(0, 1000)
	shards := DivideShards(nil, wanted, nil)
	if got := changes(shards); got != "[0:100 1:100 2:100 3:100 4:100 5:100 6:100 7:100 8:100 9:100]" {
		t.Fatalf("a thousand nodes are %s", got)
	}
	step := func(what, want string) {
		t.Helper()
		shards = DivideShards(settled(shards), wanted, nil)
		if got := changes(shards); got != want {
			t.Errorf("%s writes %s, want %s", what, got, want)
		}
		seen := map[string]bool{}
		for _, s := range shards {
			for _, node := range s.Nodes {
				if seen[node.Name] || !equality.Semantic.DeepEqual(wanted[node.Name], node) || len(s.Nodes) > v1alpha1.MaxPeers {
					t.Fatalf("%s: node %+v is there twice, or not as it shall be", what, node)
				}
				seen[node.Name] = true
			}
		}
		if len(seen) != len(wanted) {
			t.Fatalf("%s: %d of %d nodes are there", what, len(seen), len(wanted))
		}
	}
	step("nothing", "[]")
	moved := wanted["node-0350"]
	moved.Address = "192.0.2.1"
	wanted["node-0350"] = moved
	step("another address", "[3:100]")
	delete(wanted, "node-0750")
	step("one less", "[7:99]")
	wanted["another"] = v1alpha1.PeerNode{Name: "another"}
	step("one more, which takes its place", "[7:100]")
	wanted["one-more"] = v1alpha1.PeerNode{Name: "one-more"}
	step("one that has no room", "[10:1]")
	delete(wanted, "node-0001")
	wanted["in-place"] = v1alpha1.PeerNode{Name: "in-place"}
	step("one for another", "[0:100]")
	delete(wanted, "one-more")
	step("a shard without nodes", "[10:0]")
	for name := range nodesNamed(200, 100) {
		delete(wanted, name)
	}
	step("a shard in the middle", "[2:0]")
	wanted["late"] = v1alpha1.PeerNode{Name: "late"}
	step("its number", "[2:1]")
	wanted = nil
	shards = DivideShards(settled(shards), wanted, nil)
	if got := changes(shards); got != "[0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0]" {
		t.Errorf("none at all writes %s", got)
	}
}

// TestDivideShardsWithManyAddresses gives all nodes of a full shard as many static addresses as a node can have.
func TestDivideShardsWithManyAddresses(t *testing.T) {
	wanted := nodesNamed(0, 110)
	shards := settled(DivideShards(nil, wanted, nil))
	give := func(count int) {
		for name, node := range nodesNamed(0, 100) {
			node.Addresses = make([]v1alpha1.PodAddress, count)
			wanted[name] = node
		}
	}
	step := func(what, want string) {
		t.Helper()
		shards = DivideShards(shards, wanted, nil)
		if got := changes(shards); got != want {
			t.Errorf("%s writes %s, want %s", what, got, want)
		}
		shards = settled(shards)
	}
	give(v1alpha1.MaxPeersAddresses / 100)
	step("as many as there is room for", "[0:100]")
	give(v1alpha1.MaxNodeAddresses)
	step("more", "[0:33 1:43 2:33 3:1]")
	step("nothing", "[]")
	give(0)
	step("none", "[0:33 1:43 2:33 3:1]")
	delete(wanted, "node-0000")
	step("one less", "[0:32]")
}

// TestDivideShardsPlacesAnyNode has a node of another cluster, which the API server has not checked, with more addresses than fit.
func TestDivideShardsPlacesAnyNode(t *testing.T) {
	wanted := nodesNamed(0, 2)
	node := wanted["node-0000"]
	node.Addresses = make([]v1alpha1.PodAddress, v1alpha1.MaxPeersAddresses+1)
	wanted["node-0000"] = node
	if got := changes(DivideShards(nil, wanted, nil)); got != "[0:1 1:1]" {
		t.Errorf("it writes %s", got)
	}
}

func TestDivideShardsDuplicateNode(t *testing.T) {
	wanted := nodesNamed(0, 1)
	node := wanted["node-0000"]
	shards := DivideShards([]Shard{{Number: 4, Nodes: []v1alpha1.PeerNode{node}}, {Number: 2, Nodes: []v1alpha1.PeerNode{node}}}, wanted, nil)
	if got := changes(shards); got != "[4:0]" {
		t.Errorf("it writes %s", got)
	}
}

func TestDivideShardsForeignNumbers(t *testing.T) {
	if got := changes(DivideShards(nil, nodesNamed(0, 150), map[int]bool{0: true, 2: true})); got != "[1:100 3:50]" {
		t.Errorf("it writes %s", got)
	}
}

func TestShardNumber(t *testing.T) {
	for name, want := range map[string]int{"tsn-0": 0, "tsn-12": 12, "tsn-": -1, "tsn": -1, "tsn-01": -1, "tsn-x": -1, "tsn-1-0": -1, "tsn--1": -1, "other-0": -1} {
		if got := ShardNumber("tsn", name); got != want {
			t.Errorf("%s has number %d, want %d", name, got, want)
		}
	}
}
