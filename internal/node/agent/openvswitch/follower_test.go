// SPDX-License-Identifier: Apache-2.0

package openvswitch

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
)

// fakeSwitch notes what it was asked for.
type fakeSwitch struct {
	did    []string
	plan   ovs.Plan
	serial string
	refuse error
}

func (f *fakeSwitch) note(what string, plan *ovs.Plan) error {
	f.did = append(f.did, what)
	if plan != nil {
		f.plan = *plan
	}
	return f.refuse
}

func (f *fakeSwitch) Setup(_ context.Context, plan *ovs.Plan) error { return f.note("setup", plan) }
func (f *fakeSwitch) Renew(_ context.Context, plan *ovs.Plan) error { return f.note("renew", plan) }
func (f *fakeSwitch) Teardown(context.Context) error                { return f.note("teardown", nil) }
func (f *fakeSwitch) Incarnation() string                           { return f.serial }

var (
	own   = netip.MustParseAddr("192.0.2.1")
	peer2 = netip.MustParseAddr("192.0.2.2")
	peer3 = netip.MustParseAddr("192.0.2.3")
)

func TestOpenVSwitchFollowsTheCluster(t *testing.T) {
	now := time.Unix(0, 0)
	one := &fakeSwitch{serial: "first"}
	follower := &Follower{Switch: one, Plan: ovs.Plan{Device: "0000:01:00.0"}, PrefixBits: 20, Now: func() time.Time { return now },
		PrefixOf: func(netip.Addr) (netip.Prefix, bool) { return netip.Prefix{}, false }}
	wanted := Wanted{Own: own, Networks: []uint32{7, 42}, Peers: []netip.Addr{peer3, peer2}, Port: 4789}
	for _, step := range []struct {
		name   string
		change func()
		did    string
		fails  bool
	}{
		{"nothing is done where there is no network", func() { wanted.Networks = nil }, "", false},
		{"the first network", func() { wanted.Networks = []uint32{42} }, "setup", false},
		{"the same again", func() {}, "", false},
		{"the same in another order", func() { wanted.Peers = []netip.Addr{peer2, peer3} }, "", false},
		{"another network", func() { wanted.Networks = []uint32{42, 7} }, "setup", false},
		{"a node less", func() { wanted.Peers = wanted.Peers[:1] }, "setup", false},
		{"another ovs-vswitchd", func() { one.serial = "second" }, "renew", false},
		{"and then nothing", func() {}, "", false},
		{"after a while a look", func() { now = now.Add(time.Hour) }, "setup", false},
		{"it cannot", func() { wanted.Networks, one.refuse = []uint32{1}, errors.New("no hugepages") }, "setup", true},
		{"it still cannot", func() {}, "setup", true},
		{"it can again", func() { one.refuse = nil }, "setup", false},
		{"no network any more", func() { wanted.Networks = nil }, "teardown", false},
		{"and nothing to take down", func() {}, "", false},
	} {
		step.change()
		one.did = nil
		err := follower.Follow(t.Context(), &wanted)
		if did := strings.Join(one.did, " "); did != step.did || (err != nil) != step.fails {
			t.Errorf("%s: it did %q, %v", step.name, did, err)
		}
		if err != nil && err.Error() != "set up Open vSwitch: no hugepages" {
			t.Errorf("%s: it says %v", step.name, err)
		}
	}
	if plan := one.plan; plan.Address != netip.MustParsePrefix("192.0.2.1/20") || plan.Device != "0000:01:00.0" || plan.Port != 4789 ||
		!slices.Equal(plan.Networks, []uint32{1}) || !slices.Equal(plan.Peers, []netip.Addr{peer2}) {
		t.Errorf("the last plan is %+v", plan)
	}
}

func TestPrefixIsThatOfTheInterfaceWhichHasTheAddress(t *testing.T) {
	one := &fakeSwitch{}
	follower := &Follower{Switch: one, PrefixBits: 24, Now: time.Now,
		PrefixOf: func(address netip.Addr) (netip.Prefix, bool) { return netip.PrefixFrom(address, 16), true }}
	if err := follower.Follow(t.Context(), &Wanted{Own: own, Networks: []uint32{1}}); err != nil || one.plan.Address.Bits() != 16 {
		t.Errorf("%v, %+v", err, one.plan)
	}
}

// restartingSwitch is looked at while it is restarted.
type restartingSwitch struct {
	fakeSwitch

	restarts atomic.Int64
}

func (r *restartingSwitch) Incarnation() string { return strconv.FormatInt(r.restarts.Load(), 10) }

func TestRestartOfOpenVSwitchIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &restartingSwitch{}
		ctx, cancel := context.WithCancel(t.Context())
		var seen atomic.Int64
		ended := make(chan error)
		go func() { ended <- Watch(ctx, one, func() { seen.Add(1) }) }()
		for i := range int64(3) {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := seen.Load(); got != i {
				t.Errorf("after %d restarts %d were seen", i, got)
			}
			one.restarts.Add(1)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
