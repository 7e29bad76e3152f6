// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The uplink's address is one that the agent does not know.
func TestWatchNoticesAddresses(t *testing.T) {
	topology.EnterTestNamespace(t, "watch")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	_ = Watch(ctx, func() { // on the thread of the test
		if calls++; calls > 1 {
			cancel()
			return
		}
		lo, err := netlink.LinkByName("lo")
		testlab.Must(t, err)
		testlab.Must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: netlink.NewIPNet([]byte{192, 0, 2, 1})}))
	})
	if calls != 2 {
		t.Errorf("changed was called %d times", calls)
	}
}
