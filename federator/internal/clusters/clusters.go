// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Service serves one caller.
type Service struct {
	// Client acts as the caller.
	Client client.Client
	// FederatorClient acts as the federator. It serves agents that request their first certificate, which have no
	// rights at the hub.
	FederatorClient client.Client
	User            authenticationv1.UserInfo
	// Server and CA are the address and the authority by which agents reach the hub.
	Server string
	CA     []byte
	Now    func() time.Time
}

// List returns all clusters.
func (s *Service) List(ctx context.Context) (*federation.Clusters, error) {
	var list v1alpha1.ClusterList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	all := &federation.Clusters{Items: []federation.Cluster{}}
	for i := range list.Items {
		all.Items = append(all.Items, Describe(&list.Items[i], s.pin(ctx, &list.Items[i])))
	}
	return all, nil
}

// pin compares the authority in a cluster's credentials with the fingerprint given at the join. It returns "" if the
// caller may not read the credentials.
func (s *Service) pin(ctx context.Context, cluster *v1alpha1.Cluster) string {
	pinned, reference := cluster.Annotations[federation.FingerprintAnnotation], cluster.Spec.SecretRef
	if pinned == "" || reference == nil {
		return federation.PinUnknown
	}
	var secret corev1.Secret
	if err := s.Client.Get(ctx, types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}, &secret); err != nil {
		return federation.PinUnknown
	}
	return comparePin(pinned, secret.Data[v1alpha1.SecretCADataKey])
}

// Describe returns a cluster as the API shows it. The cluster's agent writes the status and is not trusted.
func Describe(cluster *v1alpha1.Cluster, pin string) federation.Cluster {
	currentCluster := federation.Cluster{
		Name: cluster.Name, Mode: string(cluster.Spec.SyncMode), Ready: string(metav1.ConditionUnknown), Message: "the cluster has not reported yet",
		KubernetesVersion: spread.Quoted(cluster.Status.KubernetesVersion), Region: cluster.Spec.Region, Labels: cluster.Labels,
		Fingerprint: cluster.Annotations[federation.FingerprintAnnotation], Pin: pin, Leaving: hub.Leaving(cluster),
	}
	if ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterConditionReady); ready != nil {
		currentCluster.Ready, currentCluster.Message = string(ready.Status), spread.Quoted(ready.Message)
		if ready.Status == metav1.ConditionTrue {
			currentCluster.Message = ""
		}
	}
	if nodes := cluster.Status.NodeSummary; nodes != nil {
		currentCluster.Nodes, currentCluster.NodesReady = max(nodes.TotalNum, 0), max(nodes.ReadyNum, 0)
	}
	return currentCluster
}

// Require fails unless all named clusters exist and are not being removed.
func Require(ctx context.Context, c client.Client, names []string) error {
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return hub.Faultf(http.StatusUnprocessableEntity, "%q is not a valid name of a cluster; `ktsn fed clusters` lists them", spread.Quoted(name))
		}
		var cluster v1alpha1.Cluster
		err := c.Get(ctx, types.NamespacedName{Name: name}, &cluster)
		switch {
		case apierrors.IsNotFound(err):
			return hub.Faultf(http.StatusUnprocessableEntity, "there is no cluster %s; `ktsn fed clusters` lists them", name)
		case err != nil:
			return fmt.Errorf("look at cluster %s: %w", name, err)
		case hub.Leaving(&cluster):
			return hub.Faultf(http.StatusConflict, "cluster %s is being removed", name)
		}
	}
	return nil
}
