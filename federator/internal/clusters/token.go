// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Bootstrap tokens are Kubernetes' own: Secrets of this type in kube-system, which its controllers remove after they
// expire.
const (
	tokenNamespace = "kube-system"
	tokenType      = corev1.SecretType("bootstrap.kubernetes.io/token")
	// tokenGroup, followed by the name of a cluster, is the group of a token for the cluster's agent. The group has no
	// rights at the hub. The group of Karmada's own tokens may request the certificates of all agents, and Karmada
	// approves them.
	tokenGroup = "system:bootstrappers:kubernetsn:"
	// tokenUser, followed by the token's id, is the user name of a token.
	tokenUser = "system:bootstrap:"
	// tokenName, followed by the token's id, is the name of the token's Secret.
	tokenName = "bootstrap-token-"
	// tokenTTL is how long an agent can request its first certificate.
	tokenTTL = time.Hour
	// knownTries and knownPoll are how often, and at which interval, the hub is asked whether it knows a new token.
	knownTries = 40
	knownPoll  = 50 * time.Millisecond
)

// Annotations and labels of a hub's objects.
const (
	// clusterLabel of a token names the cluster for which it was created.
	clusterLabel = "federation.kubernetsn.io/cluster"
)

// bootstrap creates a token with which the agent of a cluster gets its first certificate. The Cluster owns it.
func (s *Service) bootstrap(ctx context.Context, member *v1alpha1.Cluster) (*federation.Bootstrap, error) {
	// The form is [a-z0-9]{6}.[a-z0-9]{16}. The text has 26 letters of an alphabet of 32, that is 128 bits.
	text := strings.ToLower(rand.Text())
	cluster, id, secret := member.Name, text[:6], text[6:22]
	expires := s.Now().Add(tokenTTL).UTC().Truncate(time.Second)
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tokenNamespace, Name: tokenName + id, OwnerReferences: ownedBy(member),
			Labels: map[string]string{clusterLabel: cluster, federation.ManagedBy: federation.Manager},
		},
		Type: tokenType,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "expiration": expires.Format(time.RFC3339), "auth-extra-groups": tokenGroup + cluster,
			"usage-bootstrap-authentication": "true",
			"description":                    "for the agent of cluster " + cluster,
		},
	}
	if err := s.Client.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("create a token for the agent of cluster %s: %w", cluster, err)
	}
	token := id + "." + secret
	s.waitForToken(ctx, token)
	return &federation.Bootstrap{Server: s.Server, CA: string(s.CA), Token: token, ExpiresAt: expires}, nil
}

// waitForToken waits until the hub knows a new token. If it takes longer, the agent has to retry.
func (s *Service) waitForToken(ctx context.Context, token string) {
	for range knownTries {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := s.FederatorClient.Create(ctx, review); err != nil || review.Status.Authenticated {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(knownPoll):
		}
	}
}

// enrollingCluster returns the cluster for whose agent the caller has a token, and whether the caller has one.
func (s *Service) enrollingCluster() (cluster string, ok bool) {
	for _, group := range s.User.Groups {
		if cluster, ok = strings.CutPrefix(group, tokenGroup); ok && strings.HasPrefix(s.User.Username, tokenUser) {
			return cluster, true
		}
	}
	return "", false
}

// consumeToken removes the caller's token. It fails if the token has been used already.
func (s *Service) consumeToken(ctx context.Context) error {
	id := strings.TrimPrefix(s.User.Username, tokenUser)
	err := s.FederatorClient.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tokenNamespace, Name: tokenName + id}})
	if apierrors.IsNotFound(err) {
		return hub.Faultf(http.StatusForbidden, "the token was used already, and is good for one certificate; `ktsn fed join` gives another")
	}
	if err != nil {
		return fmt.Errorf("remove the token: %w", err)
	}
	return nil
}
