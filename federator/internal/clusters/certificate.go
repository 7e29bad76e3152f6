// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	// certificateTimeout limits the wait for a certificate.
	certificateTimeout = 20 * time.Second
	certificatePoll    = 200 * time.Millisecond
)

// Certificate gets the certificate of a cluster's agent signed by the hub. The hub never sees the key. A caller with a
// bootstrap token for that agent gets one certificate, and the token is removed. For other callers the hub decides:
// they make the request as themselves, and approve it if they may. The same request gets the same certificate again.
func (s *Service) Certificate(ctx context.Context, cluster string, request *federation.CertificateRequest) (*federation.Certificate, error) {
	if err := checkRequest(cluster, request.Request); err != nil {
		return nil, err
	}
	as := s.Client
	meant, enrolls := s.enrollingCluster()
	if enrolls {
		if meant != cluster {
			return nil, hub.Faultf(http.StatusForbidden, "the token is for the agent of cluster %s, and not of %s", meant, cluster)
		}
		if err := Require(ctx, s.FederatorClient, []string{cluster}); err != nil {
			return nil, err
		}
		as = s.FederatorClient
	}
	object, err := ensureRequest(ctx, as, cluster, request.Request)
	if err == nil && enrolls {
		// First: the hub accepts a removed token for some seconds more.
		err = s.consumeToken(ctx)
	}
	if err == nil {
		err = approve(ctx, as, object)
	}
	if !enrolls && (apierrors.IsForbidden(err) || apierrors.IsConflict(err)) {
		err = nil // somebody else has approved it, or will
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the certificate of cluster %s: %w", cluster, err)
	}
	signed, err := waitForCertificate(ctx, as, object)
	if err != nil {
		return nil, err
	}
	return &federation.Certificate{Server: s.Server, CA: string(s.CA), Certificate: string(signed)}, nil
}

// ensureRequest creates a CertificateSigningRequest, or returns the existing one.
func ensureRequest(ctx context.Context, as client.Client, cluster, text string) (*certificatesv1.CertificateSigningRequest, error) {
	sum := sha256.Sum256([]byte(text))
	wanted := certificatesv1.CertificateSigningRequestSpec{
		Request: []byte(text), SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
	}
	object := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "ktsn-agent-" + cluster + "-" + hex.EncodeToString(sum[:])[:16]}, Spec: *wanted.DeepCopy(),
	}
	err := as.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return object, err
	}
	if err := as.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return nil, err
	}
	// Approval goes by the name. Somebody may have created another request with that name.
	existing := object.Spec
	if !bytes.Equal(existing.Request, wanted.Request) || existing.SignerName != wanted.SignerName || !slices.Equal(existing.Usages, wanted.Usages) {
		return nil, hub.Faultf(http.StatusConflict, "request %s is another at the hub; remove it", object.Name)
	}
	return object, nil
}

// approve approves the request of a caller who has a token for the agent, or who may approve.
func approve(ctx context.Context, as client.Client, object *certificatesv1.CertificateSigningRequest) error {
	for _, condition := range object.Status.Conditions {
		if condition.Type == certificatesv1.CertificateApproved {
			return nil
		}
	}
	object.Status.Conditions = append(object.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Federator", LastUpdateTime: metav1.Now(),
		Message: "asked for with the token that was made for this agent, or by who may approve it",
	})
	return as.SubResource("approval").Update(ctx, object, client.FieldOwner(federation.Manager))
}

// checkRequest rejects requests that are not for the agent of the cluster.
func checkRequest(cluster, text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return hub.Faultf(http.StatusUnprocessableEntity, "request is not a certificate signing request in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return hub.Faultf(http.StatusUnprocessableEntity, "request is not a certificate signing request in PEM: %v", err)
	}
	subject := request.Subject
	if subject.CommonName != federation.AgentUser+cluster || len(subject.Organization) != 1 || subject.Organization[0] != federation.AgentGroup {
		return hub.Faultf(http.StatusUnprocessableEntity, "request is for CN %q and O %q; the agent of cluster %s has CN %s and O %s",
			subject.CommonName, subject.Organization, cluster, federation.AgentUser+cluster, federation.AgentGroup)
	}
	return nil
}

// waitForCertificate waits until the request is signed.
func waitForCertificate(ctx context.Context, as client.Client, object *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
	defer cancel()
	for {
		err := as.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("look at request %s: %w", object.Name, err)
		}
		if len(object.Status.Certificate) > 0 {
			return object.Status.Certificate, nil
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type != certificatesv1.CertificateApproved && condition.Status == corev1.ConditionTrue {
				return nil, hub.Faultf(http.StatusForbidden, "the hub does not sign request %s: %s", object.Name, condition.Message)
			}
		}
		select {
		case <-ctx.Done():
			return nil, hub.Faultf(http.StatusGatewayTimeout, "request %s was not signed within %v; have it approved (`kubectl certificate approve %s`), and ask again with the same request",
				object.Name, certificateTimeout, object.Name)
		case <-time.After(certificatePoll):
		}
	}
}
