// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/internal/cluster/certificate"
)

const certificates = "certificates"

// secretRule returns the rule of the chart's Role for the Secret of the certificate.
func secretRule(t *testing.T) rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile("../../charts/kubernetsn/templates/operator-rbac.yaml")
	must(t, err)
	var rules []rbacv1.PolicyRule
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "resources: [secrets], resourceNames: [ktsn-operator-certificate]") {
			must(t, yaml.UnmarshalStrict([]byte(line), &rules))
		}
	}
	if len(rules) != 1 {
		t.Fatalf("the chart has rules %v about the certificate", rules)
	}
	return rules[0]
}

// operatorClient returns a client with the rights to Secrets that the chart gives the operator, in a namespace of the test.
func operatorClient(t *testing.T) client.Client {
	t.Helper()
	ctx, user := t.Context(), "system:serviceaccount:"+certificates+":ktsn-operator"
	subject := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	name, namespaced := metav1.ObjectMeta{Name: certificates}, metav1.ObjectMeta{Name: certificates, Namespace: certificates}
	nowhere := webhookConfiguration(certificates, 1)
	nowhere.Webhooks[0].MatchConditions[0].Expression = "false"
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: name},
		&rbacv1.Role{ObjectMeta: namespaced, Rules: []rbacv1.PolicyRule{secretRule(t)}},
		&rbacv1.RoleBinding{ObjectMeta: namespaced, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: certificates}},
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{admissionv1.GroupName},
			Resources: []string{"mutatingwebhookconfigurations"}, ResourceNames: []string{certificates}, Verbs: []string{"get", "patch"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: certificates}},
		nowhere,
	} {
		must(t, admin.Create(ctx, object))
		t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), object) })
	}
	config := rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	created, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return created
}

func TestDeletedSecretIsRecreated(t *testing.T) {
	ctx := needServer(t)
	operator := operatorClient(t)
	place := types.NamespacedName{Namespace: certificates, Name: secretRule(t).ResourceNames[0]}
	renewer := &certificate.Renewer{
		Config: certificate.Config{Secret: place, Webhook: certificates, Name: "localhost"},
		Client: operator, Log: slog.New(slog.DiscardHandler),
	}
	var before []byte
	for range 3 {
		must(t, within(ctx, func() error { return renewer.Reconcile(ctx) })) // rights take a moment to be known
		var secret corev1.Secret
		var webhook admissionv1.MutatingWebhookConfiguration
		must(t, admin.Get(ctx, place, &secret))
		must(t, admin.Get(ctx, types.NamespacedName{Name: certificates}, &webhook))
		if now := secret.Data["tls.crt"]; len(now) == 0 || bytes.Equal(now, before) {
			t.Errorf("the certificate is %q, that before was %q", now, before)
		}
		if trusted := webhook.Webhooks[0].ClientConfig.CABundle; !bytes.Equal(trusted, secret.Data["ca.crt"]) {
			t.Errorf("trusted is %q, want %q", trusted, secret.Data["ca.crt"])
		}
		before = secret.Data["tls.crt"]
		must(t, admin.Delete(ctx, &secret))
	}
	t.Run("and no other one may be made", func(t *testing.T) {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: certificates}}
		elsewhere := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: place.Name, Namespace: "default"}}
		apply := corev1apply.Secret("other", certificates)
		for name, err := range map[string]error{
			"created": operator.Create(ctx, other), "applied": operator.Apply(ctx, apply, client.FieldOwner("test")),
			"in another namespace": operator.Create(ctx, elsewhere), "read": operator.Get(ctx, client.ObjectKeyFromObject(other), other),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: got %v, want that it is forbidden", name, err)
			}
		}
	})
	t.Run("and not when the chart is being removed", func(t *testing.T) {
		must(t, admin.Delete(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: certificates}}))
		if err := renewer.Reconcile(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		if err := admin.Get(ctx, place, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret is there: %v", err)
		}
	})
}
