// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// part is a node's part of a network. A network without IPv6 has none of it.
type part struct{ ipv4, ipv6 netip.Prefix }

func (p part) texts() (ipv4, ipv6 string) {
	if p.ipv6.IsValid() {
		ipv6 = p.ipv6.String()
	}
	return p.ipv4.String(), ipv6
}

// meets tells whether two parts have a range in common.
func (p part) meets(other part) bool {
	return p.ipv4 == other.ipv4 || p.ipv6.IsValid() && p.ipv6 == other.ipv6
}

// ledger is which part of which network each node has. The TSNNodes have it too, and outlast the operator; a cache of them may not
// know yet what was just given, and would have it given twice. Any goroutine may use it.
type ledger struct {
	mu sync.Mutex
	// parts are by network and node. An inner map is not changed any more once it is here.
	parts map[string]map[string]part
	// givers are the nodes whose part a node has been given, by network and node, as long as their TSNNodes may still have it.
	givers map[string]map[string][]string
}

// load reads once, past all caches, what nodes had when this operator began.
func (l *ledger) load(ctx context.Context, live client.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts != nil {
		return nil
	}
	var networks v1alpha1.TSNNetworkList
	if err := live.List(ctx, &networks); err != nil {
		return fmt.Errorf("list the networks: %w", err)
	}
	var nodes v1alpha1.TSNNodeList
	if err := live.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list the TSNNodes: %w", err)
	}
	l.parts, l.givers = partsOf(networks.Items, nodes.Items), map[string]map[string][]string{}
	return nil
}

// partsOf reads the subnets of the given networks from the TSNNodes.
func partsOf(networks []v1alpha1.TSNNetwork, nodes []v1alpha1.TSNNode) map[string]map[string]part {
	parts := map[string]map[string]part{}
	for i := range networks {
		parts[networks[i].Name] = map[string]part{}
	}
	for i := range nodes {
		for _, network := range nodes[i].Spec.Networks {
			if parts[network.Name] != nil {
				read(parts[network.Name], nodes[i].Name, network.IPv4, network.IPv6)
			}
		}
	}
	return parts
}

// read leaves out what is no part; the node gets another.
func read(parts map[string]part, node, ipv4, ipv6 string) {
	if part, ok := parsePart(ipv4, ipv6); ok {
		parts[node] = part
	}
}

func parsePart(ipv4, ipv6 string) (createdPart part, ok bool) {
	first, err := netip.ParsePrefix(ipv4)
	if err != nil {
		return part{}, false
	}
	second, _ := netip.ParsePrefix(ipv6) // stays invalid where there is none
	return part{first, second}, true
}

// of are the nodes' parts of a network.
func (l *ledger) of(network string) map[string]part {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts[network]
}

// ofNode are a node's parts, by network.
func (l *ledger) ofNode(node string) map[string]part {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := map[string]part{}
	for network, nodes := range l.parts {
		if part, has := nodes[node]; has {
			parts[network] = part
		}
	}
	return parts
}

// set replaces the nodes' parts of a network.
func (l *ledger) set(network string, parts map[string]part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, givers := l.parts[network], map[string][]string{}
	for node, now := range parts {
		if now == before[node] {
			givers[node] = l.givers[network][node]
			continue
		}
		for other, had := range before {
			if other != node && had.meets(now) { // which was perhaps not told of it, but who had it before
				givers[node] = append(append(givers[node], other), l.givers[network][other]...)
			}
		}
	}
	maps.DeleteFunc(givers, func(_ string, owner []string) bool { return len(owner) == 0 })
	l.parts[network], l.givers[network] = parts, givers
}

// giversOf are the nodes whose part of a network a node has been given and whose TSNNodes may still have it.
func (l *ledger) giversOf(network, node string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.givers[network][node]
}

// given says of a node's part of a network that no other TSNNode has it any more.
func (l *ledger) given(network, node string, now part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts[network][node] == now {
		delete(l.givers[network], node)
	}
}

// drop forgets a network that is gone.
func (l *ledger) drop(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.parts, network)
	delete(l.givers, network)
}
