// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// newJoiner returns a Reconciler for the links of a fleet, with a hub of its own.
func newJoiner(t *testing.T, f *fleet, funcs interceptor.Funcs, have ...client.Object) *Reconciler {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1alpha1.Install, policyv1alpha1.Install, workv1alpha2.Install, tsn.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	hub := fake.NewClientBuilder().WithScheme(types).WithInterceptorFuncs(funcs).WithObjects(have...).WithStatusSubresource(&tsn.TSNService{}).Build()
	s := &Reconciler{Client: hub, Live: hub, Namespace: "kubernetsn-system", Now: func() time.Time { return f.now }, Events: &events.FakeRecorder{}, Log: slog.New(slog.DiscardHandler)}
	s.failed = map[client.ObjectKey]links.Failures{}
	s.ledger = linkledger.New(&linkledger.Store{Client: hub, Live: hub, At: client.ObjectKey{Namespace: s.Namespace, Name: "released"}, Owner: spread.FieldOwner}, s.Now)
	return s
}

// TestFailedLinkUsesOtherEndpoint rejects all links to the endpoint that is chosen first.
func TestFailedLinkUsesOtherEndpoint(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm")
	f.report("c1", true, "bad", "good")
	s := newJoiner(t, f, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if link, ok := object.(*tsn.TSNLink); ok && link.Spec.Endpoint.Pod == "bad" {
			return apierrors.NewInvalid(tsn.GroupVersion.WithKind("TSNLink").GroupKind(), link.Name, nil)
		}
		return c.Create(ctx, object, options...)
	}})
	first := pair(f.service, newPlan(f.service, &f.view), &f.view, nil, f.now)
	if err := s.applyLinks(t.Context(), f.service, &f.view, first); err != nil {
		t.Fatal(err)
	}
	if first.retryAfter != releaseRetry || !slices.ContainsFunc(first.findings, func(finding spread.Finding) bool { return finding.Reason == spread.ReasonUntrusted }) {
		t.Errorf("looks again after %v, and found %+v", first.retryAfter, first.findings)
	}
	second := pair(f.service, newPlan(f.service, &f.view), &f.view, first.failed, f.now)
	if len(second.create) != 1 || second.create[0].Spec.Endpoint.Pod != "good" {
		t.Fatalf("makes %+v", second.create)
	}
	if err := s.applyLinks(t.Context(), f.service, &f.view, second); err != nil {
		t.Fatal(err)
	}
}

func TestFailedLinksAreRetriedSlowly(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm")
	f.report("c1", true, "bad")
	s := newJoiner(t, f, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewInvalid(tsn.GroupVersion.WithKind("TSNLink").GroupKind(), "link", nil)
	}})
	decided := &pairing{}
	for range 2 {
		decided = pair(f.service, newPlan(f.service, &f.view), &f.view, decided.failed, f.now)
		if err := s.applyLinks(t.Context(), f.service, &f.view, decided); err != nil {
			t.Fatal(err)
		}
	}
	if decided.retryAfter != 0 {
		t.Errorf("looks again after %v", decided.retryAfter)
	}
}

func TestFailedChangeBlocksNoOthers(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm", "leg")
	f.report("c1", true, "plc")
	decided := pair(f.service, newPlan(f.service, &f.view), &f.view, nil, f.now)
	count := 0
	s := newJoiner(t, f, interceptor.Funcs{
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			return apierrors.NewInvalid(tsn.GroupVersion.WithKind("TSNLink").GroupKind(), object.GetName(), nil)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, ok := object.(*tsn.TSNLink); ok {
				count++
			}
			return c.Create(ctx, object, options...)
		},
	})
	wanted := len(decided.create)
	decided.change = append(decided.change, *decided.create[0].DeepCopy())
	if err := s.applyLinks(t.Context(), f.service, &f.view, decided); err != nil {
		t.Fatal(err)
	}
	if count != wanted || wanted == 0 || !slices.ContainsFunc(decided.findings, func(finding spread.Finding) bool { return finding.Reason == spread.ReasonUntrusted }) {
		t.Errorf("%d of %d were made, and found %+v", count, wanted, decided.findings)
	}
}

func TestLinkWithoutLabelIsForeign(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm")
	f.report("c1", true, "plc")
	decided := pair(f.service, newPlan(f.service, &f.view), &f.view, nil, f.now)
	lost := decided.create[0].DeepCopy()
	lost.Labels = map[string]string{tsn.ServiceLabel: f.service.Name, federation.ManagedBy: federation.Manager}
	s := newJoiner(t, f, interceptor.Funcs{}, lost)
	if err := s.applyLinks(t.Context(), f.service, &f.view, decided); err != nil {
		t.Fatal(err)
	}
	if decided.retryAfter != foreignRetry || !slices.ContainsFunc(decided.findings, func(finding spread.Finding) bool { return finding.Reason == spread.ReasonForeign }) {
		t.Errorf("looks again after %v, and found %+v", decided.retryAfter, decided.findings)
	}
}

// TestLinksOfLeavingClusterAreRemovedWhileBlocked adds an older network with addresses of the service.
func TestLinksOfLeavingClusterAreRemovedWhileBlocked(t *testing.T) {
	for name, block := range map[string]func(f *fleet) client.Object{
		"by a range": func(*fleet) client.Object {
			return &tsn.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "line"}, Spec: tsn.TSNNetworkSpec{IPv4: tsn.Range4{CIDR: "10.60.0.0/16"}}}
		},
		"by somebody's policy": func(f *fleet) client.Object {
			return &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: policyName(f.service.Name), ResourceVersion: "1"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
			f.service.UID = "plant"
			for len(f.clusters) < 3 {
				f.clusters = append(f.clusters, clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c2"}})
				f.reports["c2"] = report{Applied: true, HasStatus: true}
			}
			f.clusters = f.clusters[:3]
			f.service.Spec.Limits = &tsn.LinkLimits{LinksPerEndpoint: 1}
			f.report("c0", false, "arm", "leg")
			f.report("c1", true, "plc")
			f.report("c2", true, "spare")
			f.settle(t)
			if len(f.links) != 2 {
				t.Fatalf("there are %d links", len(f.links))
			}
			have := []client.Object{f.service, block(f)}
			f.clusters[1].Annotations = map[string]string{federation.LeavingAnnotation: "true"}
			for i := range f.clusters {
				have = append(have, &f.clusters[i])
			}
			for i := range f.links {
				f.links[i].UID = k8stypes.UID(f.links[i].Name)
				f.links[i].Labels = map[string]string{tsn.ServiceLabel: f.service.Name, federation.ManagedBy: federation.Manager, tsn.LinkMakerLabel: tsn.MakerFederator}
				have = append(have, &f.links[i])
			}
			s := newJoiner(t, f, interceptor.Funcs{}, have...)
			if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.service)}); err != nil {
				t.Fatal(err)
			}
			var service tsn.TSNService
			var are tsn.TSNLinkList
			if err := errors.Join(s.Client.Get(t.Context(), client.ObjectKeyFromObject(f.service), &service), s.Client.List(t.Context(), &are)); err != nil {
				t.Fatal(err)
			}
			if !meta.IsStatusConditionFalse(service.Status.Conditions, tsn.ConditionReady) {
				t.Errorf("the service is not blocked: %+v", service.Status.Conditions)
			}
			if len(are.Items) != 1 || are.Items[0].Spec.Endpoint.Cluster != "c2" {
				t.Errorf("of two links are left %+v", are.Items)
			}
		})
	}
}
