// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// elsewhere are destinations that are no IPv4 address of one pod, with where a listener is bound to get what is sent
// there.
var elsewhere = map[string]struct{ to, bind string }{
	"an IPv6 address": {netip.AddrPortFrom(podAddress6B, listenPort).String(), "[::]:7788"},
	"a group":         {"239.1.2.3:7788", "0.0.0.0:7788"},
}

// joined makes pod b a member of the group, for whichever socket.
func (c *fourPods) joined(t *testing.T) {
	t.Helper()
	join(t, c.PodB, "udp4", netip.MustParseAddrPort("239.1.2.3:7799"))
	ip(t, c.PodA, "route", "add", "239.0.0.0/8", "dev", topology.PodInterface)
}

func TestReplaceUnderLoadLosesNothing(t *testing.T) {
	timing(t)
	for name, where := range elsewhere {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkReplacing(t, where.to, where.bind, 5, func(c *fourPods, daemon *process.Process) (*process.Process, *control.Client) {
				return c.takeOver(t, daemon)
			})
		})
	}
}

func TestKillUnderLoadCountsLosses(t *testing.T) {
	timing(t)
	for name, where := range elsewhere {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkReplacing(t, where.to, where.bind, 8, func(c *fourPods, daemon *process.Process) (*process.Process, *control.Client) {
				kill(t, daemon)
				daemon, client := c.startDaemon(t)
				c.addPeer6(t, client)
				onBridge(t, client, "neighbor", c.others["a neighbor on node a"])
				return daemon, client
			})
		})
	}
}

// awaitInTime waits until a message leaves that ktsnd had before its time. One to a group counts as late all the same when
// sending its first copy takes longer than --late-after: the copies leave one after the other.
func awaitInTime(t *testing.T, client *control.Client) {
	t.Helper()
	awaitCounters(t, client, "a message is there before its time", func(counted control.Counters) bool {
		return counted.Sent > counted.LateTaken+counted.LateUnresolved
	})
}

// checkReplacing has ktsnd replaced again and again while a talker sends.
func checkReplacing(t *testing.T, to, bind string, times int,
	replace func(*fourPods, *process.Process) (*process.Process, *control.Client)) {
	t.Helper()
	lab := newFourPods(t)
	lab.joined(t)
	daemon, client := lab.daemon, lab.client
	running := lab.startFlowTo(t, netip.MustParseAddrPort(bind), "--lead", "5ms", "--cycle", "1ms", "--to", to)
	var total sum
	for range times {
		awaitTaken(t, client, 100)
		awaitInTime(t, client)
		time.Sleep(rand.N(20 * time.Millisecond))
		total.add(counters(t, client))
		daemon, client = replace(lab, daemon)
	}
	awaitTaken(t, client, 100)
	total.add(running.end(t, client))
	running.checkConserved(t, total)
}

func TestPendingMessagesSurviveTakeOver(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	group := netip.MustParseAddrPort("239.1.2.3:7789")
	v6 := listen(t, lab.PodB, "udp6", netip.AddrPortFrom(podAddress6B, listenPort))
	v4 := listen(t, lab.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, listenPort))
	there := join(t, lab.PodB, "udp4", group)
	here := join(t, lab.others["a neighbor on node a"], "udp4", group)
	frames := listenPacket(t, lab.PodB)
	began := time.Now()
	for _, arguments := range [][]string{
		{"--to", podAddress6B.String(), "--port", "7788", "1500000:over IPv6"},
		{"--to", topology.PodAddressB.String(), "--port", "7788", "--connect", "--cmsg-ttl", "9", "1500000:with a TTL"},
		{"--to", "239.1.2.3", "--port", "7789", "--device", topology.PodInterface, "1500000:to the group"},
		{"--packet", "raw", "--interface", topology.PodInterface, "--mac", interfaceMAC(t, lab.PodB).String(),
			"--source-mac", interfaceMAC(t, lab.PodA).String(), "--ethertype", strconv.Itoa(etherType), "1500000:of layer 2"},
	} {
		lab.sendTo(t, arguments...)
	}
	shown := lab.tunnelledFrames(t, "with a TTL", 1, func() {
		lab.takeOver(t, lab.daemon)
		for want, conn := range map[string]*net.UDPConn{"over IPv6": v6, "with a TTL": v4, "to the group": there} {
			if got, _ := receive(t, conn); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})[0]
	if got, _ := receive(t, here); got != "to the group" {
		t.Errorf("on node a came %q", got)
	}
	if frame := receiveFrame(t, frames, patience); !bytes.Contains(frame, []byte("of layer 2")) {
		t.Errorf("got frame %q", frame)
	}
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("the last arrived after %v", took)
	}
	if got := carriedBy(shown); got.ttl != 9 {
		t.Errorf("its TTL is %d", got.ttl)
	}
}

func TestIPv6ToSameNodeStaysOffTheWire(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	neighbor := lab.others["a neighbor on node a"]
	for name, to := range map[string]netip.Addr{"its own address": netip.MustParseAddr("fd00:42:1::3"), "that of the link": linkLocal(t, neighbor)} {
		t.Run(name, func(t *testing.T) {
			conn := listen(t, neighbor, "udp6", netip.AddrPortFrom(netip.IPv6Unspecified(), listenPort))
			defer conn.Close()
			before := counters(t, lab.client)
			lab.tunnelledFrames(t, "next door", 0, func() {
				lab.sendTo(t, "--to", to.String(), "--port", "7788", "--device", topology.PodInterface, "10000:next door")
				if got, _ := receive(t, conn); got != "next door" {
					t.Errorf("got %q", got)
				}
			})
			if after := awaitSettled(t, lab.client); after.SentBridge-before.SentBridge != 1 {
				t.Errorf("counted %+v", after)
			}
		})
	}
}
