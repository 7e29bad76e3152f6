// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	drainSeconds  = 60
	drainPatience = 90 * time.Second
	drainPoll     = 500 * time.Millisecond
)

// On returns the workloads of a cluster: those that are on other clusters as well, and those that are on this cluster
// alone.
func (s *Service) On(ctx context.Context, cluster string) (shared, alone []string, err error) {
	var policies policyv1alpha1.PropagationPolicyList
	if err := s.Client.List(ctx, &policies, client.HasLabels{tsn.WorkloadLabel}); err != nil {
		return nil, nil, fmt.Errorf("list the workloads: %w", err)
	}
	for i := range policies.Items {
		policy := &policies.Items[i]
		name, on := policy.Namespace+"/"+policy.Name, placedOn(policy)
		switch {
		case !slices.Contains(on, cluster):
		case len(on) > 1:
			shared = append(shared, name)
		default:
			alone = append(alone, name)
		}
	}
	return shared, alone, nil
}

// Drain removes workloads from a cluster that are on other clusters as well. It is a move to the others, so that they
// are ready there first.
func (s *Service) Drain(ctx context.Context, cluster string, names []string) error {
	for _, name := range names {
		namespace, workload, _ := strings.Cut(name, "/")
		policy, err := get(ctx, s.Client, namespace, workload)
		if err != nil {
			return err
		}
		request := &federation.MoveRequest{To: without(placedOn(policy), []string{cluster}), TimeoutSeconds: drainSeconds}
		if _, err := s.Move(ctx, namespace, workload, request); err != nil {
			return err
		}
	}
	return s.awaitDrained(ctx, cluster, names)
}

func (s *Service) awaitDrained(ctx context.Context, cluster string, names []string) error {
	end := time.After(drainPatience)
	for _, name := range names {
		namespace, workload, _ := strings.Cut(name, "/")
		for {
			policy, err := find(ctx, s.Client, namespace, workload)
			if err != nil {
				return err
			}
			if policy == nil || !isMoving(policy) && !slices.Contains(placedOn(policy), cluster) {
				break
			}
			move, _ := readMove(policy)
			if move != nil && move.IsFinal() {
				return hub.Faultf(http.StatusConflict, "workload %s cannot be taken from cluster %s: %s", name, cluster, move.Message)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-end:
				return hub.Faultf(http.StatusGatewayTimeout, "workload %s has not been taken from cluster %s within %v; ask again", name, cluster, drainPatience)
			case <-time.After(drainPoll):
			}
		}
	}
	return nil
}
