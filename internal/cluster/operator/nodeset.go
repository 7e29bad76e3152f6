// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// nodeSet has the cluster's nodes. Its objects are shared with the cache: read only.
type nodeSet struct {
	all    map[string]*corev1.Node
	states map[string]*v1alpha1.TSNNode
	// addresses are the tunnel addresses by node; faults has the reasons why the other nodes have none.
	addresses map[string]netip.Addr
	faults    map[string]error
	agents    *agentIndex
}

func listNodes(ctx context.Context, reader client.Reader, agents *agentIndex, tunnels *tunnels) (*nodeSet, error) {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	var states v1alpha1.TSNNodeList
	if err := reader.List(ctx, &states, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the TSNNodes: %w", err)
	}
	set := &nodeSet{
		all: make(map[string]*corev1.Node, len(nodes.Items)), states: make(map[string]*v1alpha1.TSNNode, len(states.Items)),
		agents: agents,
	}
	var err error
	if set.addresses, set.faults, err = tunnels.assign(ctx, reader, nodes.Items); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		set.all[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range states.Items {
		set.states[states.Items[i].Name] = &states.Items[i]
	}
	return set, nil
}

// tunnels remembers the tunnel address of each node. A node keeps its address until it asks for another one or is deleted, so that no
// other node can take it over by reporting it. A new operator learns the addresses from the TSNPeers and TSNLinks that operators have
// written or admitted.
type tunnels struct {
	mu   sync.Mutex
	held map[string]netip.Addr
}

// assign assigns the nodes' addresses; faults has the reasons why the other nodes have none.
func (t *tunnels) assign(ctx context.Context, reader client.Reader, nodes []corev1.Node) (addresses map[string]netip.Addr, faults map[string]error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		held := map[string]netip.Addr{}
		if err := errors.Join(learnFromPeers(ctx, reader, held), learnFromLinks(ctx, reader, held)); err != nil {
			return nil, nil, err
		}
		t.held = held
	}
	addresses, faults = tsnnetwork.TunnelAddresses(nodes, t.held)
	t.held = addresses
	return maps.Clone(addresses), faults, nil
}

// learnFromPeers adds the nodes of networks.
func learnFromPeers(ctx context.Context, reader client.Reader, held map[string]netip.Addr) error {
	var all v1alpha1.TSNPeersList
	if err := reader.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the peers: %w", err)
	}
	for i := range all.Items {
		if !isOwnShard(&all.Items[i]) {
			continue
		}
		for _, node := range all.Items[i].Spec.Nodes {
			learnAddress(held, node.Name, node.Address)
		}
	}
	return nil
}

// learnFromLinks adds nodes at ends of links, the operator's own links first. A hub's link counts only at ends with a pod of this
// cluster, because other clusters may have nodes of the same names.
func learnFromLinks(ctx context.Context, reader client.Reader, held map[string]netip.Addr) error {
	var all v1alpha1.TSNLinkList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&all, &pods} {
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list links and pods: %w", err)
		}
	}
	nodeOf := make(map[string]string, len(pods.Items)) // by UID
	for i := range pods.Items {
		nodeOf[string(pods.Items[i].UID)] = pods.Items[i].Spec.NodeName
	}
	for _, local := range []bool{true, false} {
		for i := range all.Items {
			link := &all.Items[i]
			if !link.Admitted() || local != (link.Labels[v1alpha1.LinkMakerLabel] == v1alpha1.MakerOperator) {
				continue
			}
			for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
				if local || nodeOf[end.UID] == end.Node {
					learnAddress(held, end.Node, end.NodeAddress)
				}
			}
		}
	}
	return nil
}

// learnAddress stores the first valid address of a node.
func learnAddress(held map[string]netip.Addr, node, text string) {
	if address, err := netip.ParseAddr(text); err == nil && !address.IsUnspecified() && !held[node].IsValid() {
		held[node] = address
	}
}

// active reports whether ktsnd and its agent run on a node.
func active(node *corev1.Node) bool { return node.Labels[v1alpha1.NodeLabel] == v1alpha1.LabelValue }

// getState returns the TSNNode of a node, nil if there is none.
func getState(ctx context.Context, reader client.Reader, node string, options ...client.GetOption) (*v1alpha1.TSNNode, error) {
	state := &v1alpha1.TSNNode{}
	err := reader.Get(ctx, client.ObjectKey{Name: node}, state, options...)
	switch {
	case err == nil:
		return state, nil
	case client.IgnoreNotFound(err) == nil:
		return nil, nil
	}
	return nil, fmt.Errorf("get TSNNode %s: %w", node, err)
}

// networkOf returns the network's entry in the spec of a TSNNode, nil for none.
func networkOf(state *v1alpha1.TSNNode, network string) *v1alpha1.NodeNetwork {
	if state == nil {
		return nil
	}
	for i := range state.Spec.Networks {
		if state.Spec.Networks[i].Name == network {
			return &state.Spec.Networks[i]
		}
	}
	return nil
}
