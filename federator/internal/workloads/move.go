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

// defaultTimeout is the default timeout of a move in seconds.
const defaultTimeout = 300

// Move moves a workload to other clusters. In one change of the policy it places the workload on the old and the new
// clusters, and records the move. The controller carries it out. A repeated request returns the move in progress.
func (s *Service) Move(ctx context.Context, namespace, name string, request *federation.MoveRequest) (*federation.Workload, error) {
	policy, err := get(ctx, s.Client, namespace, name)
	if err != nil {
		return nil, err
	}
	if isDeleting(policy) {
		return nil, hub.Faultf(http.StatusConflict, "workload %s/%s is being removed", namespace, name)
	}
	to := slices.Compact(slices.Sorted(slices.Values(request.To)))
	current, err := readMove(policy)
	switch {
	case err != nil:
		return nil, err
	case current != nil && !current.IsFinal() && slices.Equal(current.To, to):
		return s.Get(ctx, namespace, name)
	case current != nil && !current.IsFinal():
		return nil, hub.Faultf(http.StatusConflict, "workload %s/%s is moving to %s already; wait until it has moved", namespace, name, strings.Join(current.To, ", "))
	case slices.Equal(placedOn(policy), to) && current != nil && slices.Equal(current.To, to):
		return s.Get(ctx, namespace, name) // the caller may have lost the response
	case slices.Equal(placedOn(policy), to):
		return nil, hub.Faultf(http.StatusConflict, "workload %s/%s is on %s already, and nowhere else; name the clusters that shall have it instead",
			namespace, name, strings.Join(to, ", "))
	}
	if err := clusters.Require(ctx, s.Client, to); err != nil {
		return nil, err
	}
	if err := s.checkPolicy(ctx, policy, to); err != nil {
		return nil, err
	}
	if err := s.beginMove(policy, to, request.TimeoutSeconds); err != nil {
		return nil, err
	}
	if err := s.Client.Update(ctx, policy, fieldOwner); err != nil {
		return nil, fmt.Errorf("place workload %s/%s on %s as well: %w", namespace, name, strings.Join(to, ", "), err)
	}
	return s.Get(ctx, namespace, name)
}

func (s *Service) beginMove(policy *policyv1alpha1.PropagationPolicy, to []string, seconds int32) error {
	from, now := placedOn(policy), s.Now().UTC().Truncate(time.Second)
	placeOn(policy, slices.Concat(from, to))
	return writeMove(policy, &federation.Move{
		From: from, To: to, Phase: federation.MovePlacing, StartedAt: now, By: s.User,
		Deadline: now.Add(time.Duration(cmp.Or(seconds, defaultTimeout)) * time.Second),
	})
}

// advance carries a move one step further if Karmada's state of the workload allows it, and reports whether the policy
// changed.
func advance(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress, now time.Time) (changed bool) {
	before := *move
	switch move.Phase {
	case federation.MovePlacing:
		checkPlaced(policy, move, p, now)
	case federation.MoveNarrowing:
		removeFromOld(policy, move, p, now)
	case federation.MoveReverting:
		if p.released(without(move.To, move.From)) {
			placeOn(policy, move.From)
			move.Phase = federation.MoveSettling
		}
	case federation.MoveSettling:
		finish(policy, move, p)
	}
	return move.Phase != before.Phase || move.Message != before.Message
}

// checkPlaced waits until the workload is ready on the new clusters.
func checkPlaced(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress, now time.Time) {
	ready, awaited := p.ready(move.To)
	awaited = spread.Quoted(awaited) // the text comes from clusters
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

// revert places the workload where it was.
func revert(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, awaited string) {
	*policy.Spec.PreserveResourcesOnDeletion = false
	move.Phase = federation.MoveReverting
	move.Message = fmt.Sprintf("not ready on %s within %v: %s; it stays on %s", strings.Join(move.To, ", "), move.Deadline.Sub(move.StartedAt), awaited,
		strings.Join(move.From, ", "))
}

// removeFromOld removes the workload from the old clusters once it is ready on the new ones.
func removeFromOld(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress, now time.Time) {
	ready, awaited := p.ready(move.To)
	awaited = spread.Quoted(awaited) // the text comes from clusters
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

// finish ends the move when the workload is being removed from the old clusters. From then on the other clusters keep
// its objects if the hub deletes them.
func finish(policy *policyv1alpha1.PropagationPolicy, move *federation.Move, p *progress) {
	leaving := without(slices.Concat(move.From, move.To), placedOn(policy))
	if !p.isGone(leaving) {
		return
	}
	*policy.Spec.PreserveResourcesOnDeletion = true
	move.Phase = federation.MoveDone
	if !slices.Equal(placedOn(policy), move.To) {
		move.Phase = federation.MoveFailed
	}
}
