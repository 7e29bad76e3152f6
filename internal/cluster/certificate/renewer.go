// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Config identifies the objects in the cluster and the name in the certificate.
type Config struct {
	// Secret is created if it is missing.
	Secret types.NamespacedName
	// Webhook is a MutatingWebhookConfiguration.
	Webhook string
	// Name is the DNS name at which the API server calls the webhook.
	Name string
}

const (
	// pollInterval is the interval between checks of Secret and webhook.
	pollInterval = 10 * time.Second
	// retryInterval is the interval while there is no certificate, or after an error.
	retryInterval = 500 * time.Millisecond
)

// Renewer renews the certificate in the Secret, and updates the webhook's CA bundle. Only the leader runs it.
type Renewer struct {
	Config
	// Client must not cache: reading one Secret must not need the right to list Secrets.
	Client client.Client
	Log    *slog.Logger
}

// NeedLeaderElection makes the manager run it on the leader only.
func (*Renewer) NeedLeaderElection() bool { return true }

// Start renews until ctx is done.
func (r *Renewer) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := pollInterval
		if err := r.Reconcile(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error("renew the webhook's certificate", "error", err)
			pause = retryInterval
		}
		_ = retry.Pause(ctx, pause)
	}
	return nil
}

// Reconcile does the next step of the renewal, if one is due.
func (r *Renewer) Reconcile(ctx context.Context) error {
	// Read the webhook first: without it the chart is being uninstalled, and nothing must be created any more.
	var webhook admissionv1.MutatingWebhookConfiguration
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Webhook}, &webhook); err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", r.Webhook, err)
	}
	if len(webhook.Webhooks) == 0 {
		return fmt.Errorf("MutatingWebhookConfiguration %s has no webhooks", r.Webhook)
	}
	secret, err := r.ensureSecret(ctx)
	if err != nil {
		return err
	}
	after, bundle, err := advance(r.Name, secret.Data, webhook.Webhooks[0].ClientConfig.CABundle)
	if err != nil {
		return err
	}
	if !maps.EqualFunc(after, secret.Data, bytes.Equal) {
		// The resource version lets only one of two leaders succeed.
		secret.Data = after
		if err := r.Client.Update(ctx, secret); err != nil {
			return fmt.Errorf("write Secret %s: %w", r.Secret, err)
		}
		r.Log.Info("renewed the webhook's certificate")
	}
	return r.updateBundles(ctx, &webhook, bundle)
}

// fieldOwner is the field manager of the Secret.
const fieldOwner = client.FieldOwner("ktsn-operator")

// ensureSecret reads the Secret, and creates an empty one if it is missing. It uses apply, not create: RBAC cannot restrict create to one
// name.
func (r *Renewer) ensureSecret(ctx context.Context) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := r.Client.Get(ctx, r.Secret, &secret)
	if err == nil {
		return &secret, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	apply := corev1apply.Secret(r.Secret.Name, r.Secret.Namespace).WithLabels(map[string]string{"app.kubernetes.io/name": "kubernetsn"})
	if err := r.Client.Apply(ctx, apply, fieldOwner); err != nil {
		return nil, fmt.Errorf("create the missing Secret %s: %w", r.Secret, err)
	}
	r.Log.Warn("the Secret of the webhook's certificate was missing and is recreated; until all operators serve the new certificate, " +
		"annotated pods are rejected")
	if err := r.Client.Get(ctx, r.Secret, &secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	return &secret, nil
}

func (r *Renewer) updateBundles(ctx context.Context, webhook *admissionv1.MutatingWebhookConfiguration, bundle []byte) error {
	before := webhook.DeepCopy()
	changed := false
	for i := range webhook.Webhooks {
		if config := &webhook.Webhooks[i].ClientConfig; !bytes.Equal(config.CABundle, bundle) {
			config.CABundle, changed = bundle, true
		}
	}
	if !changed {
		return nil
	}
	if err := r.Client.Patch(ctx, webhook, client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("write the CA bundle of the webhook: %w", err)
	}
	return nil
}

// Server serves the certificate of the Secret. It runs in each operator.
type Server struct {
	Config
	Client client.Reader
	Log    *slog.Logger

	serving atomic.Pointer[tls.Certificate]
	// certificatePEM is the certificate that serving was parsed from. Only the goroutine of Start uses it.
	certificatePEM []byte
}

// NeedLeaderElection makes the manager run it in each operator.
func (*Server) NeedLeaderElection() bool { return false }

var errNoCertificate = errors.New("there is no certificate yet")

// GetCertificate implements tls.Config.GetCertificate.
func (s *Server) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.serving.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNoCertificate
}

// Start keeps the served certificate up to date with the Secret until ctx is done.
func (s *Server) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := pollInterval
		if err := s.load(ctx); err != nil && ctx.Err() == nil {
			pause = retryInterval
			if !errors.Is(err, errNoCertificate) {
				s.Log.Error("read the webhook's certificate", "error", err)
				pause = pollInterval
			}
		}
		_ = retry.Pause(ctx, pause)
	}
	return nil
}

func (s *Server) load(ctx context.Context) error {
	var secret corev1.Secret
	if err := s.Client.Get(ctx, s.Secret, &secret); err != nil {
		return fmt.Errorf("read Secret %s: %w", s.Secret, err)
	}
	text := secret.Data[keyCertificate]
	switch {
	case len(text) == 0:
		return errNoCertificate
	case bytes.Equal(text, s.certificatePEM):
		return nil
	}
	pair, err := tls.X509KeyPair(text, secret.Data[keyKey])
	if err != nil {
		return fmt.Errorf("secret %s: %w", s.Secret, err)
	}
	s.serving.Store(&pair)
	s.certificatePEM = text
	s.Log.Info("serving the webhook's certificate", "until", pair.Leaf.NotAfter)
	return nil
}
