// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"math"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func TestReadRelay(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	testlab.Must(t, err)
	for name, test := range map[string]struct {
		index   int
		has     bool
		answers bool
	}{
		"none was said":         {0, false, false},
		"the device is there":   {loopback.Index, true, true},
		"the device went since": {math.MaxInt32, false, false},
	} {
		count := PortCount{RelayIfindex: test.index, HeartbeatAge: HeartbeatLimit}
		if err := count.readRelay(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if count.HasRelay() != test.has || count.Answers() != test.answers {
			t.Errorf("%s: it has a relay: %v, which answers: %v", name, count.HasRelay(), count.Answers())
		}
	}
	if silent := (PortCount{RelayIfindex: loopback.Index, HeartbeatAge: HeartbeatLimit + 1}); silent.Answers() {
		t.Error("a relay without a heartbeat answers")
	}
}

// A program that sends faster than ktsnd takes its frames must see that some were dropped.
func TestFullQueueIsCounted(t *testing.T) {
	topology.EnterTestNamespace(t, "queue")
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "relay0"
	tap := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1}
	testlab.Must(t, netlink.LinkAdd(tap))
	defer tap.Fds[0].Close()
	const room, sent = 4, 20
	testlab.Must(t, netlink.LinkSetTxQLen(tap, room))
	testlab.Must(t, netlink.LinkSetUp(tap))
	link, err := netlink.LinkByName(attributes.Name)
	testlab.Must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	testlab.Must(t, err)
	defer unix.Close(fd)
	for range sent {
		// The kernel may say ENOBUFS for a full queue.
		_ = unix.Sendto(fd, make([]byte, 60), 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
	}
	count := PortCount{RelayIfindex: link.Attrs().Index}
	testlab.Must(t, count.readRelay())
	if dropped := count.Dropped()[ReasonQueueFull]; dropped < sent-room-1 || dropped > sent {
		t.Errorf("of %d frames into a queue of %d, %d are counted as dropped", sent, room, dropped)
	}
}
