// SPDX-License-Identifier: Apache-2.0

// Package heartbeat shows clusters that the hub is alive: it renews a ConfigMap with the time at the hub, which Karmada
// propagates to all clusters. A Lease would fit better, but Karmada does not propagate Leases.
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

// Interval is the time between two renewals. A cluster considers the hub alive for three intervals.
const Interval = 20 * time.Second

// Beater renews the ConfigMap. Only the leading federator runs it.
type Beater struct {
	Client client.Client
	// Namespace is the namespace of KuberneTSN, in the clusters as well.
	Namespace string
	Now       func() time.Time
	Log       *slog.Logger
}

// NeedLeaderElection returns true: one federator renews the ConfigMap.
func (h *Beater) NeedLeaderElection() bool { return true }

// Start renews the ConfigMap until ctx ends.
func (h *Beater) Start(ctx context.Context) error {
	ticker := time.NewTicker(Interval)
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

func (h *Beater) beat(ctx context.Context) error {
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

// mergeLabels keeps the labels that Karmada has added.
func mergeLabels(existing, more map[string]string) map[string]string {
	if existing == nil {
		existing = map[string]string{}
	}
	for key, value := range more {
		existing[key] = value
	}
	return existing
}
