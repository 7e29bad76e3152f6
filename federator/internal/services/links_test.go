// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// newJoiner carries out what is decided of a fleet's links at a hub of its own.
func newJoiner(t *testing.T, f *fleet, funcs interceptor.Funcs, have ...client.Object) *Spreader {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, policyv1alpha1.Install, workv1alpha2.Install, tsn.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	hub := fake.NewClientBuilder().WithScheme(types).WithInterceptorFuncs(funcs).WithObjects(have...).Build()
	s := &Spreader{Client: hub, Live: hub, Namespace: "kubernetsn-system", Now: func() time.Time { return f.now }, Events: &events.FakeRecorder{}, Log: slog.New(slog.DiscardHandler)}
	s.ledger = linkledger.New(&linkledger.Store{Client: hub, Live: hub, At: client.ObjectKey{Namespace: s.Namespace, Name: "released"}}, s.Now)
	return s
}

// TestAnEndpointToWhichALinkCannotBeMadeLetsOthersServe has the hub refuse all links to the endpoint that is chosen first.
func TestAnEndpointToWhichALinkCannotBeMadeLetsOthersServe(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm")
	f.report("c1", true, "bad", "good")
	s := newJoiner(t, f, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if link, is := object.(*tsn.TSNLink); is && link.Spec.Endpoint.Pod == "bad" {
			return apierrors.NewInvalid(tsn.GroupVersion.WithKind("TSNLink").GroupKind(), link.Name, nil)
		}
		return c.Create(ctx, object, options...)
	}})
	first := pair(f.service, newPlan(f.service, &f.view), &f.view, nil, f.now)
	if err := s.join(t.Context(), f.service, &f.view, first); err != nil {
		t.Fatal(err)
	}
	if first.again != releasing || !slices.ContainsFunc(first.found, func(one spread.Finding) bool { return one.Reason == spread.ReasonUntrusted }) {
		t.Errorf("looks again after %v, and found %+v", first.again, first.found)
	}
	second := pair(f.service, newPlan(f.service, &f.view), &f.view, first.failed, f.now)
	if len(second.make) != 1 || second.make[0].Spec.Endpoint.Pod != "good" {
		t.Fatalf("makes %+v", second.make)
	}
	if err := s.join(t.Context(), f.service, &f.view, second); err != nil {
		t.Fatal(err)
	}
}

func TestWhereAllLinksAreRefusedItIsNotTriedAllTheTime(t *testing.T) {
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
		if err := s.join(t.Context(), f.service, &f.view, decided); err != nil {
			t.Fatal(err)
		}
	}
	if decided.again != 0 {
		t.Errorf("looks again after %v", decided.again)
	}
}

func TestALinkThatCannotBeChangedStaysAndOthersAreMade(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm", "leg")
	f.report("c1", true, "plc")
	decided := pair(f.service, newPlan(f.service, &f.view), &f.view, nil, f.now)
	made := 0
	s := newJoiner(t, f, interceptor.Funcs{
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			return apierrors.NewInvalid(tsn.GroupVersion.WithKind("TSNLink").GroupKind(), object.GetName(), nil)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, is := object.(*tsn.TSNLink); is {
				made++
			}
			return c.Create(ctx, object, options...)
		},
	})
	wanted := len(decided.make)
	decided.change = append(decided.change, *decided.make[0].DeepCopy())
	if err := s.join(t.Context(), f.service, &f.view, decided); err != nil {
		t.Fatal(err)
	}
	if made != wanted || wanted == 0 || !slices.ContainsFunc(decided.found, func(one spread.Finding) bool { return one.Reason == spread.ReasonUntrusted }) {
		t.Errorf("%d of %d were made, and found %+v", made, wanted, decided.found)
	}
}

func TestALinkThatHasLostTheLabelOfItsMakerIsSaidToBeInTheWay(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.clusters = f.clusters[:2]
	f.report("c0", false, "arm")
	f.report("c1", true, "plc")
	decided := pair(f.service, newPlan(f.service, &f.view), &f.view, nil, f.now)
	lost := decided.make[0].DeepCopy()
	lost.Labels = map[string]string{tsn.ServiceLabel: f.service.Name, federation.ManagedBy: federation.Manager}
	s := newJoiner(t, f, interceptor.Funcs{}, lost)
	if err := s.join(t.Context(), f.service, &f.view, decided); err != nil {
		t.Fatal(err)
	}
	if decided.again != foreignPatience || !slices.ContainsFunc(decided.found, func(one spread.Finding) bool { return one.Reason == spread.ReasonForeign }) {
		t.Errorf("looks again after %v, and found %+v", decided.again, decided.found)
	}
}
