// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os/exec"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// setUplink brings the link between the nodes up or down on node a.
func (l *lab) setUplink(t *testing.T, set func(netlink.Link) error) {
	t.Helper()
	err := l.NodeA.Do(func() error {
		link, err := netlink.LinkByName(topology.PhysicalInterface)
		if err != nil {
			return err
		}
		return set(link)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsDueWhileTheUplinkIsDownIsDroppedAndCounted(t *testing.T) {
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	command := exec.Command(program(t, "ktsn-test-send"), topology.PodAddressB.String(), "7788",
		"200000:first", "2000000:while it is down", "4500000:after")
	command.Env = lab.preloaded(t)
	arrivals := lab.receive(t, 2, func() {
		if err := finish(t, start(t, lab.PodA, "ktsn-test-send", command)); err != nil {
			t.Fatal(err)
		}
		await(t, client, "the first has left", func(counted control.Counters) bool { return counted.Sent == 1 })
		lab.setUplink(t, netlink.LinkSetDown)
		await(t, client, "the second was due", func(counted control.Counters) bool { return counted.DropPort > 0 || counted.Sent > 1 })
		lab.setUplink(t, netlink.LinkSetUp)
	})
	if arrivals[0].text != "first" || arrivals[1].text != "after" {
		t.Errorf("arrived: %q and %q, want first and after", arrivals[0].text, arrivals[1].text)
	}
	if count := settled(t, client); count.DropPort != 1 || count.Sent != 2 {
		t.Errorf("ktsnd sent %d and dropped %d for its port, want 2 and 1", count.Sent, count.DropPort)
	}
}
