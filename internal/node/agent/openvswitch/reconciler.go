// SPDX-License-Identifier: Apache-2.0

package openvswitch

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
)

// Switch is the node's Open vSwitch.
type Switch interface {
	Setup(ctx context.Context, plan *ovs.Plan) error
	// Renew repeats Setup after a restart of ovs-vswitchd.
	Renew(ctx context.Context, plan *ovs.Plan) error
	Teardown(ctx context.Context) error
	// Incarnation identifies the running ovs-vswitchd process.
	Incarnation() string
}

// Tunnels is the desired state of Open vSwitch.
type Tunnels struct {
	// Local is the node's tunnel address.
	Local netip.Addr
	// Networks are the UDP ports of the networks' tunnels, by VXLAN network identifier. Peers are the tunnel addresses of the other nodes.
	Networks map[uint32]uint16
	Peers    []netip.Addr
}

// Reconciler applies the desired tunnels.
type Reconciler struct {
	Switch Switch
	// Plan has the administrator's part, such as the network card and processors. The cluster defines the rest.
	Plan ovs.Plan
	// PrefixBits is the prefix length of the tunnel address if no interface has it yet.
	PrefixBits int
	// PrefixOf returns the prefix of the interface that has an address.
	PrefixOf func(netip.Addr) (netip.Prefix, bool)
	Now      func() time.Time

	// applied describes the last plan that was set up, incarnation its ovs-vswitchd; "" for none.
	applied, incarnation string
	checkedAt            time.Time
	lastErr              atomic.Pointer[error]
}

const (
	// checkInterval is the time between two complete checks without a change.
	checkInterval = 5 * time.Minute
	// watchInterval is the time between two checks for a restart of ovs-vswitchd.
	watchInterval = 250 * time.Millisecond
)

// Reconcile sets Open vSwitch up, unless nothing has changed.
func (f *Reconciler) Reconcile(ctx context.Context, tunnels Tunnels) error {
	err := f.reconcile(ctx, tunnels)
	f.lastErr.Store(&err)
	return err
}

// LastErr returns the result of the last reconciliation, nil without a Reconciler. Any goroutine may call it.
func (f *Reconciler) LastErr() error {
	if f == nil {
		return nil
	}
	if lastErr := f.lastErr.Load(); lastErr != nil {
		return *lastErr
	}
	return nil
}

func (f *Reconciler) reconcile(ctx context.Context, tunnels Tunnels) error {
	if len(tunnels.Networks) == 0 {
		return f.teardown(ctx)
	}
	plan := f.planFor(tunnels)
	description, incarnation := fmt.Sprintf("%+v", plan), f.Switch.Incarnation()
	restarted := f.applied != "" && incarnation != f.incarnation
	if description == f.applied && !restarted && f.Now().Sub(f.checkedAt) < checkInterval {
		return nil
	}
	set := f.Switch.Setup
	if restarted {
		set = f.Switch.Renew
	}
	f.applied = ""
	if err := set(ctx, &plan); err != nil {
		return fmt.Errorf("set up Open vSwitch: %w", err)
	}
	f.applied, f.incarnation, f.checkedAt = description, f.Switch.Incarnation(), f.Now()
	return nil
}

func (f *Reconciler) planFor(tunnels Tunnels) ovs.Plan {
	plan := f.Plan
	prefix, ok := f.PrefixOf(tunnels.Local)
	if !ok {
		prefix = netip.PrefixFrom(tunnels.Local, f.PrefixBits)
	}
	plan.Address, plan.Port, plan.Ports = prefix, v1alpha1.DefaultPort, tunnels.Networks
	plan.Networks, plan.Peers = slices.Sorted(maps.Keys(tunnels.Networks)), slices.SortedFunc(slices.Values(tunnels.Peers), netip.Addr.Compare)
	return plan
}

// teardown removes the previous setup when no network is left.
func (f *Reconciler) teardown(ctx context.Context) error {
	if f.applied == "" {
		return nil
	}
	if err := f.Switch.Teardown(ctx); err != nil {
		return fmt.Errorf("tear down Open vSwitch: %w", err)
	}
	f.applied = ""
	return nil
}

// Watch calls changed after each restart of ovs-vswitchd, until ctx ends.
func Watch(ctx context.Context, ovsSwitch Switch, changed func()) error {
	incarnation := ovsSwitch.Incarnation()
	wait.UntilWithContext(ctx, func(context.Context) {
		if current := ovsSwitch.Incarnation(); current != incarnation {
			incarnation = current
			changed()
		}
	}, watchInterval)
	return nil
}
