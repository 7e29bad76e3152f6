// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// claim has the keys, and the signed nodes, that objects attribute to another cluster. The objects may be forged.
type claim struct {
	keys []string
	// successions are the signatures by which keys succeed others, by the new key.
	successions map[string]string
	nodes       []*v1alpha1.PeerNode
}

// claims are indexed by cluster.
type claims map[string]*claim

func (c claims) add(cluster, key, succession string, nodes []v1alpha1.PeerNode) {
	if cluster == "" || key == "" {
		return
	}
	if c[cluster] == nil {
		c[cluster] = &claim{successions: map[string]string{}}
	}
	if !slices.Contains(c[cluster].keys, key) {
		c[cluster].keys = append(c[cluster].keys, key)
	}
	if succession != "" {
		c[cluster].successions[key] = succession
	}
	for i := range nodes {
		c[cluster].nodes = append(c[cluster].nodes, &nodes[i])
	}
}

// trustedKeys returns the cluster's own key and the pinned keys of the clusters in claims, with these clusters' parts of a network;
// network is nil for links, which have no parts. It pins keys that are not pinned yet, unless the administrator does that.
func (k *keys) trustedKeys(ctx context.Context, private *clusterkey.Private, network *v1alpha1.TSNNetwork, claimed claims) ([]v1alpha1.ClusterKey, []finding, error) {
	trusted := []v1alpha1.ClusterKey{{PublicKey: private.Public().String(), Succession: private.Succession}}
	if len(claimed) == 0 {
		return trusted, nil, nil
	}
	at := types.NamespacedName{Namespace: k.namespace, Name: v1alpha1.ClusterKeyPins}
	config := &corev1.ConfigMap{}
	err := k.live.Get(ctx, at, config)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read ConfigMap %s: %w", at, err)
	}
	set := parsePins(config.Data, private.Public(), network)
	for _, cluster := range slices.Sorted(maps.Keys(claimed)) {
		set.update(cluster, claimed[cluster], k.manual)
	}
	if len(set.changed) > 0 {
		if err := k.writePins(ctx, at, config, err == nil, set); apierrors.IsConflict(err) {
			return nil, nil, err
		} else if err != nil {
			unwritten := finding{reason: v1alpha1.ReasonClusterKeysUnavailable, text: fmt.Sprintf("pin keys of clusters in ConfigMap %s: %v", at, err)}
			set.findings = append(set.findings, unwritten)
			set.pins = parsePins(config.Data, private.Public(), network).pins
		}
	}
	return append(trusted, set.keysOf(claimed)...), set.findings, nil
}

func (k *keys) writePins(ctx context.Context, at types.NamespacedName, config *corev1.ConfigMap, exists bool, set *pinSet) error {
	data := maps.Clone(config.Data)
	if data == nil {
		data = map[string]string{}
	}
	for cluster := range set.changed {
		data[cluster] = set.pins[cluster].String()
	}
	if !exists {
		return k.client.Apply(ctx, corev1apply.ConfigMap(at.Name, at.Namespace).WithData(data), fieldOwner)
	}
	updated := config.DeepCopy()
	updated.Data = data
	return k.client.Update(ctx, updated, fieldOwner)
}

// pinSet has the pinned clusters, with their parts of a network.
type pinSet struct {
	localKey clusterkey.Public
	network  *v1alpha1.TSNNetwork
	pins     map[string]*clusterkey.Pin
	// damaged are the entries that cannot be parsed.
	damaged  map[string]error
	changed  map[string]bool
	findings []finding
}

func parsePins(data map[string]string, public clusterkey.Public, network *v1alpha1.TSNNetwork) *pinSet {
	set := &pinSet{localKey: public, network: network, pins: map[string]*clusterkey.Pin{}, damaged: map[string]error{}, changed: map[string]bool{}}
	for cluster, text := range data {
		pin, err := clusterkey.ParsePin(text)
		if err != nil {
			set.damaged[cluster] = err
			continue
		}
		set.pins[cluster] = pin
	}
	return set
}

func (s *pinSet) report(reason, format string, values ...any) {
	s.findings = append(s.findings, finding{reason: reason, text: fmt.Sprintf(format, values...)})
}

// update compares the pin of a cluster with its claim, and follows a signed successor of the key.
func (s *pinSet) update(cluster string, claimed *claim, manual bool) {
	if err := s.damaged[cluster]; err != nil {
		s.report(v1alpha1.ReasonClusterKeyDiffers, "cluster %s: ConfigMap %s: %v", cluster, v1alpha1.ClusterKeyPins, err)
		return
	}
	pin := s.pins[cluster]
	if pin == nil {
		key, err := s.firstKey(cluster, claimed, manual)
		if err != nil {
			s.report(v1alpha1.ReasonClusterKeyUnknown, "cluster %q: %v", cluster, err)
			return
		}
		pin = &clusterkey.Pin{Key: key, Parts: map[string]clusterkey.Part{}}
		s.pins[cluster], s.changed[cluster] = pin, true
	}
	s.follow(cluster, pin, claimed)
	if s.network != nil {
		s.updatePart(cluster, pin, claimed.nodes)
	}
}

// firstKey returns the key to pin for a cluster without a pin.
func (s *pinSet) firstKey(cluster string, claimed *claim, manual bool) (key clusterkey.Public, err error) {
	if problems := validation.IsDNS1123Label(cluster); len(problems) > 0 {
		return key, fmt.Errorf("no key of it can be pinned, because it is not the name of a cluster: %s", strings.Join(problems, "; "))
	}
	if len(claimed.keys) > 1 { // it is unknown which of them is the cluster's
		return key, fmt.Errorf("objects name %d different keys of it; pin the right one in ConfigMap %s", len(claimed.keys), v1alpha1.ClusterKeyPins)
	}
	if key, err = clusterkey.Parse(claimed.keys[0]); err != nil {
		return key, err
	}
	if other := s.ownerOf(key); other != "" {
		return key, fmt.Errorf("it signs by %s, which is the key of %s; a key belongs to one cluster", key.Fingerprint(), other)
	}
	if manual {
		return key, fmt.Errorf("it signs by %s, and keys are pinned manually (value encryption.pinning); compare the fingerprint with the cluster's "+
			"administrator, then add the key to ConfigMap %s", key.Fingerprint(), v1alpha1.ClusterKeyPins)
	}
	if count := len(s.pins) + len(s.damaged); count >= v1alpha1.MostClusterKeys {
		return key, fmt.Errorf("it signs by %s, which is not pinned because %d clusters are already; remove those that have left from ConfigMap %s",
			key.Fingerprint(), count, v1alpha1.ClusterKeyPins)
	}
	return key, nil
}

// follow pins the key that the pinned key has signed as its successor, and reports other keys. A former key is neither pinned nor
// reported: objects that a hub brings do not change at once.
func (s *pinSet) follow(cluster string, pin *clusterkey.Pin, claimed *claim) {
	for _, text := range claimed.keys {
		next, err := clusterkey.Parse(text)
		if err == nil && next.Succeeds(pin.Key, claimed.successions[text]) && s.ownerOf(next) == "" {
			pin.Key = next
			s.changed[cluster] = true
		}
	}
	for _, text := range claimed.keys {
		former, err := clusterkey.Parse(text)
		if former == pin.Key || err == nil && pin.Key.Succeeds(former, claimed.successions[pin.Key.String()]) {
			continue
		}
		s.report(v1alpha1.ReasonClusterKeyDiffers, "cluster %s: %s", cluster, clusterkey.Differs(pin.Key, text))
	}
}

// ownerOf returns the cluster that has the key, "" for none.
func (s *pinSet) ownerOf(key clusterkey.Public) string {
	if key == s.localKey {
		return "this cluster"
	}
	for _, other := range slices.Sorted(maps.Keys(s.pins)) {
		if s.pins[other].Key == key {
			return "cluster " + other
		}
	}
	return ""
}

// updatePart pins the part of the network for which a cluster has signed nodes. A part can grow; it cannot move, or take addresses of others.
func (s *pinSet) updatePart(cluster string, pin *clusterkey.Pin, nodes []*v1alpha1.PeerNode) {
	network := s.network.Name
	if part, pinned := pin.Parts[network]; pinned && !s.inNetwork(part) { // an earlier network had the same name
		delete(pin.Parts, network)
		s.changed[cluster] = true
	}
	for _, part := range signedParts(network, pin, nodes) {
		pinned, known := pin.Parts[network]
		switch {
		case known && pinned.Contains(part): // unchanged, or from before the part grew
		case known && !part.Contains(pinned):
			s.report(v1alpha1.ReasonClusterPartDiffers, "cluster %s signs nodes for %s of network %s, and %s is pinned as its part; if that is right, correct it in "+
				"ConfigMap %s", cluster, part, network, pinned, v1alpha1.ClusterKeyPins)
		case !s.inNetwork(part):
			s.report(v1alpha1.ReasonClusterPartDiffers, "cluster %s signs nodes for %s, which is not in network %s", cluster, part, network)
		case s.claimant(cluster, part) != "":
			s.report(v1alpha1.ReasonClusterPartDiffers, "cluster %s signs nodes for %s of network %s, and %s has addresses of it; they are not accepted",
				cluster, part, network, s.claimant(cluster, part))
		default:
			pin.Parts[network] = part
			s.changed[cluster] = true
		}
	}
	if part, pinned := pin.Parts[network]; pinned && s.claimant(cluster, part) != "" {
		s.report(v1alpha1.ReasonClusterPartDiffers, "cluster %s has %s of network %s pinned, and %s has addresses of it; correct ConfigMap %s", cluster, part, network,
			s.claimant(cluster, part), v1alpha1.ClusterKeyPins)
	}
}

// signedParts returns the parts for which a cluster has signed nodes, the smallest first, without the pinned one.
func signedParts(network string, pin *clusterkey.Pin, nodes []*v1alpha1.PeerNode) []clusterkey.Part {
	var parts []clusterkey.Part
	for _, node := range nodes {
		part, err := clusterkey.ParsePart(node.ClusterIPv4, node.ClusterIPv6)
		if err != nil || part == pin.Parts[network] || slices.Contains(parts, part) || pin.Key.Verify(network, node) != nil {
			continue
		}
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b clusterkey.Part) int { return cmp.Compare(b.IPv4.Bits(), a.IPv4.Bits()) })
	return parts
}

// inNetwork reports whether a part lies in the network's ranges.
func (s *pinSet) inNetwork(part clusterkey.Part) bool {
	whole := clusterkey.Part{}
	for _, prefix := range tsnnetwork.Ranges(s.network) {
		if prefix.Addr().Is4() {
			whole.IPv4 = prefix
		} else {
			whole.IPv6 = prefix
		}
	}
	return whole.Contains(part)
}

// claimant returns the name of another cluster, or of this one, that has addresses of a cluster's part; "" for none.
func (s *pinSet) claimant(cluster string, part clusterkey.Part) string {
	ipv6 := ""
	if s.network.Spec.IPv6 != nil {
		ipv6 = s.network.Spec.IPv6.Part
	}
	if localPart, err := clusterkey.ParsePart(s.network.Spec.IPv4.Part, ipv6); err == nil && localPart.Overlaps(part) {
		return "this cluster"
	}
	for _, other := range slices.Sorted(maps.Keys(s.pins)) {
		if other != cluster && s.pins[other].Parts[s.network.Name].Overlaps(part) {
			return "cluster " + other
		}
	}
	return ""
}

// keysOf returns the pinned keys of clusters, with their parts unless another cluster has addresses of those.
func (s *pinSet) keysOf(claimed claims) []v1alpha1.ClusterKey {
	var all []v1alpha1.ClusterKey
	for _, cluster := range slices.Sorted(maps.Keys(claimed)) {
		pin := s.pins[cluster]
		if pin == nil {
			continue
		}
		key := v1alpha1.ClusterKey{Cluster: cluster, PublicKey: pin.Key.String()}
		if s.network != nil {
			if part := pin.Parts[s.network.Name]; s.claimant(cluster, part) == "" {
				key.IPv4, key.IPv6 = part.Texts()
			}
		}
		all = append(all, key)
	}
	return all
}
