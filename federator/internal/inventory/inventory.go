// SPDX-License-Identifier: Apache-2.0

// Package inventory publishes each member as a ClusterProfile, so that programs that do not know Karmada find the
// clusters of a fleet (SIG Multicluster, KEP-4322).
package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// clusterManager is the name of the cluster manager in profiles.
const clusterManager = "karmada"

// Publisher writes the profiles.
type Publisher struct {
	Client client.Client
	// Namespace is the namespace of the profiles.
	Namespace string
	Now       func() time.Time
	Log       *slog.Logger
}

// Add adds the controller to a manager. If the hub does not have the kind, nothing is published.
func (p *Publisher) Add(to manager.Manager) error {
	kind := inventory.GroupVersion.WithKind("ClusterProfile")
	if _, err := to.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			p.Log.Warn("the hub knows no ClusterProfile, and clusters are not published; install the kind and start the federator again to have them published")
			return nil
		}
		return fmt.Errorf("look for kind ClusterProfile: %w", err)
	}
	ofProfile := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetName()}}}
	})
	err := ctrl.NewControllerManagedBy(to).Named("inventory").For(&v1alpha1.Cluster{}).Watches(&inventory.ClusterProfile{}, ofProfile).Complete(p)
	if err != nil {
		return fmt.Errorf("prepare the inventory: %w", err)
	}
	return nil
}

// Reconcile publishes one cluster.
func (p *Publisher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	profile := &inventory.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: request.Name}}
	errProfile := p.Client.Get(ctx, client.ObjectKeyFromObject(profile), profile)
	if client.IgnoreNotFound(errProfile) != nil {
		return reconcile.Result{}, fmt.Errorf("look at profile %s: %w", request.Name, errProfile)
	}
	if errProfile == nil && profile.Labels[federation.ManagedBy] != federation.Manager {
		return reconcile.Result{}, nil // somebody else's profile
	}
	cluster := &v1alpha1.Cluster{}
	err := p.Client.Get(ctx, types.NamespacedName{Name: request.Name}, cluster)
	switch {
	case apierrors.IsNotFound(err) && errProfile == nil:
		return reconcile.Result{}, client.IgnoreNotFound(p.Client.Delete(ctx, profile))
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return spread.Result("publish cluster "+request.Name, 0, p.publish(ctx, cluster, profile, apierrors.IsNotFound(errProfile)))
}

func (p *Publisher) publish(ctx context.Context, cluster *v1alpha1.Cluster, profile *inventory.ClusterProfile, isNew bool) error {
	before := profile.DeepCopy()
	profile.Labels = maps.Clone(cluster.Labels)
	if profile.Labels == nil {
		profile.Labels = map[string]string{}
	}
	profile.Labels[federation.ManagedBy], profile.Labels[inventory.LabelClusterManagerKey] = federation.Manager, clusterManager
	profile.Spec = inventory.ClusterProfileSpec{DisplayName: cluster.Name, ClusterManager: inventory.ClusterManager{Name: clusterManager}}
	var err error
	switch {
	case isNew:
		err = p.Client.Create(ctx, profile)
	case !equality.Semantic.DeepEqual(before, profile):
		err = p.Client.Update(ctx, profile)
	}
	if err != nil {
		return err
	}
	before = profile.DeepCopy()
	p.describe(cluster, &profile.Status)
	if equality.Semantic.DeepEqual(before.Status, profile.Status) {
		return nil
	}
	return p.Client.Status().Update(ctx, profile)
}

// describe fills the status of a profile.
func (p *Publisher) describe(cluster *v1alpha1.Cluster, status *inventory.ClusterProfileStatus) {
	status.Version.Kubernetes = cluster.Status.KubernetesVersion
	healthy := metav1.Condition{Type: inventory.ClusterConditionControlPlaneHealthy, Status: metav1.ConditionUnknown, Reason: "NotReported",
		Message: "the cluster has not reported yet"}
	if condition := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterConditionReady); condition != nil {
		reportedCondition := spread.SanitizeCondition(*condition)
		healthy.Status, healthy.Reason, healthy.Message = reportedCondition.Status, reportedCondition.Reason, reportedCondition.Message
	}
	meta.SetStatusCondition(&status.Conditions, healthy)
	var properties []inventory.Property
	for _, property := range []inventory.Property{{Name: "region.karmada.io", Value: cluster.Spec.Region}, {Name: "id.karmada.io", Value: cluster.Spec.ID}} {
		if property.Value == "" {
			continue
		}
		property.LastObservedTime = metav1.NewTime(p.Now())
		for _, known := range status.Properties {
			if known.Name == property.Name && known.Value == property.Value {
				property.LastObservedTime = known.LastObservedTime
			}
		}
		properties = append(properties, property)
	}
	status.Properties = properties
}
