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
	// Renew is Setup after another ovs-vswitchd was started.
	Renew(ctx context.Context, plan *ovs.Plan) error
	Teardown(ctx context.Context) error
	// Incarnation tells one ovs-vswitchd from the next.
	Incarnation() string
}

// Wanted is what the cluster wants of it.
type Wanted struct {
	// Own is the node's end of tunnels.
	Own netip.Addr
	// Networks are VXLAN network identifiers, Peers the other nodes' ends.
	Networks []uint32
	Peers    []netip.Addr
	// Port is the UDP port of tunnels.
	Port uint16
}

// Follower makes it so.
type Follower struct {
	Switch Switch
	// Plan is what the node's administrator says: the network card, processors. The rest is the cluster's.
	Plan ovs.Plan
	// PrefixBits is of the tunnel's address where no interface has it yet.
	PrefixBits int
	// PrefixOf looks for an interface that has it.
	PrefixOf func(netip.Addr) (netip.Prefix, bool)
	Now      func() time.Time

	// done is what was set up last, and for which ovs-vswitchd; "" for nothing.
	done, incarnation string
	looked            time.Time
}

const (
	// lookEvery is how often to look at everything when nothing has happened.
	lookEvery = 5 * time.Minute
	// watchEvery is how soon a restart of ovs-vswitchd is seen.
	watchEvery = 250 * time.Millisecond
)

// Follow sets up what is wanted, if it is not.
func (f *Follower) Follow(ctx context.Context, wanted *Wanted) error {
	if len(wanted.Networks) == 0 {
		return f.leave(ctx)
	}
	plan := f.planOf(wanted)
	description, incarnation := fmt.Sprintf("%+v", plan), f.Switch.Incarnation()
	anew := f.done != "" && incarnation != f.incarnation
	if description == f.done && !anew && f.Now().Sub(f.looked) < lookEvery {
		return nil
	}
	set := f.Switch.Setup
	if anew {
		set = f.Switch.Renew
	}
	f.done = ""
	if err := set(ctx, &plan); err != nil {
		return fmt.Errorf("set up Open vSwitch: %w", err)
	}
	f.done, f.incarnation, f.looked = description, f.Switch.Incarnation(), f.Now()
	return nil
}

func (f *Follower) planOf(wanted *Wanted) ovs.Plan {
	plan := f.Plan
	prefix, found := f.PrefixOf(wanted.Own)
	if !found {
		prefix = netip.PrefixFrom(wanted.Own, f.PrefixBits)
	}
	plan.Address, plan.Port = prefix, wanted.Port
	plan.Networks, plan.Peers = slices.Sorted(slices.Values(wanted.Networks)), slices.SortedFunc(slices.Values(wanted.Peers), netip.Addr.Compare)
	return plan
}

// leave takes down what was set up when there is no network any more.
func (f *Follower) leave(ctx context.Context) error {
	if f.done == "" {
		return nil
	}
	if err := f.Switch.Teardown(ctx); err != nil {
		return fmt.Errorf("take Open vSwitch down: %w", err)
	}
	f.done = ""
	return nil
}

// Watch calls changed when another ovs-vswitchd was started, until ctx ends.
func Watch(ctx context.Context, one Switch, changed func()) error {
	known := one.Incarnation()
	for tick := time.NewTicker(watchEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		if now := one.Incarnation(); now != known {
			known = now
			changed()
		}
	}
}
