// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// placed returns a hub with a workload without objects on the first of two clusters.
func placed(t *testing.T, funcs interceptor.Funcs) (s *Service, policy *policyv1alpha1.PropagationPolicy) {
	t.Helper()
	s = newService(t, funcs)
	s.Now = time.Now
	policy = newPolicy("ns", "web", nil, []string{"c0"})
	for _, object := range []client.Object{policy, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c0"}}, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}} {
		if err := s.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return s, policy
}

// readPolicy reads a policy again.
func readPolicy(t *testing.T, s *Service, policy *policyv1alpha1.PropagationPolicy) *policyv1alpha1.PropagationPolicy {
	t.Helper()
	read := &policyv1alpha1.PropagationPolicy{}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), read); err != nil {
		t.Fatal(err)
	}
	return read
}

func TestInvalidMoveIsRejected(t *testing.T) {
	s, policy := placed(t, interceptor.Funcs{})
	for name, test := range map[string]struct {
		to     []string
		status int
		says   string
	}{
		"to where it is":         {[]string{"c0"}, http.StatusConflict, "workload ns/web is on c0 already, and nowhere else; name the clusters that shall have it instead"},
		"to where it is, twice":  {[]string{"c0", "c0"}, http.StatusConflict, "is on c0 already"},
		"to nowhere":             {[]string{"c9"}, http.StatusUnprocessableEntity, "there is no cluster c9; `ktsn fed clusters` lists them"},
		"to no name":             {[]string{"c1", ""}, http.StatusUnprocessableEntity, `"" is not a valid name of a cluster`},
		"to a name with a slash": {[]string{"a/b"}, http.StatusUnprocessableEntity, `"a/b" is not a valid name of a cluster`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Move(t.Context(), "ns", "web", &federation.MoveRequest{To: test.to})
			var fault *hub.Fault
			if !errors.As(err, &fault) || fault.Status != test.status || !strings.Contains(fault.Message, test.says) {
				t.Errorf("got %v", err)
			}
			if read := readPolicy(t, s, policy); read.ResourceVersion != policy.ResourceVersion {
				t.Errorf("the policy is now %+v", read)
			}
		})
	}
}

func TestFinishedMoveIsNotRepeated(t *testing.T) {
	s, policy := placed(t, interceptor.Funcs{})
	placeOn(policy, []string{"c1"})
	if err := writeMove(policy, &federation.Move{From: []string{"c0"}, To: []string{"c1"}, Phase: federation.MoveDone}); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	workload, err := s.Move(t.Context(), "ns", "web", &federation.MoveRequest{To: []string{"c1"}})
	if err != nil || workload.Move.Phase != federation.MoveDone || readPolicy(t, s, policy).ResourceVersion != policy.ResourceVersion {
		t.Errorf("got %+v, %v", workload, err)
	}
}

// TestRepeatedMoveContinues stops the hub during the change that begins a move, before or after it is made.
func TestRepeatedMoveContinues(t *testing.T) {
	for name, created := range map[string]bool{"before it was made": false, "after it was made": true} {
		t.Run(name, func(t *testing.T) {
			dead := true
			s, policy := placed(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				if !dead {
					return c.Update(ctx, object, options...)
				}
				dead = false
				if created {
					if err := c.Update(ctx, object, options...); err != nil {
						return err
					}
				}
				return io.ErrUnexpectedEOF
			}})
			request := &federation.MoveRequest{To: []string{"c1"}}
			if _, err := s.Move(t.Context(), "ns", "web", request); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v", err)
			}
			workload, err := s.Move(t.Context(), "ns", "web", request)
			if err != nil || workload.Move == nil || workload.Move.Phase != federation.MovePlacing || strings.Join(placedOn(readPolicy(t, s, policy)), ",") != "c0,c1" {
				t.Errorf("got %+v, %v", workload, err)
			}
		})
	}
}
