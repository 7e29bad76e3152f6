// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Overlay manages the node's networks in the kernel.
type Overlay interface {
	Peers() ([]control.Peer, error)
	FloodTargets() (map[uint32]map[netip.Addr]bool, error)
	Guard(ctx context.Context) (changed []string, err error)
	ChangePeers(ctx context.Context, changes []overlay.Change, timed overlay.Timed) error
	Close()
}

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	overlay.Timed
	Peers(ctx context.Context) ([]control.Peer, error)
}

// Reconciler reconciles the peers of a node.
type Reconciler struct {
	Plan Planner
	// Linger is how long an unplanned peer stays, unless another one has its subnets: changes of several objects do not
	// arrive at once. StartupGrace is how long after the start no peer is removed: after an upgrade the operator may
	// not have written all objects.
	Linger, StartupGrace time.Duration
	Now                  func() time.Time
	// Open opens the kernel's networks.
	Open func() (Overlay, error)
	// Do calls ask with a connection to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Configure writes the node's network configurations for its subnets. If all, it removes those of other networks.
	Configure func(networks []network.Network, parts map[string][]netip.Prefix, all bool) error
	// Switch sets up the tunnels in Open vSwitch; nil without one.
	Switch func(ctx context.Context, tunnels openvswitch.Tunnels) error
	// Links returns the VNIs of links, whose peers are managed elsewhere; may be nil.
	Links func() (map[uint32]bool, error)
	// Report gets the result as far as this node is concerned.
	Report func(error)
	// LeftOut gets the number of nodes that are skipped because of their faults.
	LeftOut func(count int)
	// Warn creates an Event on this node's Node.
	Warn func(node *corev1.Node, reason, message string)
	Log  *slog.Logger

	// reportedFaults are the faults that were reported.
	reportedFaults map[string]string
	// startedAt is the time of the first reconciliation.
	startedAt time.Time
	// unplanned is since when existing peers have not been planned.
	unplanned map[key]time.Time
	// guarded means that the filter was complete before.
	guarded bool
	// reportedSwitchError is the last reported error of Open vSwitch, "" after success.
	reportedSwitchError string
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := repeat.Look(ctx, r.reconcile, r.Report)
	if len(r.unplanned) > 0 {
		result.RequeueAfter = min(result.RequeueAfter, r.nextRemoval())
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context) error {
	plan, err := r.Plan.plan(ctx)
	if err != nil {
		return err
	}
	r.reportFaults(plan.node, plan.faults)
	errSwitch := r.setUpSwitch(ctx, plan)
	errConfigure := r.Configure(plan.networks, plan.parts, plan.unknown == nil)
	errPeers := r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error { return r.apply(ctx, plan, ktsnd) })
	// Faults of other nodes do not make this node unready.
	return errors.Join(plan.problems(), errSwitch, errConfigure, errPeers)
}

// setUpSwitch sets up Open vSwitch. A network that it cannot carry does not affect the others: the status of the
// network has the reason.
func (r *Reconciler) setUpSwitch(ctx context.Context, plan *plan) error {
	address, err := tsnnetwork.TunnelAddress(plan.node)
	if r.Switch == nil || err != nil { // the error is among the faults
		return nil
	}
	err = r.Switch(ctx, plan.tunnels(address))
	switch {
	case err == nil:
		r.reportedSwitchError = ""
	case err.Error() != r.reportedSwitchError:
		r.reportedSwitchError = err.Error()
		r.Warn(plan.node, ReasonOpenVSwitch, errortext.OneLine(err))
	}
	return err
}

// reportFaults reports new faults. Only the agent of a node creates an Event for it: otherwise there would be one per
// node.
func (r *Reconciler) reportFaults(node *corev1.Node, faults map[string]error) {
	r.LeftOut(len(faults))
	messages := map[string]string{}
	for name, err := range faults {
		messages[name] = errortext.OneLine(err)
		if r.reportedFaults[name] == messages[name] {
			continue
		}
		r.Log.Warn("skipping a node", "node", name, "error", messages[name])
		if name == node.Name {
			r.Warn(node, v1alpha1.ReasonTSNNodeLeftOut, messages[name])
		}
	}
	r.reportedFaults = messages
}

// observed is the state of a peer in kernel, state directory and ktsnd.
type observed struct {
	recorded, inKtsnd *control.Peer
	flooded           bool
}

// apply changes the peers in kernel and ktsnd that differ from the plan.
func (r *Reconciler) apply(ctx context.Context, plan *plan, ktsnd Ktsnd) error {
	kernel, err := r.Open()
	if err != nil {
		return err
	}
	defer kernel.Close()
	have, tunnels, err := observe(ctx, kernel, ktsnd)
	if err != nil {
		return err
	}
	if err := r.leaveOutLinks(have); err != nil {
		return err
	}
	errs := r.ensureGuard(ctx, plan.node, kernel)
	changes := r.removals(plan, have)
	for at, peer := range plan.peers {
		if !complete(have[at], &peer, tunnels[at.vni]) {
			changes = append(changes, overlay.Change{Peer: peer})
		}
	}
	if len(changes) == 0 {
		return errs
	}
	r.logChanges(changes)
	if err := kernel.ChangePeers(ctx, changes, ktsnd); err != nil {
		errs = errors.Join(errs, fmt.Errorf("change peers: %w", err))
	}
	return errs
}

// leaveOutLinks ignores the peers of links. Read the records after the peers: a link's record is written before its
// peer, and removed after it.
func (r *Reconciler) leaveOutLinks(have map[key]observed) error {
	if r.Links == nil {
		return nil
	}
	links, err := r.Links()
	if err != nil {
		return err
	}
	maps.DeleteFunc(have, func(at key, _ observed) bool { return links[at.vni] })
	return nil
}

// maxLogged is the number of changes that are logged individually.
const maxLogged = 10

func (r *Reconciler) logChanges(changes []overlay.Change) {
	if len(changes) > maxLogged {
		r.Log.Info("change peers", "count", len(changes))
		return
	}
	for i := range changes {
		if peer := &changes[i].Peer; changes[i].Gone {
			r.Log.Info("remove peer", "vni", peer.VNI, "address", peer.Address)
		} else {
			r.Log.Info("add peer", "vni", peer.VNI, "address", peer.Address, "subnets", peer.Subnets)
		}
	}
}

// ensureGuard restores the filter of the tunnels, and reports the differences. The first time they may be those to another release.
func (r *Reconciler) ensureGuard(ctx context.Context, node *corev1.Node, kernel Overlay) error {
	changed, err := kernel.Guard(ctx)
	if len(changed) > 0 {
		differences := strings.Join(changed, "; ")
		r.Log.Warn("restored the filter of the tunnels", "differences", differences)
		if r.guarded {
			r.Warn(node, v1alpha1.ReasonTSNFilterRestored, "another program removed or changed the filter of the tunnels, and it was restored: "+differences)
		}
	}
	r.guarded = r.guarded || err == nil
	return err
}

// observe combines the state of kernel, state directory and ktsnd; tunnels are the VNIs with a tunnel.
func observe(ctx context.Context, kernel Overlay, ktsnd Ktsnd) (have map[key]observed, tunnels map[uint32]bool, err error) {
	recorded, err := kernel.Peers()
	if err != nil {
		return nil, nil, err
	}
	flooded, err := kernel.FloodTargets()
	if err != nil {
		return nil, nil, err
	}
	inKtsnd, err := ktsnd.Peers(ctx)
	if err != nil {
		return nil, nil, err
	}
	have, tunnels, ours := map[key]observed{}, map[uint32]bool{}, map[uint32]bool{}
	for i := range recorded {
		at := key{recorded[i].VNI, recorded[i].Address}
		have[at] = observed{recorded: &recorded[i]}
		ours[at.vni] = true
	}
	for i := range inKtsnd {
		at := key{inKtsnd[i].VNI, inKtsnd[i].Address}
		peer := have[at]
		peer.inKtsnd = &inKtsnd[i]
		have[at] = peer
		ours[at.vni] = true
	}
	for vni, addresses := range flooded {
		tunnels[vni] = true
		for address := range addresses {
			at := key{vni, address}
			peer, seen := have[at]
			// A tunnel with an unknown VNI belongs to another program, such as Flannel.
			if !seen && !ours[vni] {
				continue
			}
			peer.flooded = true
			have[at] = peer
		}
	}
	return have, tunnels, nil
}

// complete reports whether a peer is as planned everywhere.
func complete(have observed, peer *control.Peer, tunnel bool) bool {
	same := func(existing *control.Peer) bool {
		return existing != nil && slices.Equal(existing.Subnets, peer.Subnets) && existing.Port == peer.Port
	}
	return same(have.recorded) && same(have.inKtsnd) && (have.flooded || !tunnel)
}
