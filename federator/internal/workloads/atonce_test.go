// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// newService returns a Service whose requests are intercepted.
func newService(t *testing.T, funcs interceptor.Funcs) *Service {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, policyv1alpha1.Install, v1alpha1.Install} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return &Service{Client: fake.NewClientBuilder().WithScheme(types).WithRESTMapper(kinds).WithInterceptorFuncs(funcs).Build(), Busy: &Busy{}}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: ns}\n"

// conflicts reports whether an error is about concurrent deployments.
func conflicts(err error) bool {
	var fault *hub.Fault
	return errors.As(err, &fault) && fault.Status == http.StatusConflict
}

func TestDeployWithoutRightsBlocksNobody(t *testing.T) {
	var s *Service
	var free atomic.Int32
	s = newService(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		if end, ok := s.Busy.begin("ns/web"); ok {
			free.Add(1)
			end()
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "c0", nil)
	}})
	_, err := s.Deploy(t.Context(), &federation.DeployRequest{Name: "web", Namespace: "ns", Manifest: configMap, Clusters: []string{"c0"}})
	if !apierrors.IsForbidden(err) || free.Load() == 0 {
		t.Errorf("%v, and others could deploy it in between %d times", err, free.Load())
	}
}

func TestConcurrentDeployIsRejected(t *testing.T) {
	s := newService(t, interceptor.Funcs{})
	end, _ := s.Busy.begin("ns/web")
	defer end()
	if err := s.applyAll(t.Context(), nil, newPolicy("ns", "web", nil, []string{"c0"}), nil); !conflicts(err) {
		t.Errorf("got %v", err)
	}
}

func TestDeployDetectsOtherReplica(t *testing.T) {
	for name, meanwhile := range map[string]bool{"alone": false, "another at the same time": true} {
		t.Run(name, func(t *testing.T) {
			objects, err := parse(configMap, "ns")
			if err != nil {
				t.Fatal(err)
			}
			build := func() []*unstructured.Unstructured { return []*unstructured.Unstructured{objects[0].DeepCopy()} }
			var other func(ctx context.Context) error
			s := newService(t, interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				if then := other; then != nil {
					other = nil
					if err := then(ctx); err != nil {
						t.Errorf("the other one: %v", err)
					}
				}
				return c.Apply(ctx, object, options...)
			}})
			if meanwhile {
				other = func(ctx context.Context) error {
					have, err := find(ctx, s.Client, "ns", "web")
					if err != nil {
						return err
					}
					replica := &Service{Client: s.Client, Busy: &Busy{}}
					return replica.applyAll(ctx, have, newPolicy("ns", "web", build(), []string{"c0"}), build())
				}
			}
			if err := s.applyAll(t.Context(), nil, newPolicy("ns", "web", build(), []string{"c0"}), build()); conflicts(err) != meanwhile || !meanwhile && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPolicyRevealsNoManifest(t *testing.T) {
	policy, two := newPolicy("ns", "web", nil, nil), newPolicy("ns", "web", nil, nil)
	if policy.Annotations[manifestAnnotation] == two.Annotations[manifestAnnotation] {
		t.Errorf("twice %v", policy.Annotations)
	}
}
