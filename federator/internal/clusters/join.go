// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Join makes a cluster a member. It can be repeated after a failure; then a cluster in pull mode gets a new bootstrap
// token. Join does not change the mode or the authority of a member.
func (s *Service) Join(ctx context.Context, request *federation.JoinRequest) (*federation.Joined, error) {
	request.Mode = cmp.Or(request.Mode, federation.Pull)
	if err := validate(request); err != nil {
		return nil, err
	}
	cluster, err := s.member(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := s.ensureNamespaces(ctx, request.Name); err != nil {
		return nil, err
	}
	if request.Mode == federation.Push {
		if err := s.storeCredentials(ctx, request, cluster); err != nil {
			return nil, err
		}
	}
	if cluster.UID == "" {
		if err := s.create(ctx, request, cluster); err != nil {
			return nil, err
		}
	}
	joined := &federation.Joined{Cluster: Describe(cluster, s.pin(ctx, cluster))}
	if request.Mode == federation.Pull {
		joined.Bootstrap, err = s.prepareAgent(ctx, cluster)
	}
	return joined, err
}

// create creates the Cluster. Karmada wants the credentials first; their owner is set after the Cluster exists.
func (s *Service) create(ctx context.Context, request *federation.JoinRequest, cluster *v1alpha1.Cluster) error {
	if err := s.Client.Create(ctx, cluster); err != nil {
		return fmt.Errorf("create cluster %s: %w", request.Name, err)
	}
	if request.Mode == federation.Push {
		return s.storeCredentials(ctx, request, cluster)
	}
	return nil
}

// ownedBy returns an owner reference to a Cluster, if that exists already.
func ownedBy(cluster *v1alpha1.Cluster) []metav1.OwnerReference {
	if cluster.UID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ResourceKindCluster, Name: cluster.Name, UID: cluster.UID}}
}

// prepareAgent gives the agent of a cluster its rights and a token for its first certificate.
func (s *Service) prepareAgent(ctx context.Context, cluster *v1alpha1.Cluster) (*federation.Bootstrap, error) {
	if err := s.ensureRoles(ctx, cluster); err != nil {
		return nil, err
	}
	return s.bootstrap(ctx, cluster)
}

// validate rejects combinations of fields that do not fit the mode.
func validate(request *federation.JoinRequest) error {
	if request.Mode == federation.Pull {
		if request.Token != "" || request.CA != "" || request.Endpoint != "" || request.Proxy {
			return hub.Faultf(http.StatusUnprocessableEntity, "endpoint, ca, token and proxy are for mode Push; the hub does not reach a cluster in mode Pull, "+
				"and shall not have its credentials")
		}
		if request.ID == "" {
			return hub.Faultf(http.StatusUnprocessableEntity, "id is missing; mode Pull needs the UID of the cluster's namespace kube-system, without which the agent "+
				"of the cluster takes the member for another: kubectl get namespace kube-system -o jsonpath={.metadata.uid}")
		}
		return nil
	}
	if address, err := url.Parse(request.Endpoint); err != nil || address.Scheme != "https" || address.Host == "" {
		return hub.Faultf(http.StatusUnprocessableEntity, "endpoint %q is not the address of an API server; it is a URL such as https://192.0.2.1:6443", request.Endpoint)
	}
	if request.Token == "" {
		return hub.Faultf(http.StatusUnprocessableEntity, "token is missing; mode Push needs one of the cluster")
	}
	existing, err := fingerprints([]byte(request.CA))
	switch {
	case err != nil:
		return hub.Faultf(http.StatusUnprocessableEntity, "ca is not a certificate in PEM: %v", err)
	case len(existing) > 1:
		return hub.Faultf(http.StatusUnprocessableEntity, "ca has %d certificates; give the one of the cluster's authority", len(existing))
	case request.Fingerprint != "" && request.Fingerprint != existing[0]:
		return hub.Faultf(http.StatusUnprocessableEntity, "fingerprint is %s, and that of ca is %s; this is not the authority that was meant", request.Fingerprint, existing[0])
	}
	request.Fingerprint = existing[0]
	return nil
}

// member returns the existing Cluster, or a new one without a UID.
func (s *Service) member(ctx context.Context, request *federation.JoinRequest) (*v1alpha1.Cluster, error) {
	cluster := &v1alpha1.Cluster{}
	err := s.Client.Get(ctx, types.NamespacedName{Name: request.Name}, cluster)
	if apierrors.IsNotFound(err) {
		return newCluster(request), s.checkNotMember(ctx, request)
	}
	if err != nil {
		return nil, fmt.Errorf("look at cluster %s: %w", request.Name, err)
	}
	pinned := cluster.Annotations[federation.FingerprintAnnotation]
	switch {
	case hub.Leaving(cluster):
		return nil, hub.Faultf(http.StatusConflict, "cluster %s is being removed; join it again when it has left", request.Name)
	case string(cluster.Spec.SyncMode) != request.Mode:
		return nil, hub.Faultf(http.StatusConflict, "cluster %s is a member in mode %s; unjoin it before it joins in mode %s", request.Name, cluster.Spec.SyncMode, request.Mode)
	case request.Fingerprint != "" && request.Fingerprint != pinned:
		return nil, hub.Faultf(http.StatusConflict, "cluster %s is a member with authority %s, and not %s; unjoin it first if it is another cluster",
			request.Name, cmp.Or(pinned, "unknown"), request.Fingerprint)
	case request.ID != "" && cluster.Spec.ID != "" && request.ID != cluster.Spec.ID:
		return nil, hub.Faultf(http.StatusConflict, "cluster %s is the one with id %s, and not %s; unjoin it first if it is another cluster", request.Name, cluster.Spec.ID, request.ID)
	case cluster.Status.KubernetesVersion != "" && request.Mode == federation.Pull:
		return nil, hub.Faultf(http.StatusConflict, "cluster %s is a member already, and its agent has reported; unjoin it first if it shall get another agent", request.Name)
	}
	return cluster, nil
}

// checkNotMember rejects a cluster that is a member under another name: its agent would not start.
func (s *Service) checkNotMember(ctx context.Context, request *federation.JoinRequest) error {
	var list v1alpha1.ClusterList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list the clusters: %w", err)
	}
	for i := range list.Items {
		if request.ID != "" && list.Items[i].Spec.ID == request.ID {
			return hub.Faultf(http.StatusConflict, "the cluster with id %s is a member already, by the name %s", request.ID, list.Items[i].Name)
		}
	}
	return nil
}

func newCluster(request *federation.JoinRequest) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: request.Name, Labels: request.Labels},
		Spec:       v1alpha1.ClusterSpec{ID: request.ID, SyncMode: v1alpha1.ClusterSyncMode(request.Mode), Region: request.Region},
	}
	if request.Fingerprint != "" {
		cluster.Annotations = map[string]string{federation.FingerprintAnnotation: request.Fingerprint}
	}
	if request.Mode == federation.Push {
		cluster.Spec.APIEndpoint = request.Endpoint
		cluster.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: hub.ClusterNamespace, Name: request.Name}
		if request.Proxy {
			cluster.Spec.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: hub.ClusterNamespace, Name: hub.Impersonator(request.Name)}
		}
	}
	return cluster
}

// ensureNamespaces creates the namespaces of an agent's roles.
func (s *Service) ensureNamespaces(ctx context.Context, cluster string) error {
	for _, name := range []string{hub.ClusterNamespace, hub.ExecutionNamespace(cluster)} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hub.SystemLabel: hub.SystemValue}}}
		if err := s.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

// storeCredentials writes the credentials of a cluster in push mode where Karmada expects them. A member's credentials
// are replaced, so that they can be rotated. The Cluster owns them.
func (s *Service) storeCredentials(ctx context.Context, request *federation.JoinRequest, cluster *v1alpha1.Cluster) error {
	full := map[string][]byte{v1alpha1.SecretTokenKey: []byte(request.Token), v1alpha1.SecretCADataKey: []byte(request.CA)}
	secrets := map[string]map[string][]byte{request.Name: full}
	if cluster.Spec.ImpersonatorSecretRef != nil {
		secrets[hub.Impersonator(request.Name)] = map[string][]byte{v1alpha1.SecretTokenKey: []byte(request.Token)}
	}
	for name, data := range secrets {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: hub.ClusterNamespace, Name: name, Labels: map[string]string{hub.SystemLabel: hub.SystemValue}, OwnerReferences: ownedBy(cluster),
		}, Data: data}
		err := s.Client.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			err = s.Client.Update(ctx, secret)
		}
		if err != nil {
			return fmt.Errorf("store the credentials of cluster %s: %w", request.Name, err)
		}
	}
	return nil
}
