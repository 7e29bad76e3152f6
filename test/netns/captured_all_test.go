// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// untimedFrames returns the frames without a transmit time that have left through ktsnd.
func (c *captured) untimedFrames(t *testing.T) uint64 {
	t.Helper()
	return counters(t, c.client).Untimed
}

// streamTo sends a stream from one pod to another and compares it.
func streamTo(t *testing.T, from, to *topology.Namespace, at netip.AddrPort, length int) {
	t.Helper()
	server := within(t, to, func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(context.Background(), "tcp", at.String())
	})
	defer server.Close()
	received := make(chan [sha256.Size]byte, 1)
	go func() {
		defer close(received)
		connection, err := server.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		sum := sha256.New()
		_, _ = io.Copy(sum, connection)
		received <- [sha256.Size]byte(sum.Sum(nil))
	}()
	connection := within(t, from, func() (net.Conn, error) { return (&net.Dialer{Timeout: patience}).Dial("tcp", at.String()) })
	content := make([]byte, length)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	_, err := connection.Write(content)
	must(t, errors.Join(err, connection.Close()))
	select {
	case sum := <-received:
		if sum != sha256.Sum256(content) {
			t.Error("the stream arrived changed")
		}
	case <-time.After(patience):
		t.Error("the stream did not arrive")
	}
}

// checkEchoes checks that all echo requests are answered.
func checkEchoes(t *testing.T, from *topology.Namespace, to netip.Addr, options ...string) {
	t.Helper()
	if err := pingFive(t, from, to, options...); err != nil {
		t.Error(err)
	}
}

// awaitEchoes waits until five echo requests in a row are answered: a relay that is short of processor time loses frames.
func awaitEchoes(t *testing.T, from *topology.Namespace, to netip.Addr) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error { return pingFive(t, from, to, "-W", "1") })
}

func pingFive(t *testing.T, from *topology.Namespace, to netip.Addr, options ...string) error {
	t.Helper()
	command := exec.Command("ping", append([]string{"-n", "-c", "5", "-i", "0.05", "-W", "5", to.String()}, options...)...)
	var output strings.Builder
	command.Stdout = &output
	if err := finish(t, start(t, from, "ping", command)); err != nil || !strings.Contains(output.String(), " 0% packet loss") {
		return fmt.Errorf("%v: %s", err, output.String())
	}
	return nil
}

// TestAllTrafficGoesThroughKtsnd checks that all traffic of a pod arrives through ktsnd.
func TestAllTrafficGoesThroughKtsnd(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.All)
	v6 := netip.AddrPortFrom(podAddress6B, listenPort)
	for _, test := range []struct {
		name string
		// least is the minimum number of frames without a time.
		least uint64
		send  func(*testing.T)
	}{
		// First, while no hardware address is resolved.
		{"echoes, and who asks for addresses", 6, func(t *testing.T) { checkEchoes(t, c.PodA, topology.PodAddressB) }},
		{"echoes over IPv6", 6, func(t *testing.T) { checkEchoes(t, c.PodA, podAddress6B) }},
		{"answers", 5, func(t *testing.T) { checkEchoes(t, c.PodB, topology.PodAddressA) }},
		{"fragments", 15, func(t *testing.T) { checkEchoes(t, c.PodA, topology.PodAddressB, "-s", "4000") }},
		{"a stream whose segments the kernel makes", 20_000_000 / 1450, func(t *testing.T) { streamTo(t, c.PodA, c.PodB, atPodB, 20_000_000) }},
		{"a stream over IPv6", 2_000_000 / 1450, func(t *testing.T) { streamTo(t, c.PodA, c.PodB, v6, 2_000_000) }},
		{"the other end of a stream", 10, func(t *testing.T) {
			streamTo(t, c.PodB, c.PodA, netip.AddrPortFrom(topology.PodAddressA, listenPort), 2_000_000)
		}},
		{"datagrams of one call", 5, c.sendSegments},
		{"a group", 1, c.sendToGroup},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := c.untimedFrames(t)
			test.send(t)
			if got := c.untimedFrames(t) - before; got < test.least {
				t.Errorf("%d frames without a time left, want %d at least", got, test.least)
			}
		})
	}
}

// sendSegments sends five datagrams with one call (UDP_SEGMENT), with checksum offload.
func (c *captured) sendSegments(t *testing.T) {
	t.Helper()
	listener := listen(t, c.PodB, "udp4", atPodB)
	fd := ownSocket(t, c.PodA, unix.AF_INET, unix.SOCK_DGRAM)
	must(t, errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 200),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: topology.PodAddressB.As4(), Port: listenPort})))
	if _, err := unix.SendmsgN(fd, []byte(strings.Repeat("x", 1000)), nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if text, _ := receive(t, listener); text != strings.Repeat("x", 200) {
			t.Errorf("arrived %q", text)
		}
	}
}

func (c *captured) sendToGroup(t *testing.T) {
	t.Helper()
	group := netip.MustParseAddrPort("239.1.2.3:7788")
	member := join(t, c.PodB, "udp4", group)
	sender := within(t, c.PodA, func() (*net.UDPConn, error) {
		return net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(topology.PodAddressA, 0)), net.UDPAddrFromAddrPort(group))
	})
	defer sender.Close()
	if _, err := sender.Write([]byte("to all")); err != nil {
		t.Fatal(err)
	}
	if text, from := receive(t, member); text != "to all" || from.Addr() != topology.PodAddressA {
		t.Errorf("arrived %q from %s", text, from)
	}
}

// TestTimedFramesWithOtherTrafficLeaveOnTime sends frames with and without a time from one pod: the timed ones leave on
// time.
func TestTimedFramesWithOtherTrafficLeaveOnTime(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.All)
	const count = 200
	tap := c.openTap(t, 50_000)
	f := listenFor(t, c.PodB, atPodB, count)
	f.talker = start(t, c.PodA, "talker", goTalker(t, f.talkerFile, atPodB, "--count", "200", "--cycle", "2ms", "--lead", "100ms"))
	streamTo(t, c.PodA, c.PodB, netip.AddrPortFrom(topology.PodAddressB, listenPort+1), 5_000_000)
	f.finish(t)
	seen := &observed{sent: f.sent}
	seen.addPackets(t, tap)
	checkNotEarly(t, seen, count)
}

// setSchedule makes ktsnd execute a schedule that closes the gate of priority 0 at times, and waits until the port of
// pod a uses it.
func (c *captured) setSchedule(t *testing.T, table *control.GateParameterTable) {
	t.Helper()
	must(t, c.client.ScheduleSet(t.Context(), table))
	waitForSchedule(t, c.client)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if c.port(t, identity).GatedPriorities&1 == 0 {
			return errors.New("the port does not know of the gate")
		}
		return nil
	})
}

// TestUntimedTrafficLeavesInClassWindows checks that all traffic of a captured pod obeys the gates, even while its
// relay gets no CPU.
func TestUntimedTrafficLeavesInClassWindows(t *testing.T) {
	timing(t)
	c := newCaptured(t, capture.All, "--link-speed", "1Gbit")
	// Otherwise the first messages wait in the pod until ARP has an answer, and a later one may pass them there.
	awaitEchoes(t, c.PodA, topology.PodAddressB)
	c.setSchedule(t, threeWindows())
	before, passed := counters(t, c.client), c.countFrames(t).passed
	tap := c.openTap(t, 20_000)
	const count = 600
	c.sendMarks(t, count, func(i int) {
		// The relay gets no CPU for longer than a heartbeat is valid.
		switch i {
		case 200:
			c.signalRelays(t, syscall.SIGSTOP)
		case 300:
			c.signalRelays(t, syscall.SIGCONT)
		}
		time.Sleep(time.Millisecond)
	})
	seen := awaitMarks(t, tap, count)
	if len(seen) != count {
		t.Errorf("%d of %d on the wire", len(seen), count)
	}
	for _, message := range seen {
		if at := message.wireTAI % (3 * window.Nanoseconds()) / window.Nanoseconds(); at != 2 {
			t.Errorf("message %d was on the wire in window %d", message.number, at)
		}
	}
	if more := c.countFrames(t).passed - passed; more != 0 {
		t.Errorf("the bridge forwarded %d", more)
	}
	for i, message := range seen {
		if int(message.number) != i {
			t.Fatalf("message %d is in place %d of %v", message.number, i, numbersOf(seen))
		}
	}
	if after := counters(t, c.client); after.Late() != before.Late() || after.Untimed-before.Untimed < count {
		t.Errorf("counted %+v, before %+v", after, before)
	}
}

// sendMarks sends marked datagrams without a time from pod a to pod b and calls between, if given, after each.
func (c *captured) sendMarks(t *testing.T, count int, between func(i int)) {
	t.Helper()
	fd := ownSocket(t, c.PodA, unix.AF_INET, unix.SOCK_DGRAM)
	for i := range count {
		must(t, unix.Sendto(fd, markedPayload(i, 0, 64), 0, &unix.SockaddrInet4{Addr: topology.PodAddressB.As4(), Port: listenPort}))
		if between != nil {
			between(i)
		}
	}
}

func numbersOf(all []markedPacket) (numbers []uint32) {
	for _, message := range all {
		numbers = append(numbers, message.number)
	}
	return numbers
}

func (c *captured) signalRelays(t *testing.T, signal syscall.Signal) {
	t.Helper()
	for _, pid := range c.relayPIDs(t) {
		must(t, syscall.Kill(pid, signal))
	}
}

// TestClosedGatePassesNothingWithoutKtsnd checks that without ktsnd no frame passes a gate that its schedule closes at
// times.
func TestClosedGatePassesNothingWithoutKtsnd(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.All)
	c.setSchedule(t, threeWindows())
	awaitEchoes(t, c.PodA, topology.PodAddressB)
	time.Sleep(2 * heartbeat)
	kill(t, c.daemon)
	time.Sleep(2 * heartbeat)
	const count = 20
	tap, before := c.openTap(t, 1000), c.countFrames(t)
	untimed := c.port(t, identity).Untimed
	c.sendMarks(t, count, nil)
	if more := c.port(t, identity).Untimed - untimed; more < count {
		t.Errorf("%d of %d reached the relay", more, count)
	}
	relays, gated := c.relayPIDs(t), c.port(t, identity).Gated
	kill(t, c.relays)
	awaitExit(t, relays)
	c.sendMarks(t, count, nil)
	if more := c.port(t, identity).Gated - gated; more < count {
		t.Errorf("without a relay %d of %d were dropped", more, count)
	}
	if seen := awaitMarks(t, tap, 0); len(seen) > 0 || c.countFrames(t).passed != before.passed {
		t.Errorf("%d were on the wire, and the bridge forwarded %d", len(seen), c.countFrames(t).passed-before.passed)
	}
}

// TestClosedGatePassesNothingWithoutRelay checks that a pod without a relay passes no such gate either.
func TestClosedGatePassesNothingWithoutRelay(t *testing.T) {
	content(t)
	c := newCapturedWithoutRelay(t, capture.All, "--link-speed", "1Gbit")
	must(t, c.client.ScheduleSet(t.Context(), threeWindows()))
	must(t, c.NodeA.Do(func() error { _, err := attachment.Guard(c.wiring.A.StateDir()); return err }))
	const count = 20
	tap, before := c.openTap(t, 1000), c.port(t, identity)
	c.sendMarks(t, count, nil)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if c.port(t, identity).Gated == before.Gated {
			return errors.New("the port counts nothing that a gate stopped")
		}
		return nil
	})
	if port := c.port(t, identity); port.Passed != before.Passed {
		t.Errorf("the port counted %+v, before %+v", port, before)
	}
	if seen := awaitMarks(t, tap, 0); len(seen) > 0 {
		t.Errorf("%d were on the wire", len(seen))
	}
}

// TestTrafficFallsBackToKernelPathAndReturns checks that without ktsnd the kernel forwards untimed frames and timed
// ones wait.
func TestTrafficFallsBackToKernelPathAndReturns(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.All)
	awaitEchoes(t, c.PodA, topology.PodAddressB)
	kill(t, c.daemon)
	time.Sleep(2 * heartbeat)
	passed := c.countFrames(t).passed
	awaitEchoes(t, c.PodA, topology.PodAddressB)
	streamTo(t, c.PodA, c.PodB, atPodB, 1_000_000)
	if c.countFrames(t).passed == passed {
		t.Error("nothing counts as passed to the kernel's path")
	}
	c.restoreDaemon(t)
	c.awaitRelay(t, identity)
	testlab.Eventually(t, patience, 0, func() error {
		before := c.untimedFrames(t)
		checkEchoes(t, c.PodA, topology.PodAddressB)
		if c.untimedFrames(t)-before >= 5 {
			return nil
		}
		return errors.New("traffic does not return to ktsnd")
	})
}

// heartbeat is KTSN_CAPTURE_HEARTBEAT_NS.
const heartbeat = 50 * time.Millisecond

// shutAtFirst closes the gate of class 0 shortly after now, for longer than the test runs.
func shutAtFirst() *control.GateParameterTable {
	const (
		interval = 4 * time.Second // of at most 2^32 ns
		shut     = int(3*patience/interval) + 1
	)
	base := testlab.ClockNow(unix.CLOCK_TAI)/time.Second.Nanoseconds() + 3
	table := threeWindows()
	table.AdminCycleTime = control.CycleTime{Numerator: uint32((shut + 1) * int(interval/time.Second)), Denominator: 1}
	table.AdminBaseTime = control.PTPTime{Seconds: uint64(base)}
	entry := table.AdminControlList.Entries[0]
	entry.TimeIntervalValue, entry.GateStatesValue = uint32(interval.Nanoseconds()), 0x40
	entries := slices.Repeat([]control.GateControlEntry{entry}, shut+1)
	for i := range entries {
		entries[i].Index = uint32(i)
	}
	entries[shut].GateStatesValue = 0xff
	table.AdminControlList.Entries = entries
	return table
}

// TestUntimedFramesThatWaitTooLongAreDropped checks that frames that waited for a gate of a killed ktsnd are too old
// for its successor.
func TestUntimedFramesThatWaitTooLongAreDropped(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.All)
	awaitEchoes(t, c.PodA, topology.PodAddressB)
	c.setSchedule(t, shutAtFirst())
	const count = 50
	tap := c.openTap(t, 1000)
	c.sendMarks(t, count, nil)
	awaitStatus(t, c.client, "they wait", func(status *control.Status) bool { return status.Pending >= count })
	kill(t, c.daemon)
	time.Sleep(200 * time.Millisecond)
	c.restoreDaemon(t)
	awaitCounters(t, c.client, "they are dropped", func(counted control.Counters) bool { return counted.DropStale >= count })
	if seen := awaitMarks(t, tap, 0); len(seen) > 0 {
		t.Errorf("on the wire are %d of them", len(seen))
	}
	awaitEchoes(t, c.PodA, topology.PodAddressB)
}

// TestCapturedTrafficPassesConnectionTracking drops packets that connection tracking calls invalid, as kube-proxy does. The bridge sees
// only one direction of captured traffic.
func TestCapturedTrafficPassesConnectionTracking(t *testing.T) {
	content(t)
	c := newCaptured(t, capture.All)
	const rules = "table ip kube-proxy { chain forward { type filter hook forward priority 0; ct state invalid counter drop; }; }"
	for _, node := range []*topology.Namespace{c.NodeA, c.NodeB} {
		within(t, node, func() (struct{}, error) {
			return struct{}{}, os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0)
		})
		must(t, finish(t, start(t, node, "nft", exec.Command("nft", rules))))
	}
	awaitEchoes(t, c.PodA, topology.PodAddressB)
	awaitEchoes(t, c.PodB, topology.PodAddressA)
	streamTo(t, c.PodA, c.PodB, atPodB, 2_000_000)
	streamTo(t, c.PodB, c.PodA, netip.AddrPortFrom(topology.PodAddressA, listenPort), 2_000_000)
}
