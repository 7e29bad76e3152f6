// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/kubernetsn/kubernetsn/federator/internal/clusters"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// defaultTimeout of a move, in seconds.
const defaultTimeout = 300

// Move has a workload be on other clusters. It places the workload on both, and writes down what shall become of it, in one change of
// the policy. The controller carries it on. The same move asked for again is the one under way.
func (s *Service) Move(ctx context.Context, namespace, name string, request *federation.MoveRequest) (*federation.Workload, error) {
	policy, err := mustFind(ctx, s.Client, namespace, name)
	if err != nil {
		return nil, err
	}
	if deleting(policy) {
		return nil, hub.Faultf(http.StatusConflict, "workload %s/%s is being removed", namespace, name)
	}
	to := slices.Compact(slices.Sorted(slices.Values(request.To)))
	have, err := readMove(policy)
	switch {
	case err != nil:
		return nil, err
	case have != nil && !have.Ended() && slices.Equal(have.To, to):
		return s.Get(ctx, namespace, name)
	case have != nil && !have.Ended():
		return nil, hub.Faultf(http.StatusConflict, "workload %s/%s is moving to %s already; wait until it has moved", namespace, name, strings.Join(have.To, ", "))
	case slices.Equal(placedOn(policy), to) && have != nil && slices.Equal(have.To, to):
		return s.Get(ctx, namespace, name) // whoever asks may have lost the answer
	case slices.Equal(placedOn(policy), to):
		return nil, hub.Faultf(http.StatusConflict, "workload %s/%s is on %s already, and nowhere else; name the clusters that shall have it instead",
			namespace, name, strings.Join(to, ", "))
	}
	if err := clusters.Require(ctx, s.Client, to); err != nil {
		return nil, err
	}
	if err := s.networksReach(ctx, policy, to); err != nil {
		return nil, err
	}
	if err := s.servicesReach(ctx, policy, to); err != nil {
		return nil, err
	}
	if err := s.begin(policy, to, request.TimeoutSeconds); err != nil {
		return nil, err
	}
	if err := s.Client.Update(ctx, policy, fieldOwner); err != nil {
		return nil, fmt.Errorf("place workload %s/%s on %s as well: %w", namespace, name, strings.Join(to, ", "), err)
	}
	return s.Get(ctx, namespace, name)
}

func (s *Service) begin(policy *policyv1alpha1.PropagationPolicy, to []string, seconds int32) error {
	from, now := placedOn(policy), s.Now().UTC().Truncate(time.Second)
	placeOn(policy, slices.Concat(from, to))
	return writeMove(policy, &federation.Move{
		From: from, To: to, Phase: federation.MovePlacing, StartedAt: now, By: s.User,
		Deadline: now.Add(time.Duration(cmp.Or(seconds, defaultTimeout)) * time.Second),
	})
}

// advance takes a move one step further, if what Karmada has made of the workload allows it, and tells whether the policy is another now.
func advance(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress, now time.Time) (changed bool) {
	before := *move
	switch move.Phase {
	case federation.MovePlacing:
		placing(policy, move, p, now)
	case federation.MoveNarrowing:
		narrow(policy, move, p, now)
	case federation.MoveReverting:
		if p.released(without(move.To, move.From)) {
			placeOn(policy, move.From)
			move.Phase = federation.MoveSettling
		}
	case federation.MoveSettling:
		settle(policy, move, p)
	}
	return move.Phase != before.Phase || move.Message != before.Message
}

// placing waits for the workload on the new clusters.
func placing(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress, now time.Time) {
	ready, awaited := p.ready(move.To)
	awaited = spread.Quoted(awaited) // by what clusters say
	switch {
	case ready:
		*policy.Spec.PreserveResourcesOnDeletion = false
		move.Phase, move.Message = federation.MoveNarrowing, ""
	case now.After(move.Deadline):
		revert(policy, move, awaited)
	default:
		move.Message = awaited
	}
}

// revert has the workload be where it was.
func revert(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, awaited string) {
	*policy.Spec.PreserveResourcesOnDeletion = false
	move.Phase = federation.MoveReverting
	move.Message = fmt.Sprintf("not ready on %s within %v: %s; it stays on %s", strings.Join(move.To, ", "), move.Deadline.Sub(move.StartedAt), awaited,
		strings.Join(move.From, ", "))
}

// narrow takes the workload from the old clusters, as long as it is ready on the new ones.
func narrow(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress, now time.Time) {
	ready, awaited := p.ready(move.To)
	awaited = spread.Quoted(awaited) // by what clusters say
	switch {
	case ready && p.released(without(move.From, move.To)):
		placeOn(policy, move.To)
		move.Phase, move.Message = federation.MoveSettling, ""
	case !ready && now.After(move.Deadline):
		revert(policy, move, awaited)
	default:
		move.Message = awaited
	}
}

// settle ends the move when what was on clusters that have the workload no longer is being removed there. What is
// on the others stays there from now on when the hub forgets it.
func settle(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress) {
	leaving := without(slices.Concat(move.From, move.To), placedOn(policy))
	if !p.gone(leaving) {
		return
	}
	*policy.Spec.PreserveResourcesOnDeletion = true
	move.Phase = federation.MoveDone
	if !slices.Equal(placedOn(policy), move.To) {
		move.Phase = federation.MoveFailed
	}
}
