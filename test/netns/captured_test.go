// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// captured is a lab with pod a attached as in a cluster and its frames captured: ktsnd and the supervisor of relays run
// on node a. Pod b uses the kernel.
type captured struct {
	*lab
	wiring *cniruntime.Wiring
	daemon *process.Process
	client *control.Client
	// relays is the supervisor, nil if none runs. relayProgram and vhostProgram are its relays.
	relays                     *process.Process
	relayProgram, vhostProgram string
}

// newCaptured returns when the relay of pod a serves.
func newCaptured(t *testing.T, mode capture.Mode, options ...string) *captured {
	t.Helper()
	c := newCapturedWithoutRelay(t, mode, options...)
	c.startRelays(t)
	c.awaitRelay(t, identity)
	return c
}

func newCapturedWithoutRelay(t *testing.T, mode capture.Mode, options ...string) *captured {
	t.Helper()
	for _, name := range []string{"ktsn-relay", "ktsn"} {
		program(t, name)
	}
	bare, wiring := newUnattached(t)
	wiring.A.Capture(mode)
	wiring.A.Also(netip.PrefixFrom(podAddress6A, podPrefixBits6), podSubnet6B)
	wiring.B.Also(netip.PrefixFrom(podAddress6B, podPrefixBits6), podSubnet6A)
	c := &captured{lab: bare, wiring: wiring}
	c.socket = wiring.A.Socket()
	c.startBareDaemon(t, options...)
	must(t, wiring.B.Attach(t.Context(), nil, ""))
	c.attachSide(t, wiring.A)
	return c
}

// startBareDaemon starts a ktsnd without endpoints and peers.
func (c *captured) startBareDaemon(t *testing.T, options ...string) {
	t.Helper()
	c.daemon, c.client = c.startUnattached(t, options...)
}

// attachSide attaches a pod of node a until the end of the test.
func (c *captured) attachSide(t *testing.T, side *cniruntime.Side) {
	t.Helper()
	if err := side.Attach(t.Context(), c.client, c.control); err != nil {
		t.Fatalf("%v\nktsnd's log: %s", err, c.daemon.Stderr())
	}
}

// startRelays starts the supervisor of relays of node a.
func (c *captured) startRelays(t *testing.T) {
	t.Helper()
	if c.relayProgram == "" {
		c.relayProgram = publicCopy(t, "ktsn-relay") // a user without privileges runs it
	}
	if c.vhostProgram == "" {
		c.vhostProgram = publicCopy(t, "ktsn-relay-vhost")
	}
	c.relays = start(t, c.NodeA, "ktsn node relay", c.ktsn(t, "relay", "--relay-binary", c.relayProgram, "--vhost-relay-binary", c.vhostProgram))
}

// ktsn returns a command of `ktsn node` for node a.
func (c *captured) ktsn(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(program(t, "ktsn"), append(append([]string{"node"}, arguments...), "--state-dir", c.wiring.A.StateDir())...)
}

// restoreDaemon starts a ktsnd after the previous one ended, and restores its pods and peers.
func (c *captured) restoreDaemon(t *testing.T, options ...string) {
	t.Helper()
	c.startBareDaemon(t, options...)
	command := c.ktsn(t, "restore", "--control", c.control)
	var output []byte
	err := c.NodeA.Do(func() (err error) { output, err = command.CombinedOutput(); return err }) // it creates the node's filter
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

// awaitRelay waits until ktsnd serves the relay of a pod and, if everything is captured, its heartbeat is recent:
// before that the bridge forwards frames without a time.
func (c *captured) awaitRelay(t *testing.T, pod string) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if port := c.port(t, pod); c.hasRelay(t, pod) && (port.Mode != capture.All || port.Answers()) {
			return nil
		}
		return fmt.Errorf("ktsnd serves no relay of %s; the supervisor's log: %s\nktsnd's log: %s", pod, c.relays.Stderr(), c.daemon.Stderr())
	})
}

// hasRelay reports whether a relay of the pod is connected to ktsnd.
func (c *captured) hasRelay(t *testing.T, pod string) bool {
	t.Helper()
	pods, err := c.client.Pods(t.Context())
	must(t, err)
	for i := range pods {
		if pods[i].Identity == pod && pods[i].RelayConnections > 0 {
			return true
		}
	}
	return false
}

// mark is the content of a test program's message: datapath/tests/programs/captured.
type mark struct {
	number uint32
	// txtime is on the sender's clock.
	txtime int64
}

// markBytes is the size of the mark, the number and the transmit time.
const markBytes = 16

func markOf(bytesOfFrame []byte) (mark, bool) {
	at := bytes.Index(bytesOfFrame, []byte("KTSN"))
	if at < 0 || len(bytesOfFrame) < at+markBytes {
		return mark{}, false
	}
	text := bytesOfFrame[at:]
	return mark{binary.BigEndian.Uint32(text[4:]), int64(binary.BigEndian.Uint64(text[8:]))}, true
}

// markedPayload returns a payload that markOf parses.
func markedPayload(number int, at int64, payloadBytes int) []byte {
	payload := make([]byte, max(payloadBytes, markBytes))
	copy(payload, "KTSN")
	binary.BigEndian.PutUint32(payload[4:], uint32(number))
	binary.BigEndian.PutUint64(payload[8:], uint64(at))
	return payload
}

// markedPacket is a message captured on the link.
type markedPacket struct {
	mark
	wireTAI int64
	frame   wiretap.Packet
}

// awaitMarks waits until count marked messages were on the wire, and a little longer, and returns them in order.
func awaitMarks(t *testing.T, tap *wiretap.Tap, count int) []markedPacket {
	t.Helper()
	awaitWire(t, tap, count, func(packet wiretap.Packet) bool {
		_, ok := markOf(packet.Head)
		return ok
	})
	time.Sleep(20 * time.Millisecond) // for unexpected ones
	var all []markedPacket
	for _, packet := range stopTap(t, tap) {
		if mark, ok := markOf(packet.Head); ok {
			all = append(all, markedPacket{mark, packet.TAI, packet})
		}
	}
	return all
}

// offsetTo returns CLOCK_TAI minus another clock, rounded down.
func offsetTo(clock int32) int64 {
	offset := int64(math.MinInt64)
	for range 1000 {
		before := testlab.ClockNow(unix.CLOCK_TAI)
		offset = max(offset, before-testlab.ClockNow(clock))
	}
	return offset
}

// checkInOrder checks that the messages from 0 on were on the wire once each, in order and not early.
func checkInOrder(t *testing.T, seen []markedPacket, count int, clock int32) {
	t.Helper()
	if len(seen) != count {
		t.Errorf("%d messages on the wire, want %d", len(seen), count)
	}
	offset := offsetTo(clock)
	for i, message := range seen {
		if int(message.number) != i {
			t.Fatalf("message %d is in place %d", message.number, i)
		}
		if early := message.txtime + offset - message.wireTAI; early > 0 {
			t.Errorf("message %d was %d ns early", i, early)
		}
	}
}

// ownSocket opens a socket in a pod from this process, which has no preloaded library.
func ownSocket(t *testing.T, pod *topology.Namespace, family, kind int) int {
	t.Helper()
	fd := within(t, pod, func() (int, error) { return unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0) })
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// relayPIDs returns the relays that the supervisor has started.
func (c *captured) relayPIDs(t *testing.T) []int {
	t.Helper()
	all, err := process.Children(c.relays.PID())
	must(t, err)
	return slices.DeleteFunc(all, hasEnded)
}

// killRelays kills all relays and waits for their end.
func (c *captured) killRelays(t *testing.T) {
	t.Helper()
	relays := c.relayPIDs(t)
	for _, pid := range relays {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	awaitExit(t, relays)
}

// hasEnded reports whether a process does not exist any more, or is a zombie.
func hasEnded(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// awaitExit waits until processes have ended.
func awaitExit(t *testing.T, pids []int) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		if left := slices.DeleteFunc(slices.Clone(pids), hasEnded); len(left) > 0 {
			return fmt.Errorf("processes %d continue", left)
		}
		return nil
	})
}

// frameCounts are the counters of pod a's kernel programs and relays.
type frameCounts struct {
	// captured counts frames with a record, passed those on the kernel's path in mode All.
	captured, passed uint64
	// refused counts frames dropped by a program of the kernel, the full device of a relay, or a relay.
	refused uint64
}

// countFrames reads the counters.
func (c *captured) countFrames(t *testing.T) frameCounts {
	t.Helper()
	pod, err := capture.ReadIn(c.PodA.Path(), topology.PodInterface)
	must(t, err)
	port := c.port(t, identity)
	counts := frameCounts{captured: pod.Captured, passed: port.Passed,
		refused: pod.RefusedSum() + port.NoRelay + port.Segments + relayDrops(t, c.relays)}
	for _, device := range c.relayDevices(t) {
		counts.refused += device.Attrs().Statistics.TxDropped
	}
	return counts
}

// relayDevices returns the devices of node a in which frames wait for relays.
func (c *captured) relayDevices(t *testing.T) []netlink.Link {
	t.Helper()
	var devices []netlink.Link
	must(t, c.NodeA.Do(func() error {
		all, err := netdev.Dump(netlink.LinkList)
		for _, link := range all {
			if _, ok := link.(*netlink.Tuntap); ok {
				devices = append(devices, link)
			}
		}
		return err
	}))
	return devices
}

// port returns the counters of the program at the port of a pod of node a.
func (c *captured) port(t *testing.T, pod string) capture.PortCount {
	t.Helper()
	name := c.portName(t, pod)
	return within(t, c.NodeA, func() (capture.PortCount, error) { return capture.ReadPort(name) })
}

// portName returns the name of a pod's port on node a.
func (c *captured) portName(t *testing.T, pod string) string {
	t.Helper()
	all, err := attachment.Relayed(c.wiring.A.StateDir())
	must(t, err)
	for i := range all {
		if all[i].ContainerID == pod {
			return all[i].PortName()
		}
	}
	t.Fatalf("pod %s is not captured: %+v", pod, all)
	return ""
}

// relayDrops returns the frames that relays have dropped, or lost when they were killed.
func relayDrops(t *testing.T, supervisor *process.Process) uint64 {
	t.Helper()
	sum := uint64(0)
	for _, counted := range relayCounters(t, supervisor) {
		sum += counted.drops()
	}
	return sum
}

// relayCounters returns the counters that a supervisor keeps for its relays: datapath/relay/counters.h.
func relayCounters(t *testing.T, supervisor *process.Process) (all []relayed) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", supervisor.PID()))
	must(t, err)
	for _, file := range files {
		if to, err := os.Readlink(file); err != nil || !strings.Contains(to, "ktsn-relay-counters") {
			continue
		}
		text, err := os.ReadFile(file)
		var counted relayed
		if err == nil {
			err = binary.Read(bytes.NewReader(text), binary.NativeEndian, &counted)
		}
		if err != nil {
			t.Fatalf("read the counters of a relay: %d bytes, %v", len(text), err)
		}
		all = append(all, counted)
	}
	return all
}
