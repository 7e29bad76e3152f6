// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// span is the part of a network's status that a hub reads, and the state of the hub. It is zero for a network of one cluster.
type span struct {
	// peers are the network's nodes in this cluster, and mtu the largest MTU that pods' interfaces can have on all of them, 0 if unknown.
	peers []v1alpha1.PeerNode
	mtu   int32
	// hub is condition HubSeen, nil for a network of one cluster.
	hub *metav1.Condition
	// hubValidFor is how long hub stays true, 0 if it does not change with time.
	hubValidFor time.Duration
}

// spansClusters reports whether a hub has given this cluster a part of the network.
func spansClusters(network *v1alpha1.TSNNetwork) bool { return network.Spec.IPv4.Part != "" }

// describeSpan collects what a hub needs to know of a network with nodes in several clusters: its nodes and the state of the hub.
func (r *Networks) describeSpan(ctx context.Context, o *outcome) error {
	network, nodes, result := o.network, o.nodes, &o.span
	if network.Spec.Span != nil {
		o.add(finding{reason: v1alpha1.ReasonSpanOfHub, blocks: true, text: "spec.span is for a hub, whose ktsn-federator gives clusters " +
			"their parts; in a cluster of its own remove it, else make the network at the hub"})
		return nil
	}
	if !spansClusters(network) {
		return nil
	}
	signer, err := r.shared.keys.signingKey(ctx, network)
	if err == nil {
		r.shared.announced.learn(signer, network.Name, network.Status.Peers...)
		result.peers = r.shared.peersOf(network, nodes, nil, signer)
	} else { // clusterKeys reports it
		result.peers = network.Status.Peers
	}
	result.mtu = minMTU(result.peers)
	if count := len(result.peers); count > v1alpha1.MaxSpanPeers {
		result.peers = result.peers[:v1alpha1.MaxSpanPeers]
		o.add(finding{reason: v1alpha1.ReasonRangeUsedUp, text: fmt.Sprintf("only %d of the network's %d nodes here are announced to other clusters; "+
			"put its pods on fewer nodes", v1alpha1.MaxSpanPeers, count)})
	}
	result.hub, result.hubValidFor, err = r.hubCondition(ctx)
	return err
}

// peersOf returns the nodes that are peers of a network, sorted by name, with the static addresses of their pods, and with their keys if there is
// a signer.
func (s *shared) peersOf(object *v1alpha1.TSNNetwork, nodes *nodeSet, addresses heldAddresses, signer *clusterkey.Private) []v1alpha1.PeerNode {
	network := object.Name
	var all []v1alpha1.PeerNode
	parts := s.subnets.forNetwork(network)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		node, state, address := nodes.all[name], nodes.states[name], nodes.addresses[name]
		if node == nil || !address.IsValid() {
			continue
		}
		ipv4, ipv6 := parts[name].cidrs()
		// Announce a subnet only when it is in the node's own TSNNode, and never while another TSNNode still has it.
		nodeNetwork := networkOf(state, network)
		if nodeNetwork != nil && nodeNetwork.IPv4 == ipv4 && nodeNetwork.IPv6 == ipv6 && (active(node) || nodeNetwork.Pods > 0) {
			peer := v1alpha1.PeerNode{Name: name, Address: address.String(), IPv4: ipv4, IPv6: ipv6, Addresses: addresses[name], MTU: mtuOf(state, network)}
			if signer != nil {
				peer.Keys, peer.Sender, peer.CannotEncrypt = state.Status.Keys, state.Status.Sender, state.Status.EncryptionUnavailable != ""
				peer.ClusterIPv4 = object.Spec.IPv4.Part
				if object.Spec.IPv6 != nil {
					peer.ClusterIPv6 = object.Spec.IPv6.Part
				}
				s.announced.sign(signer, network, &peer)
			}
			all = append(all, peer)
		}
	}
	return all
}

// mtuOf returns the largest MTU of pods' interfaces that a node's agent reports for a network, 0 if it reports none.
func mtuOf(state *v1alpha1.TSNNode, network string) int32 {
	if state == nil {
		return 0
	}
	_, status := tsnnetwork.OnNode(state, network)
	if status == nil {
		return 0
	}
	return status.MTU
}

// minMTU returns the smallest MTU of the peers, 0 if one of them has not reported it.
func minMTU(peers []v1alpha1.PeerNode) int32 {
	if len(peers) == 0 {
		return 0
	}
	return slices.MinFunc(peers, func(a, b v1alpha1.PeerNode) int { return int(a.MTU) - int(b.MTU) }).MTU
}

// checkMTU reports the nodes whose uplink is too small for spec.mtu: pods cannot be attached there.
func checkMTU(_ context.Context, o *outcome) error {
	var small []string
	network := o.network
	for _, name := range slices.Sorted(maps.Keys(o.used.onNode)) {
		if limit := mtuOf(o.nodes.states[name], network.Name); limit > 0 && network.Spec.MTU > limit {
			small = append(small, fmt.Sprintf("%s (%d)", name, limit))
		}
	}
	if len(small) > 0 {
		o.add(finding{reason: v1alpha1.ReasonMTUTooLarge, blocks: true, once: v1alpha1.ReasonMTUTooLarge, text: fmt.Sprintf(
			"spec.mtu is %d bytes, and the uplinks of these nodes leave less: %s; lower spec.mtu, or raise the MTU of the uplinks",
			network.Spec.MTU, strings.Join(abbreviate(small), ", "))})
	}
	return nil
}

// hubTimeout is how long a hub's heartbeat is valid; the hub renews it three times in this period.
const hubTimeout = time.Minute

// hubCondition returns condition HubSeen from the heartbeat that the hub renews in the cluster, and how long it stays true.
func (r *Networks) hubCondition(ctx context.Context) (condition *metav1.Condition, validFor time.Duration, err error) {
	kind := v1alpha1.ConditionHubSeen
	var heartbeat corev1.ConfigMap
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: v1alpha1.HubHeartbeat}, &heartbeat)
	if client.IgnoreNotFound(err) != nil {
		return nil, 0, fmt.Errorf("get the hub's heartbeat: %w", err)
	}
	renewed, errTime := time.Parse(time.RFC3339, heartbeat.Data[v1alpha1.HubObservedAt])
	if err != nil || errTime != nil {
		return newCondition(kind, metav1.ConditionUnknown, v1alpha1.ReasonHubNeverSeen, "the hub has not given the cluster its heartbeat yet"), 0, nil
	}
	if validFor = time.Until(renewed.Add(hubTimeout)); validFor > 0 {
		return newCondition(kind, metav1.ConditionTrue, v1alpha1.ReasonHubRenewed, "the hub renews its heartbeat"), validFor, nil
	}
	return newCondition(kind, metav1.ConditionFalse, v1alpha1.ReasonHubSilent, fmt.Sprintf("the hub has not renewed its heartbeat since %s; the cluster keeps its state, "+
		"and does not learn nodes that join other clusters", renewed.UTC().Format(time.RFC3339))), 0, nil
}
