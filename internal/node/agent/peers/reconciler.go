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
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Overlay is the kernel's side of the node's networks.
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

// Reconciler makes true what a node's networks shall be.
type Reconciler struct {
	Plan Planner
	// Linger is how long a peer is kept that is not planned any more, unless another one has its subnets: what is written to several
	// objects does not come at once. Patience is for how long after the start none goes: after an upgrade the operator may not have
	// written all objects.
	Linger, Patience time.Duration
	Now              func() time.Time
	// Open opens the kernel's side.
	Open func() (Overlay, error)
	// Do has ask talk to ktsnd.
	Do func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Configure writes the node's configuration of the networks, which has these parts of them. What it has of other networks goes
	// where these are all.
	Configure func(networks []network.Network, parts map[string][]netip.Prefix, all bool) error
	// Through sets up who makes the tunnels, where ktsnd and kernel do not: Open vSwitch; nil where there is none.
	Through func(ctx context.Context, tunnels Tunnels) error
	// Links are the networks that links are, whose peers are those of the links; nil: there are none.
	Links func() (map[uint32]bool, error)
	// Report is told how it went, as far as this node is concerned.
	Report func(error)
	// LeftOut is told how many nodes are left out of the networks, for their own faults.
	LeftOut func(count int)
	// Warn makes an Event on this node's own Node.
	Warn func(own *corev1.Node, reason, sentence string)
	Log  *slog.Logger

	// said are the faults that somebody was told of.
	said map[string]string
	// began is when it looked for the first time.
	began time.Time
	// unplanned is since when peers that are still there have not been planned.
	unplanned map[key]time.Time
	// saidThrough is what the last Event said of Open vSwitch, while that is so.
	saidThrough string
}

// Tunnels are those between this node and the others.
type Tunnels struct {
	// Own is the node's end.
	Local netip.Addr
	// Networks are VXLAN network identifiers, Peers the other nodes' ends.
	Networks []uint32
	Peers    []netip.Addr
	// Port is the UDP port.
	Port uint16
}

// Reconcile looks at everything, whatever it was called for.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := repeat.Look(ctx, r.all, r.Report)
	if len(r.unplanned) > 0 {
		result.RequeueAfter = min(result.RequeueAfter, r.nextGoes())
	}
	return result, err
}

func (r *Reconciler) all(ctx context.Context) error {
	plan, err := r.Plan.plan(ctx)
	if err != nil {
		return err
	}
	r.tell(plan.own, plan.faults)
	errThrough := r.through(ctx, plan)
	errConfigure := r.Configure(plan.networks, plan.parts, plan.unknown == nil)
	errPeers := r.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error { return r.apply(ctx, plan, ktsnd) })
	// What is wrong with other nodes keeps nobody here from anything.
	return errors.Join(plan.trouble(), errThrough, errConfigure, errPeers)
}

// through sets up who makes the tunnels. A network that cannot go there is no fault of the others: its own status says so.
func (r *Reconciler) through(ctx context.Context, plan *plan) error {
	address, err := tsnnetwork.TunnelAddress(plan.own)
	if r.Through == nil || err != nil { // which is among the faults
		return nil
	}
	err = r.Through(ctx, plan.tunnels(address))
	switch {
	case err == nil:
		r.saidThrough = ""
	case err.Error() != r.saidThrough:
		r.saidThrough = err.Error()
		r.Warn(plan.own, ReasonOpenVSwitch, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}

// tell says once which nodes are left out and why. An Event is made by the node's own agent only, or there would be as many
// as nodes.
func (r *Reconciler) tell(own *corev1.Node, faults map[string]error) {
	r.LeftOut(len(faults))
	said := map[string]string{}
	for name, err := range faults {
		said[name] = strings.ReplaceAll(err.Error(), "\n", "; ")
		if r.said[name] == said[name] {
			continue
		}
		r.Log.Warn("a node is left out", "node", name, "error", said[name])
		if name == own.Name {
			r.Warn(own, v1alpha1.ReasonTSNNodeLeftOut, said[name])
		}
	}
	r.said = said
}

// known is what kernel, state directory and ktsnd know of one peer.
type known struct {
	remembered, told *control.Peer
	flooded          bool
}

// apply tells kernel and ktsnd of the peers in which they differ from what is planned.
func (r *Reconciler) apply(ctx context.Context, plan *plan, ktsnd Ktsnd) error {
	kernel, err := r.Open()
	if err != nil {
		return err
	}
	defer kernel.Close()
	have, tunnels, err := look(ctx, kernel, ktsnd)
	if err != nil {
		return err
	}
	if err := r.leaveOutLinks(have); err != nil {
		return err
	}
	all := r.guard(ctx, kernel)
	changes := r.leaving(plan, have)
	for at, peer := range plan.peers {
		if !complete(have[at], &peer, tunnels[at.vni]) {
			changes = append(changes, overlay.Change{Peer: peer})
		}
	}
	if len(changes) == 0 {
		return all
	}
	r.log(changes)
	if err := kernel.ChangePeers(ctx, changes, ktsnd); err != nil {
		all = errors.Join(all, fmt.Errorf("tell of the other nodes: %w", err))
	}
	return all
}

// leaveOutLinks leaves out the peers of links. Records are read behind the peers: a link's is written before its peer, and removed after.
func (r *Reconciler) leaveOutLinks(have map[key]known) error {
	if r.Links == nil {
		return nil
	}
	links, err := r.Links()
	if err != nil {
		return err
	}
	maps.DeleteFunc(have, func(at key, _ known) bool { return links[at.vni] })
	return nil
}

// maxLogged is how many changes are logged one by one.
const maxLogged = 10

func (r *Reconciler) log(changes []overlay.Change) {
	if len(changes) > maxLogged {
		r.Log.Info("change peers", "count", len(changes))
		return
	}
	for i := range changes {
		if peer := &changes[i].Peer; changes[i].Gone {
			r.Log.Info("forget peer", "vni", peer.VNI, "address", peer.Address)
		} else {
			r.Log.Info("tell of peer", "vni", peer.VNI, "address", peer.Address, "subnets", peer.Subnets)
		}
	}
}

// guard puts the filter of the tunnels right. That something was wrong with it, somebody should know.
func (r *Reconciler) guard(ctx context.Context, kernel Overlay) error {
	changed, err := kernel.Guard(ctx)
	if len(changed) > 0 {
		r.Log.Warn("the filter of the tunnels was not what it shall be, and is again", "differences", strings.Join(changed, "; "))
	}
	return err
}

// look joins what each knows; tunnels are the networks that have one.
func look(ctx context.Context, kernel Overlay, ktsnd Ktsnd) (have map[key]known, tunnels map[uint32]bool, err error) {
	remembered, err := kernel.Peers()
	if err != nil {
		return nil, nil, err
	}
	flooded, err := kernel.FloodTargets()
	if err != nil {
		return nil, nil, err
	}
	peers, err := ktsnd.Peers(ctx)
	if err != nil {
		return nil, nil, err
	}
	have, tunnels, ours := map[key]known{}, map[uint32]bool{}, map[uint32]bool{}
	for i := range remembered {
		at := key{remembered[i].VNI, remembered[i].Address}
		have[at] = known{remembered: &remembered[i]}
		ours[at.vni] = true
	}
	for i := range peers {
		at := key{peers[i].VNI, peers[i].Address}
		one := have[at]
		one.told = &peers[i]
		have[at] = one
		ours[at.vni] = true
	}
	for vni, addresses := range flooded {
		tunnels[vni] = true
		for address := range addresses {
			at := key{vni, address}
			one, known := have[at]
			// A tunnel of a network that is none of ours is another's, such as Flannel's.
			if !known && !ours[vni] {
				continue
			}
			one.flooded = true
			have[at] = one
		}
	}
	return have, tunnels, nil
}

// complete tells whether there is nothing left to tell of a peer.
func complete(have known, peer *control.Peer, tunnel bool) bool {
	return have.remembered != nil && slices.Equal(have.remembered.Subnets, peer.Subnets) &&
		have.told != nil && slices.Equal(have.told.Subnets, peer.Subnets) && (have.flooded || !tunnel)
}
