// SPDX-License-Identifier: Apache-2.0

// Package heartbeat lets clusters know that the hub is there: a ConfigMap with the time, which is renewed at the hub and which Karmada brings to
// all clusters. It would be a Lease, had Karmada not excepted Leases from what it propagates.
package heartbeat

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Every is how often it is renewed. A cluster believes it for three times as long.
const Every = 20 * time.Second

// Heart renews it. One federator does.
type Heart struct {
	Client client.Client
	// Namespace is KuberneTSN's in the clusters, too.
	Namespace string
	Now       func() time.Time
	Log       *slog.Logger
}

// NeedLeaderElection says that one federator does it.
func (h *Heart) NeedLeaderElection() bool { return true }

// Start renews it until ctx ends.
func (h *Heart) Start(ctx context.Context) error {
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	for {
		if err := h.beat(ctx); err != nil && ctx.Err() == nil {
			h.Log.Error("clusters are not told that the hub is there", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (h *Heart) beat(ctx context.Context) error {
	labels := map[string]string{federation.ManagedBy: federation.Manager}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: tsn.HubHeartbeat}}
	if _, err := controllerutil.CreateOrUpdate(ctx, h.Client, configMap, func() error {
		configMap.Labels = labels
		configMap.Data = map[string]string{tsn.HubObservedAt: h.Now().UTC().Format(time.RFC3339)}
		return nil
	}); err != nil {
		return fmt.Errorf("renew ConfigMap %s/%s: %w", h.Namespace, configMap.Name, err)
	}
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: tsn.HubHeartbeat}}
	if _, err := controllerutil.CreateOrUpdate(ctx, h.Client, policy, func() error {
		policy.Labels = mergeLabels(policy.Labels, labels)
		policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Namespace: h.Namespace, Name: configMap.Name}}
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(true)
		policy.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
		return nil
	}); err != nil {
		return fmt.Errorf("write policy %s/%s: %w", h.Namespace, policy.Name, err)
	}
	return nil
}

// mergeLabels keeps those that Karmada has added.
func mergeLabels(have, more map[string]string) map[string]string {
	if have == nil {
		have = map[string]string{}
	}
	for key, value := range more {
		have[key] = value
	}
	return have
}
