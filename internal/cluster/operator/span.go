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

// span is what a hub is told of a network that other clusters are on, too, and what is known of the hub. The zero value is that of a
// network of one cluster.
type span struct {
	// peers are the network's nodes here, and mtu the most that pods' interfaces can have on all of them, 0 where that is not known.
	peers []v1alpha1.PeerNode
	mtu   int32
	// hub is the condition HubSeen, nil for a network of one cluster.
	hub *metav1.Condition
	// left is when the hub is not believed any more, 0 for no matter when.
	left time.Duration
}

// stretched tells whether several clusters are on a network, of which this is one.
func stretched(network *v1alpha1.TSNNetwork) bool { return network.Spec.IPv4.Part != "" }

// spanOf looks at a network's nodes and at the hub.
func (r *Networks) spanOf(ctx context.Context, network *v1alpha1.TSNNetwork, nodes *nodeSet) (span, []finding, error) {
	if network.Spec.Span != nil {
		return span{}, []finding{{reason: v1alpha1.ReasonSpanOfHub, blocks: true, text: "spec.span is for a hub, whose ktsn-federator gives clusters " +
			"their parts; in a cluster of its own remove it, else make the network at the hub"}}, nil
	}
	if !stretched(network) {
		return span{}, nil, nil
	}
	var result span
	var findings []finding
	signer, err := r.shared.keys.signer(ctx, network)
	if err == nil {
		r.shared.announced.learn(signer, network.Name, network.Status.Peers...)
		result.peers = r.shared.peersOf(network, nodes, signer)
	} else { // clusterKeys reports it
		result.peers = network.Status.Peers
	}
	result.mtu = leastMTU(result.peers)
	if count := len(result.peers); count > v1alpha1.MaxSpanPeers {
		result.peers = result.peers[:v1alpha1.MaxSpanPeers]
		findings = append(findings, finding{reason: v1alpha1.ReasonRangeUsedUp, text: fmt.Sprintf("other clusters are told of %d of the network's %d nodes here; "+
			"put its pods on fewer nodes", v1alpha1.MaxSpanPeers, count)})
	}
	result.hub, result.left, err = r.hubSeen(ctx)
	return result, findings, err
}

// peersOf are the nodes of a network that shall be peers, in the order of their names, with their keys where these are signed.
func (s *shared) peersOf(object *v1alpha1.TSNNetwork, nodes *nodeSet, signer *clusterkey.Private) []v1alpha1.PeerNode {
	network := object.Name
	var all []v1alpha1.PeerNode
	parts := s.parts.of(network)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		node, state, address := nodes.all[name], nodes.states[name], nodes.addresses[name]
		if node == nil || !address.IsValid() {
			continue
		}
		ipv4, ipv6 := parts[name].texts()
		// Others hear of a part when the node itself can have heard of it, and never of one that was another's a moment ago.
		nodeNetwork := networkOf(state, network)
		if nodeNetwork != nil && nodeNetwork.IPv4 == ipv4 && nodeNetwork.IPv6 == ipv6 && (active(node) || nodeNetwork.Pods > 0) {
			peer := v1alpha1.PeerNode{Name: name, Address: address.String(), IPv4: ipv4, IPv6: ipv6, MTU: mtuOf(state, network)}
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

// mtuOf is the most that a node's agent says pods' interfaces of a network can have there, 0 where it says nothing.
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

// leastMTU is that of the node with the smallest, 0 as long as one of them has said nothing.
func leastMTU(peers []v1alpha1.PeerNode) int32 {
	if len(peers) == 0 {
		return 0
	}
	return slices.MinFunc(peers, func(a, b v1alpha1.PeerNode) int { return int(a.MTU) - int(b.MTU) }).MTU
}

// tooLarge says on which nodes spec.mtu does not fit through the uplink: there pods would not be attached.
func tooLarge(network *v1alpha1.TSNNetwork, nodes *nodeSet, used *usage) []finding {
	var small []string
	for _, name := range slices.Sorted(maps.Keys(used.onNode)) {
		if most := mtuOf(nodes.states[name], network.Name); most > 0 && network.Spec.MTU > most {
			small = append(small, fmt.Sprintf("%s (%d)", name, most))
		}
	}
	if len(small) == 0 {
		return nil
	}
	return []finding{{reason: v1alpha1.ReasonMTUTooLarge, blocks: true, once: v1alpha1.ReasonMTUTooLarge, text: fmt.Sprintf(
		"spec.mtu is %d bytes, and the uplinks of these nodes leave less: %s; lower spec.mtu, or raise the MTU of the uplinks",
		network.Spec.MTU, strings.Join(some(small), ", "))}}
}

// hubPatience is for how long a hub is believed that has renewed its heartbeat, as it does three times meanwhile.
const hubPatience = time.Minute

// hubSeen says whether the hub was heard of lately, by the heartbeat that it renews in the cluster, and for how long that holds.
func (r *Networks) hubSeen(ctx context.Context) (condition *metav1.Condition, left time.Duration, err error) {
	newCondition := func(status metav1.ConditionStatus, reason, text string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionHubSeen, Status: status, Reason: reason, Message: text}
	}
	var heartbeat corev1.ConfigMap
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: v1alpha1.HubHeartbeat}, &heartbeat)
	if client.IgnoreNotFound(err) != nil {
		return nil, 0, fmt.Errorf("look at the hub's heartbeat: %w", err)
	}
	renewed, errTime := time.Parse(time.RFC3339, heartbeat.Data[v1alpha1.HubObservedAt])
	if err != nil || errTime != nil {
		return newCondition(metav1.ConditionUnknown, v1alpha1.ReasonHubNeverSeen, "the hub has not given the cluster its heartbeat yet"), 0, nil
	}
	if left = time.Until(renewed.Add(hubPatience)); left > 0 {
		return newCondition(metav1.ConditionTrue, v1alpha1.ReasonHubRenewed, "the hub renews its heartbeat"), left, nil
	}
	return newCondition(metav1.ConditionFalse, v1alpha1.ReasonHubSilent, fmt.Sprintf("nothing was heard of the hub since %s; what holds in the cluster stays, "+
		"and nodes that join other clusters are not learnt", renewed.UTC().Format(time.RFC3339))), 0, nil
}
