// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// keys manages the key by which the cluster signs its nodes, and the pinned keys of other clusters.
type keys struct {
	client client.Client
	// live reads past the cache.
	live      client.Reader
	namespace string
	// manual is set if the administrator pins the keys of other clusters.
	manual bool
	now    func() time.Time

	mu sync.Mutex
	// private is nil until it is needed. It was read at readAt.
	private *clusterkey.Private
	readAt  time.Time
	// rollError is the error of the last replacement, nil after a success.
	rollError error
}

const (
	// keyReadInterval is the shortest time between two reads of the Secret; networks and links check every rollCheckInterval whether to
	// replace the key.
	keyReadInterval   = 5 * time.Second
	rollCheckInterval = time.Minute
)

// signingKey returns the cluster's key for an encrypted network, nil for others.
func (k *keys) signingKey(ctx context.Context, network *v1alpha1.TSNNetwork) (*clusterkey.Private, error) {
	if !network.Spec.Encrypted() {
		return nil, nil
	}
	return k.clusterKey(ctx)
}

// clusterKey returns the cluster's own key. It creates the key if there is none, and replaces it when the annotation kubernetsn.io/roll
// of the Secret has changed. If the Secret becomes unreadable or is deleted while the operator runs, the key stays in use.
func (k *keys) clusterKey(ctx context.Context) (*clusterkey.Private, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.private != nil && k.now().Sub(k.readAt) < keyReadInterval {
		return k.private, nil
	}
	at := types.NamespacedName{Namespace: k.namespace, Name: v1alpha1.ClusterKeySecret}
	var secret corev1.Secret
	err := k.live.Get(ctx, at, &secret)
	switch {
	case err != nil && k.private != nil:
		return k.private, nil
	case apierrors.IsNotFound(err):
		return k.createKey(ctx, at)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", at, err)
	}
	private, err := clusterkey.FromSeed(secret.Data[v1alpha1.ClusterKeyField])
	if err != nil {
		return nil, fmt.Errorf("secret %s, field %s: %w; restore the Secret, or delete it and have other clusters pin the new key",
			at, v1alpha1.ClusterKeyField, err)
	}
	private.Succession = string(secret.Data[v1alpha1.ClusterKeySuccessionField])
	k.private, k.readAt, k.rollError = private, k.now(), nil
	if requested := secret.Annotations[v1alpha1.RollAnnotation]; requested != string(secret.Data[v1alpha1.ClusterKeyRolledField]) && requested != "" {
		k.roll(ctx, &secret, requested)
	}
	return k.private, nil
}

// createKey creates the cluster's key. It uses apply, not create: RBAC cannot restrict create to one name.
func (k *keys) createKey(ctx context.Context, at types.NamespacedName) (*clusterkey.Private, error) {
	private, err := clusterkey.New()
	if err != nil {
		return nil, err
	}
	apply := corev1apply.Secret(at.Name, at.Namespace).WithLabels(map[string]string{"app.kubernetes.io/name": "kubernetsn"}).
		WithData(map[string][]byte{v1alpha1.ClusterKeyField: private.Seed()})
	if err := k.client.Apply(ctx, apply, fieldOwner); err != nil {
		return nil, fmt.Errorf("create Secret %s: %w", at, err)
	}
	k.private, k.readAt = private, k.now()
	return private, nil
}

// roll replaces the cluster's key by a new one, which the old one signs. If that fails the old key stays, and findings reports it.
func (k *keys) roll(ctx context.Context, secret *corev1.Secret, requested string) {
	next, err := k.private.Succeed()
	if err == nil {
		apply := corev1apply.Secret(secret.Name, secret.Namespace).WithResourceVersion(secret.ResourceVersion).
			WithLabels(map[string]string{"app.kubernetes.io/name": "kubernetsn"}).WithData(map[string][]byte{
			v1alpha1.ClusterKeyField: next.Seed(), v1alpha1.ClusterKeySuccessionField: []byte(next.Succession), v1alpha1.ClusterKeyRolledField: []byte(requested),
		})
		err = k.client.Apply(ctx, apply, fieldOwner, client.ForceOwnership)
	}
	if err != nil {
		k.rollError = fmt.Errorf("replace the key in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		return
	}
	k.private = next
}

// findings returns the findings about the cluster's own key.
func (k *keys) findings() []finding {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rollError == nil {
		return nil
	}
	return []finding{{reason: v1alpha1.ReasonClusterKeysUnavailable, text: k.rollError.Error()}}
}

// clusterKeys returns the keys that nodes of a network trust: this cluster's, and the pinned ones of the clusters that the network's TSNPeers name.
// If keys cannot be read, nodes keep those that they have.
func (k *keys) clusterKeys(ctx context.Context, network *v1alpha1.TSNNetwork, all []v1alpha1.TSNPeers) ([]v1alpha1.ClusterKey, []finding, error) {
	if !network.Spec.Encrypted() {
		return nil, nil, nil
	}
	claimed := claims{}
	for i := range all {
		if spec := &all[i].Spec; spec.Network == network.Name {
			claimed.add(spec.Cluster, spec.ClusterKey, spec.ClusterKeySuccession, spec.Nodes)
		}
	}
	private, err := k.clusterKey(ctx)
	if err == nil {
		var trusted []v1alpha1.ClusterKey
		var findings []finding
		if trusted, findings, err = k.trustedKeys(ctx, private, network, claimed); err == nil {
			return truncateKeys(trusted, network.Status.ClusterKeys), append(findings, k.findings()...), nil
		}
	}
	if apierrors.IsConflict(err) {
		return nil, nil, err
	}
	return network.Status.ClusterKeys, []finding{{reason: v1alpha1.ReasonClusterKeysUnavailable, text: err.Error()}}, nil
}
