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

// Places are where things stand in the cluster, and for which name they are.
type Places struct {
	// Secret may be empty, and is made where it is missing.
	Secret types.NamespacedName
	// Webhook is a MutatingWebhookConfiguration.
	Webhook string
	// Name is the DNS name by which the API server calls.
	Name string
}

const (
	// lookEvery is how often to look at Secret and webhook.
	lookEvery = 10 * time.Second
	// hurryEvery is how often as long as there is nothing to serve, or something failed.
	hurryEvery = 500 * time.Millisecond
)

// Renewer renews what is in the Secret, and has the API server trust it. One operator at a time runs it.
type Renewer struct {
	Places
	// Client reads past caches: reading one Secret must not need the right to list them.
	Client client.Client
	Now    func() time.Time
	Log    *slog.Logger
}

// NeedLeaderElection tells the manager to run it once in the cluster.
func (*Renewer) NeedLeaderElection() bool { return true }

// Start goes on until ctx ends.
func (r *Renewer) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := lookEvery
		if err := r.Look(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error("renew the webhook's certificate", "error", err)
			pause = hurryEvery
		}
		_ = retry.Pause(ctx, pause)
	}
	return nil
}

// Look does the next step, if there is one.
func (r *Renewer) Look(ctx context.Context) error {
	// First: once it is gone the chart is being removed, and nothing is to be made any more.
	var webhook admissionv1.MutatingWebhookConfiguration
	if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Webhook}, &webhook); err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", r.Webhook, err)
	}
	if len(webhook.Webhooks) == 0 {
		return fmt.Errorf("MutatingWebhookConfiguration %s has no webhooks", r.Webhook)
	}
	secret, err := r.secret(ctx)
	if err != nil {
		return err
	}
	after, bundle, err := advance(r.Name, secret.Data, webhook.Webhooks[0].ClientConfig.CABundle, r.Now())
	if err != nil {
		return err
	}
	if !maps.EqualFunc(after, secret.Data, bytes.Equal) {
		// With its resource version: of two leaders only one gets through.
		secret.Data = after
		if err := r.Client.Update(ctx, secret); err != nil {
			return fmt.Errorf("write Secret %s: %w", r.Secret, err)
		}
		r.Log.Info("renewed the webhook's certificate")
	}
	return r.trust(ctx, &webhook, bundle)
}

// fieldOwner is who makes the Secret.
const fieldOwner = client.FieldOwner("ktsn-operator")

// secret reads the Secret, and makes an empty one where somebody has removed it. It is applied, not created: the right to create
// a Secret of one name only covers no other request.
func (r *Renewer) secret(ctx context.Context) (*corev1.Secret, error) {
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
		return nil, fmt.Errorf("make Secret %s, which is missing: %w", r.Secret, err)
	}
	r.Log.Warn("the Secret of the webhook's certificate was missing and is made anew; until all operators serve another certificate, " +
		"annotated pods are refused")
	if err := r.Client.Get(ctx, r.Secret, &secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	return &secret, nil
}

func (r *Renewer) trust(ctx context.Context, webhook *admissionv1.MutatingWebhookConfiguration, bundle []byte) error {
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
		return fmt.Errorf("have the API server trust the webhook: %w", err)
	}
	return nil
}

// Server has the certificate that is served. Each operator has one.
type Server struct {
	Places
	Client client.Reader
	Log    *slog.Logger

	serving atomic.Pointer[tls.Certificate]
	// text is what serving was read from; it is the goroutine's of Start.
	text []byte
}

// NeedLeaderElection tells the manager to run it everywhere.
func (*Server) NeedLeaderElection() bool { return false }

var errNotYet = errors.New("there is no certificate yet")

// GetCertificate is for a tls.Config.
func (s *Server) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.serving.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNotYet
}

// Start keeps the certificate that of the Secret until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		pause := lookEvery
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			pause = hurryEvery
			if !errors.Is(err, errNotYet) {
				s.Log.Error("read the webhook's certificate", "error", err)
				pause = lookEvery
			}
		}
		_ = retry.Pause(ctx, pause)
	}
	return nil
}

func (s *Server) look(ctx context.Context) error {
	var secret corev1.Secret
	if err := s.Client.Get(ctx, s.Secret, &secret); err != nil {
		return fmt.Errorf("read Secret %s: %w", s.Secret, err)
	}
	text := secret.Data[keyCertificate]
	switch {
	case len(text) == 0:
		return errNotYet
	case bytes.Equal(text, s.text):
		return nil
	}
	pair, err := tls.X509KeyPair(text, secret.Data[keyKey])
	if err != nil {
		return fmt.Errorf("secret %s: %w", s.Secret, err)
	}
	s.serving.Store(&pair)
	s.text = text
	s.Log.Info("serve the webhook with the certificate", "until", pair.Leaf.NotAfter)
	return nil
}
