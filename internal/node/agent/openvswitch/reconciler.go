// SPDX-License-Identifier: Apache-2.0

package openvswitch

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

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

// State is the desired state of Open vSwitch.
type State struct {
	// Local is the node's tunnel address.
	Local netip.Addr
	// Networks are VXLAN network identifiers, Peers the tunnel addresses of the other nodes.
	Networks []uint32
	Peers    []netip.Addr
	// Port is the UDP port of tunnels.
	Port uint16
}

// Reconciler applies the desired state.
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
}

const (
	// checkInterval is the time between two complete checks without a change.
	checkInterval = 5 * time.Minute
	// watchInterval is the time between two checks for a restart of ovs-vswitchd.
	watchInterval = 250 * time.Millisecond
)

// Reconcile sets Open vSwitch up, unless nothing has changed.
func (f *Reconciler) Reconcile(ctx context.Context, state *State) error {
	if len(state.Networks) == 0 {
		return f.teardown(ctx)
	}
	plan := f.planFor(state)
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

func (f *Reconciler) planFor(state *State) ovs.Plan {
	plan := f.Plan
	prefix, ok := f.PrefixOf(state.Local)
	if !ok {
		prefix = netip.PrefixFrom(state.Local, f.PrefixBits)
	}
	plan.Address, plan.Port = prefix, state.Port
	plan.Networks, plan.Peers = slices.Sorted(slices.Values(state.Networks)), slices.SortedFunc(slices.Values(state.Peers), netip.Addr.Compare)
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
	for tick := time.NewTicker(watchInterval); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if current := ovsSwitch.Incarnation(); current != incarnation {
			incarnation = current
			changed()
		}
	}
}
