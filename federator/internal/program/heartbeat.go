// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// heartbeatInterval is the time between two heartbeats. A cluster considers the hub alive for three intervals.
const heartbeatInterval = 20 * time.Second

// heartbeat shows clusters that the hub is alive: the leading federator renews a ConfigMap with the time at the hub, which
// Karmada propagates to all clusters. A Lease would fit better, but Karmada does not propagate Leases.
func heartbeat(c client.Client, namespace string, log *slog.Logger) manager.RunnableFunc {
	return func(ctx context.Context) error {
		wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
			if err := beat(ctx, c, namespace); err != nil && ctx.Err() == nil {
				log.Error("the heartbeat for clusters is late", "error", err)
			}
		}, heartbeatInterval)
		return nil
	}
}

func beat(ctx context.Context, c client.Client, namespace string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: tsn.HubHeartbeat}
	configMap := &corev1.ConfigMap{ObjectMeta: meta}
	if _, err := controllerutil.CreateOrUpdate(ctx, c, configMap, func() error {
		configMap.Labels = map[string]string{federation.ManagedBy: federation.Manager}
		configMap.Data = map[string]string{tsn.HubObservedAt: time.Now().UTC().Format(time.RFC3339)}
		return nil
	}); err != nil {
		return fmt.Errorf("renew ConfigMap %s/%s: %w", namespace, configMap.Name, err)
	}
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: meta}
	if _, err := controllerutil.CreateOrUpdate(ctx, c, policy, func() error {
		metav1.SetMetaDataLabel(&policy.ObjectMeta, federation.ManagedBy, federation.Manager) // Karmada has added others
		policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: configMap.Name}}
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(true)
		policy.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
		return nil
	}); err != nil {
		return fmt.Errorf("write policy %s/%s: %w", namespace, policy.Name, err)
	}
	return nil
}
