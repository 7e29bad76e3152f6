// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Limits of the keys in a TSNLink (api/v1alpha1). The API server rejects a link above them.
const (
	clusterKeyAtMost, successionAtMost, signatureAtMost, keyIDAtMost, publicKeyAtMost = 44, 600, 88, 32, 44

	keysAtMost = 2
)

// keysOf returns the keys of a pod's node as its cluster has signed them, or as links have them while the cluster
// reports nothing about the node. If they are invalid, why is the reason. They are passed on unchanged: the hub can
// withhold them, but cannot forge them.
func (v *view) keysOf(entry *claim, links []tsn.TSNLink) (keys *tsn.LinkNodeKeys, why string) {
	nodes := v.reports[entry.cluster].Status.Nodes
	for i := range nodes {
		if nodes[i].Name != entry.Node {
			continue
		}
		if why = keyRejectReason(&nodes[i].NodeKeys); why == "" {
			return &nodes[i].NodeKeys, ""
		}
		break
	}
	for i := range links {
		for _, end := range []*tsn.LinkEnd{&links[i].Spec.Client, &links[i].Spec.Endpoint} {
			if end.Cluster == entry.cluster && end.Node == entry.Node && end.NodeAddress == entry.NodeAddress && end.NodeKeys != nil {
				return end.NodeKeys, why
			}
		}
	}
	return nil, why
}

// keyRejectReason returns why a link cannot have the keys, "" if it can.
func keyRejectReason(keys *tsn.LinkNodeKeys) string {
	switch {
	case len(keys.ClusterKey) > clusterKeyAtMost:
		return fmt.Sprintf("clusterKey has %d characters; at most %d are allowed", len(keys.ClusterKey), clusterKeyAtMost)
	case len(keys.ClusterKeySuccession) > successionAtMost:
		return fmt.Sprintf("clusterKeySuccession has %d characters; at most %d are allowed", len(keys.ClusterKeySuccession), successionAtMost)
	case keys.Sequence < 0:
		return "sequence is negative"
	case len(keys.Signature) > signatureAtMost:
		return fmt.Sprintf("signature has %d characters; at most %d are allowed", len(keys.Signature), signatureAtMost)
	case len(keys.Keys) > keysAtMost:
		return fmt.Sprintf("there are %d keys; at most %d are allowed", len(keys.Keys), keysAtMost)
	case keys.Sender != nil && (keys.Sender.Kernel < 0 || keys.Sender.Ktsnd < 0):
		return "sender is negative"
	}
	seen := map[string]bool{}
	for i := range keys.Keys {
		key := &keys.Keys[i]
		switch {
		case key.ID == "" || len(key.ID) > keyIDAtMost || seen[key.ID]:
			return fmt.Sprintf("key id %q is invalid or repeated", key.ID)
		case key.Algorithm != tsn.KeyAlgorithm:
			return fmt.Sprintf("algorithm %q is not supported, %s is", key.Algorithm, tsn.KeyAlgorithm)
		case len(key.PublicKey) > publicKeyAtMost:
			return fmt.Sprintf("publicKey has %d characters; at most %d are allowed", len(key.PublicKey), publicKeyAtMost)
		}
		seen[key.ID] = true
	}
	return ""
}
