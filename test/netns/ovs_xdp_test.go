// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The card is DPDK's by an XDP socket: what the kernel has of it is only the name.
func TestMessagesGoThroughOpenVSwitchByAFXDP(t *testing.T) {
	timing(t)
	if fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		testlab.Missing(t, "this kernel makes no XDP sockets: "+err.Error())
	} else if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	lab := newOVSNode(t)
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.Start(t.Context(), lab.Topology) })
	ip(t, lab.NodeA, "address", "del", topology.NodeAddressA.String()+"/24", "dev", topology.PhysicalInterface)
	options := append(lab.setup(), "--interface", "", "--device", "net_af_xdp0,iface="+topology.PhysicalInterface)
	if output, err := lab.ktsn(t, "setup", options...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	lab.prepareFarEnd(t)
	lab.wiring.A.Through(ovs.BridgePhysical, overlay.TunnelName(topology.VNI))
	if err := lab.wiring.AttachBoth(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	const count = 200
	seen := lab.run(t, traffic{count: count, payloadBytes: 64, environment: lab.preloaded(t)})
	checkAllArrived(t, seen, count)
	if counted := counters(t, client); counted.Sent != count || counted.Dropped() != 0 {
		t.Errorf("ktsnd sent %d and dropped %d", counted.Sent, counted.Dropped())
	}
	lab.checkAnswers(t)
	if output, err := lab.ktsn(t, "teardown"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	err := lab.NodeA.Do(func() error {
		card, err := netlink.LinkByName(topology.PhysicalInterface)
		if err == nil && card.Attrs().Xdp != nil && card.Attrs().Xdp.Attached {
			t.Error("a program of XDP stays at the interface")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
