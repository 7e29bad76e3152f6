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

// fakeSwitch records the calls.
type fakeSwitch struct {
	calls       []string
	plan        ovs.Plan
	incarnation string
	err         error
}

func (f *fakeSwitch) record(call string, plan *ovs.Plan) error {
	f.calls = append(f.calls, call)
	if plan != nil {
		f.plan = *plan
	}
	return f.err
}

func (f *fakeSwitch) Setup(_ context.Context, plan *ovs.Plan) error { return f.record("setup", plan) }
func (f *fakeSwitch) Renew(_ context.Context, plan *ovs.Plan) error { return f.record("renew", plan) }
func (f *fakeSwitch) Teardown(context.Context) error                { return f.record("teardown", nil) }
func (f *fakeSwitch) Incarnation() string                           { return f.incarnation }

var (
	local = netip.MustParseAddr("192.0.2.1")
	peer2 = netip.MustParseAddr("192.0.2.2")
	peer3 = netip.MustParseAddr("192.0.2.3")
)

func TestReconcileFollowsCluster(t *testing.T) {
	now := time.Unix(0, 0)
	fake := &fakeSwitch{incarnation: "first"}
	reconciler := &Reconciler{Switch: fake, Plan: ovs.Plan{Device: "0000:01:00.0"}, PrefixBits: 20, Now: func() time.Time { return now },
		PrefixOf: func(netip.Addr) (netip.Prefix, bool) { return netip.Prefix{}, false }}
	state := Tunnels{Local: local, Peers: []netip.Addr{peer3, peer2}}
	for _, step := range []struct {
		name   string
		change func()
		did    string
		fails  bool
	}{
		{"no network", func() { state.Networks = nil }, "", false},
		{"first network", func() { state.Networks = map[uint32]uint16{42: 4789} }, "setup", false},
		{"unchanged", func() {}, "", false},
		{"peers in another order", func() { state.Peers = []netip.Addr{peer2, peer3} }, "", false},
		{"another network", func() { state.Networks = map[uint32]uint16{42: 4789, 7: 4789} }, "setup", false},
		{"another port", func() { state.Networks = map[uint32]uint16{42: 4789, 7: 8472} }, "setup", false},
		{"peer removed", func() { state.Peers = state.Peers[:1] }, "setup", false},
		{"restart", func() { fake.incarnation = "second" }, "renew", false},
		{"unchanged after restart", func() {}, "", false},
		{"periodic check", func() { now = now.Add(time.Hour) }, "setup", false},
		{"setup fails", func() { state.Networks, fake.err = map[uint32]uint16{1: 8472}, errors.New("no hugepages") }, "setup", true},
		{"setup fails again", func() {}, "setup", true},
		{"setup succeeds", func() { fake.err = nil }, "setup", false},
		{"last network removed", func() { state.Networks = nil }, "teardown", false},
		{"nothing to tear down", func() {}, "", false},
	} {
		step.change()
		fake.calls = nil
		err := reconciler.Reconcile(t.Context(), state)
		if did := strings.Join(fake.calls, " "); did != step.did || (err != nil) != step.fails {
			t.Errorf("%s: calls %q, %v", step.name, did, err)
		}
		if err != nil && err.Error() != "set up Open vSwitch: no hugepages" {
			t.Errorf("%s: error %v", step.name, err)
		}
	}
	if plan := fake.plan; plan.Address != netip.MustParsePrefix("192.0.2.1/20") || plan.Device != "0000:01:00.0" || plan.Ports[1] != 8472 ||
		!slices.Equal(plan.Networks, []uint32{1}) || !slices.Equal(plan.Peers, []netip.Addr{peer2}) {
		t.Errorf("the last plan is %+v", plan)
	}
}

func TestReconcileUsesInterfacePrefix(t *testing.T) {
	fake := &fakeSwitch{}
	reconciler := &Reconciler{Switch: fake, PrefixBits: 24, Now: time.Now,
		PrefixOf: func(address netip.Addr) (netip.Prefix, bool) { return netip.PrefixFrom(address, 16), true }}
	if err := reconciler.Reconcile(t.Context(), Tunnels{Local: local, Networks: map[uint32]uint16{1: 4789}}); err != nil || fake.plan.Address.Bits() != 16 {
		t.Errorf("%v, %+v", err, fake.plan)
	}
}

// restartedSwitch restarts concurrently.
type restartedSwitch struct {
	fakeSwitch

	restarts atomic.Int64
}

func (r *restartedSwitch) Incarnation() string { return strconv.FormatInt(r.restarts.Load(), 10) }

func TestWatchReportsRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &restartedSwitch{}
		ctx, cancel := context.WithCancel(t.Context())
		var reported atomic.Int64
		ended := make(chan error)
		go func() { ended <- Watch(ctx, fake, func() { reported.Add(1) }) }()
		for i := range int64(3) {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := reported.Load(); got != i {
				t.Errorf("after %d restarts %d were reported", i, got)
			}
			fake.restarts.Add(1)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
