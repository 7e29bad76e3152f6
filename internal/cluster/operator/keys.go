// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// keys are the key by which the cluster signs its nodes, and those of other clusters.
type keys struct {
	client client.Client
	// live reads past the cache.
	live      client.Reader
	namespace string

	mu sync.Mutex
	// own is nil as long as nobody needed it.
	own *clusterkey.Private
}

// signer is the cluster's own key, of networks that are encrypted; nil for others.
func (k *keys) signer(ctx context.Context, network *v1alpha1.TSNNetwork) (*clusterkey.Private, error) {
	if !network.Spec.Encrypted() {
		return nil, nil
	}
	return k.ownKey(ctx)
}

// ownKey is the cluster's own key. The first time, it is made.
func (k *keys) ownKey(ctx context.Context) (*clusterkey.Private, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own != nil {
		return k.own, nil
	}
	at := types.NamespacedName{Namespace: k.namespace, Name: v1alpha1.ClusterKeySecret}
	var secret corev1.Secret
	err := k.live.Get(ctx, at, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return k.make(ctx, at)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", at, err)
	}
	own, err := clusterkey.FromSeed(secret.Data[v1alpha1.ClusterKeyField])
	if err != nil {
		return nil, fmt.Errorf("secret %s, field %s: %w; restore the Secret, or remove it and have other clusters pin the new key",
			at, v1alpha1.ClusterKeyField, err)
	}
	k.own = own
	return own, nil
}

// make makes the cluster's key. It is applied, not created: the right to create a Secret of one name only covers no other request.
func (k *keys) make(ctx context.Context, at types.NamespacedName) (*clusterkey.Private, error) {
	own, err := clusterkey.New()
	if err != nil {
		return nil, err
	}
	apply := corev1apply.Secret(at.Name, at.Namespace).WithLabels(map[string]string{"app.kubernetes.io/name": "kubernetsn"}).
		WithData(map[string][]byte{v1alpha1.ClusterKeyField: own.Seed()})
	if err := k.client.Apply(ctx, apply, fieldOwner); err != nil {
		return nil, fmt.Errorf("make Secret %s: %w", at, err)
	}
	k.own = own
	return own, nil
}

// clusterKeys are the keys that nodes of a network believe: this cluster's, and those that are pinned of clusters that the network's
// TSNPeers are of. A cluster of which none is pinned gets the one that it has now.
func (k *keys) clusterKeys(ctx context.Context, network *v1alpha1.TSNNetwork, all []v1alpha1.TSNPeers) ([]v1alpha1.ClusterKey, []finding, error) {
	own, err := k.signer(ctx, network)
	if err != nil || own == nil {
		return nil, nil, err
	}
	said := sayings{}
	for i := range all {
		if spec := &all[i].Spec; spec.Network == network.Name {
			said.add(spec.Cluster, spec.ClusterKey)
		}
	}
	return k.believed(ctx, own, said)
}

// sayings are the keys by which clusters say that they sign, by their names.
type sayings map[string][]string

func (s sayings) add(cluster, key string) {
	if cluster != "" && key != "" && !slices.Contains(s[cluster], key) {
		s[cluster] = append(s[cluster], key)
	}
}

// believed are the cluster's own key and those that are pinned of these clusters.
func (k *keys) believed(ctx context.Context, own *clusterkey.Private, said sayings) ([]v1alpha1.ClusterKey, []finding, error) {
	believed := []v1alpha1.ClusterKey{{PublicKey: own.Public().String()}}
	if len(said) == 0 {
		return believed, nil, nil
	}
	pins, err := k.pins(ctx, said)
	if err != nil {
		return nil, nil, err
	}
	var found []finding
	for _, cluster := range slices.Sorted(maps.Keys(said)) {
		pinned, err := clusterkey.Parse(pins[cluster])
		if err != nil {
			found = append(found, finding{reason: v1alpha1.ReasonClusterKeyDiffers, text: fmt.Sprintf("cluster %s: ConfigMap %s: %v", cluster, v1alpha1.ClusterKeyPins, err)})
			continue
		}
		believed = append(believed, v1alpha1.ClusterKey{Cluster: cluster, PublicKey: pinned.String()})
		for _, says := range said[cluster] {
			if says != pinned.String() {
				found = append(found, finding{reason: v1alpha1.ReasonClusterKeyDiffers, text: "cluster " + cluster + ": " + clusterkey.Differs(pinned, says)})
			}
		}
	}
	return believed, found, nil
}

// pins are the keys that are pinned, of these clusters too: what they say is pinned where nothing is.
func (k *keys) pins(ctx context.Context, said sayings) (map[string]string, error) {
	at := types.NamespacedName{Namespace: k.namespace, Name: v1alpha1.ClusterKeyPins}
	var have corev1.ConfigMap
	err := k.live.Get(ctx, at, &have)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", at, err)
	}
	pins, changed := maps.Clone(have.Data), false
	if pins == nil {
		pins = map[string]string{}
	}
	for cluster, says := range said {
		if _, is := pins[cluster]; is || len(says) > 1 {
			continue // two keys at once are no first one
		}
		if _, err := clusterkey.Parse(says[0]); err == nil {
			pins[cluster], changed = says[0], true
		}
	}
	if !changed {
		return pins, nil
	}
	if err == nil {
		have.Data = pins
		err = k.client.Update(ctx, &have, fieldOwner)
	} else {
		err = k.client.Apply(ctx, corev1apply.ConfigMap(at.Name, at.Namespace).WithData(pins), fieldOwner)
	}
	if err != nil {
		return nil, fmt.Errorf("pin keys of clusters in ConfigMap %s: %w", at, err)
	}
	return pins, nil
}
