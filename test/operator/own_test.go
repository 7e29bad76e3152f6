// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/certificate"
)

const (
	onlyItsWebhook     = "it may not create, change or delete others"
	onlyTheBundle      = "only clientConfig.caBundle of its webhook"
	webhooksMetadata   = "ktsn-operator may not change the metadata of its webhook"
	onlyItsAttachments = "only NetworkAttachmentDefinitions whose label kubernetsn.io/tsnnetwork"
	noConfiguration    = "has no spec.config"
	oneOwner           = "is the TSNNetwork of its name"
	noAnnotations      = "neither annotations nor finalizers"
	onlyTheFinalizer   = "only the finalizer kubernetsn.io/in-use"
)

// accountOf is a configuration with the rights of a service account.
func accountOf(name string) *rest.Config {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + system + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"}}
	return as
}

// operatorsAccount is a configuration with the operator's name, and all rights: what is refused, a policy refuses.
func operatorsAccount() *rest.Config {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + system + ":ktsn-operator", Groups: []string{"system:masters"}}
	return as
}

// ownInForce tells whether the API server goes by the policies on what is the operator's.
func ownInForce(ctx context.Context, probe *v1alpha1.TSNNetwork) error {
	operator, err := client.New(operatorsAccount(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	foreign := newAttachment("policy-probe")
	foreign.SetLabels(nil)
	for _, err := range []error{
		operator.Create(ctx, webhookConfiguration("policy-probe", 1), client.DryRunAll),
		operator.Create(ctx, foreign, client.DryRunAll),
		operator.Patch(ctx, probe.DeepCopy(), mergePatch(`{"metadata":{"labels":{"a":"b"}}}`), client.DryRunAll),
	} {
		if err == nil {
			return errNotYet
		}
	}
	return nil
}

func operatorWithAllRights(t *testing.T) client.Client {
	t.Helper()
	return clientFor(t, operatorsAccount())
}

func TestOperatorWritesOnlyCABundle(t *testing.T) {
	ctx := needPolicy(t)
	operator := operatorWithAllRights(t)
	other := webhookConfiguration("own-other", 1)
	other.Webhooks[0].MatchConditions[0].Expression = "false"
	create(ctx, t, other)
	ours := &admissionv1.MutatingWebhookConfiguration{}
	must(t, admin.Get(ctx, types.NamespacedName{Name: "kubernetsn"}, ours))
	for name, test := range map[string]struct {
		configuration *admissionv1.MutatingWebhookConfiguration
		change        func(*admissionv1.MutatingWebhookConfiguration)
		sentence      string
	}{
		"nothing":    {ours, func(*admissionv1.MutatingWebhookConfiguration) {}, ""},
		"the bundle": {ours, func(c *admissionv1.MutatingWebhookConfiguration) { c.Webhooks[0].ClientConfig.CABundle = nil }, ""},
		"another's bundle": {other, func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.CABundle = ours.Webhooks[0].ClientConfig.CABundle
		}, onlyItsWebhook},
		"when it is asked": {ours, func(c *admissionv1.MutatingWebhookConfiguration) { c.Webhooks[0].MatchConditions = nil }, onlyTheBundle},
		"what it is asked of": {ours, func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].Rules[0].Resources = []string{"secrets"}
		}, onlyTheBundle},
		"one more kind": {ours, func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].Rules = append(c.Webhooks[0].Rules, c.Webhooks[0].Rules[0])
		}, onlyTheBundle},
		"where it is": {ours, func(c *admissionv1.MutatingWebhookConfiguration) {
			url := "https://192.0.2.1/"
			c.Webhooks[0].ClientConfig.URL = &url
		}, onlyTheBundle},
		"a service for the address": {ours, func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.URL = nil
			c.Webhooks[0].ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "default", Name: "x"}
		}, onlyTheBundle},
		"what happens without it": {ours, func(c *admissionv1.MutatingWebhookConfiguration) {
			ignore := admissionv1.Ignore
			c.Webhooks[0].FailurePolicy = &ignore
		}, onlyTheBundle},
		"one more": {ours, func(c *admissionv1.MutatingWebhookConfiguration) {
			more := c.Webhooks[0].DeepCopy()
			more.Name = "more.kubernetsn.io"
			c.Webhooks = append(c.Webhooks, *more)
		}, onlyTheBundle},
		"another's name": {ours, func(c *admissionv1.MutatingWebhookConfiguration) { c.Webhooks[0].Name = "x.kubernetsn.io" }, onlyTheBundle},
		"none":           {ours, func(c *admissionv1.MutatingWebhookConfiguration) { c.Webhooks = nil }, onlyTheBundle},
		"labels":         {ours, func(c *admissionv1.MutatingWebhookConfiguration) { c.Labels = map[string]string{"a": "b"} }, webhooksMetadata},
		"finalizers":     {ours, func(c *admissionv1.MutatingWebhookConfiguration) { c.Finalizers = []string{"kubernetsn.io/x"} }, webhooksMetadata},
	} {
		t.Run(name, func(t *testing.T) {
			changed := test.configuration.DeepCopy()
			test.change(changed)
			checkRefusal(t, "", operator.Patch(ctx, changed, client.MergeFrom(test.configuration), client.DryRunAll), test.sentence)
		})
	}
	checkRefusal(t, "another configuration", operator.Create(ctx, webhookConfiguration("own-more", 1), client.DryRunAll), onlyItsWebhook)
	checkRefusal(t, "none any more", operator.Delete(ctx, ours.DeepCopy(), client.DryRunAll), onlyItsWebhook)
	checkRefusal(t, "an administrator", admin.Patch(ctx, other.DeepCopy(), mergePatch(`{"metadata":{"labels":{"a":"b"}}}`), client.DryRunAll), "")
}

// TestPoliciesAllowOperator renews the certificate, creates and deletes an attachment, and lets a network go.
func TestPoliciesAllowOperator(t *testing.T) {
	ctx := needPolicy(t)
	configuration := types.NamespacedName{Name: "kubernetsn"}
	var before, after admissionv1.MutatingWebhookConfiguration
	must(t, admin.Get(ctx, configuration, &before))
	unknown := before.DeepCopy()
	unknown.Webhooks[0].ClientConfig.CABundle = nil
	must(t, admin.Update(ctx, unknown))
	renewer := &certificate.Renewer{
		Config: certificate.Config{Secret: types.NamespacedName{Namespace: system, Name: "ktsn-operator-certificate"}, Webhook: "kubernetsn", Name: "localhost"},
		Client: operatorWithAllRights(t), Log: slog.New(slog.DiscardHandler),
	}
	must(t, renewer.Reconcile(ctx))
	if err := admin.Get(ctx, configuration, &after); err != nil || !bytes.Equal(after.Webhooks[0].ClientConfig.CABundle, before.Webhooks[0].ClientConfig.CABundle) {
		t.Errorf("trusted is %q, %v", after.Webhooks[0].ClientConfig.CABundle, err)
	}
	network := newNetwork("own-works", 214, "10.214.0.0/16")
	create(ctx, t, network)
	attachment := newAttachment("own-works")
	eventually(ctx, t, func() error { return get(ctx, attachment) })
	remove(ctx, t, network)
	awaitGone(ctx, t, network)
}

// TestOperatorWritesOnlyOwnSlices refuses EndpointSlices of other controllers, and of Services that are not their owners.
func TestOperatorWritesOnlyOwnSlices(t *testing.T) {
	ctx := needPolicy(t)
	operator := operatorWithAllRights(t)
	slice := func(manager, owner string) *discoveryv1.EndpointSlice { // of a headless Service
		return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own-slice",
			Labels:          map[string]string{discoveryv1.LabelManagedBy: manager, discoveryv1.LabelServiceName: "own", corev1.IsHeadlessService: ""},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: owner, UID: "x"}}}}
	}
	const onlyItsSlices = "only EndpointSlices with the label endpointslice.kubernetes.io/managed-by=kubernetsn.io"
	eventually(ctx, t, func() error { // the policy may be young
		if operator.Create(ctx, slice("", "own"), client.DryRunAll) == nil {
			return errNotYet
		}
		return nil
	})
	checkRefusal(t, "its own", operator.Create(ctx, slice("kubernetsn.io", "own"), client.DryRunAll), "")
	checkRefusal(t, "another controller's", operator.Create(ctx, slice("endpointslice-controller.k8s.io", "own"), client.DryRunAll), onlyItsSlices)
	proxied := slice("kubernetsn.io", "own")
	delete(proxied.Labels, corev1.IsHeadlessService)
	checkRefusal(t, "of a Service with a cluster IP", operator.Create(ctx, proxied, client.DryRunAll), "has the label service.kubernetes.io/headless")
	checkRefusal(t, "of another Service", operator.Create(ctx, slice("kubernetsn.io", "other"), client.DryRunAll), "the owner of an EndpointSlice of ktsn-operator is its Service")
}

// newAttachment is the operator's for a network, in the namespace default.
func newAttachment(name string) *unstructured.Unstructured {
	attachment := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}}
	attachment.SetName(name)
	attachment.SetNamespace("default")
	attachment.SetLabels(map[string]string{v1alpha1.NetworkLabel: name})
	attachment.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "TSNNetwork", Name: name, UID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}})
	return attachment
}

func TestOperatorWritesOnlyOwnAttachments(t *testing.T) {
	ctx := needPolicy(t)
	operator := operatorWithAllRights(t)
	foreign := newAttachment("own-foreign")
	foreign.SetLabels(nil)
	foreign.SetOwnerReferences(nil)
	ours := newAttachment("own-ours")
	ours.SetOwnerReferences(nil)
	create(ctx, t, foreign, ours)
	const config = `{"cniVersion":"1.0.0","type":"host-device","device":"eth0"}`
	for name, test := range map[string]struct {
		change   func(*unstructured.Unstructured)
		sentence string
	}{
		"as it is":                     {func(*unstructured.Unstructured) {}, ""},
		"of no network":                {func(a *unstructured.Unstructured) { a.SetLabels(nil) }, onlyItsAttachments},
		"of a network of another name": {func(a *unstructured.Unstructured) { a.SetLabels(map[string]string{v1alpha1.NetworkLabel: "x"}) }, onlyItsAttachments},
		"with a configuration": {func(a *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(a.Object, config, "spec", "config")
		}, noConfiguration},
		"without an owner": {func(a *unstructured.Unstructured) { a.SetOwnerReferences(nil) }, oneOwner},
		"of an owner that is no network": {func(a *unstructured.Unstructured) {
			a.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "own-new", UID: "x"}})
		}, oneOwner},
		"with an annotation": {func(a *unstructured.Unstructured) {
			a.SetAnnotations(map[string]string{"k8s.v1.cni.cncf.io/resourceName": "x"})
		}, noAnnotations},
		"with a finalizer": {func(a *unstructured.Unstructured) { a.SetFinalizers([]string{"kubernetsn.io/x"}) }, noAnnotations},
	} {
		t.Run(name, func(t *testing.T) {
			attachment := newAttachment("own-new")
			test.change(attachment)
			checkRefusal(t, "", operator.Create(ctx, attachment, client.DryRunAll), test.sentence)
		})
	}
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"a configuration for its own": {patched(ctx, operator, ours, `{"spec":{"config":"{}"}}`), noConfiguration},
		"its own, removed":            {operator.Delete(ctx, ours.DeepCopy(), client.DryRunAll), ""},
		"a configuration for another": {patched(ctx, operator, foreign, `{"spec":{"config":"{}"}}`), onlyItsAttachments},
		"another, made its own": {patched(ctx, operator, foreign, `{"metadata":{"labels":{"kubernetsn.io/tsnnetwork":"own-foreign"}}}`),
			onlyItsAttachments},
		"another, removed":              {operator.Delete(ctx, foreign.DeepCopy(), client.DryRunAll), onlyItsAttachments},
		"another, by its administrator": {patched(ctx, admin, foreign, `{"spec":{"config":"{}"}}`), ""},
	} {
		checkRefusal(t, name, test.err, test.sentence)
	}
}

func patched(ctx context.Context, as client.Client, object *unstructured.Unstructured, patch string) error {
	return as.Patch(ctx, object.DeepCopy(), mergePatch(patch), client.DryRunAll)
}

func TestOperatorWritesOnlyFinalizer(t *testing.T) {
	ctx := needPolicy(t)
	operator := operatorWithAllRights(t)
	network := newNetwork("own-network", 215, "10.215.0.0/16")
	create(ctx, t, network)
	for patch, sentence := range map[string]string{
		`{"metadata":{"finalizers":["kubernetsn.io/in-use"]}}`:                       "",
		`{"metadata":{"finalizers":["kubernetsn.io/in-use","kubernetsn.io/other"]}}`: onlyTheFinalizer,
		`{"metadata":{"labels":{"a":"b"}}}`:                                          onlyTheFinalizer,
		`{"spec":{"namespaceSelector":{}}}`:                                          onlyTheFinalizer,
		`{"spec":{"mtu":1400}}`:                                                      onlyTheFinalizer,
	} {
		err := operator.Patch(ctx, network.DeepCopy(), mergePatch(patch), client.DryRunAll)
		checkRefusal(t, patch, err, sentence)
	}
}
