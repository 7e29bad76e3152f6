// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// The pods' IPv6 addresses, of one link, with a subnet for each node.
var (
	podAddress6A = netip.MustParseAddr("fd00:42:1::2")
	podAddress6B = netip.MustParseAddr("fd00:42:2::2")
	podSubnet6A  = netip.MustParsePrefix("fd00:42:1::/64")
	podSubnet6B  = netip.MustParsePrefix("fd00:42:2::/64")
)

// podPrefixBits6 is a prefix length that spans both nodes' pods.
const podPrefixBits6 = 32

// addIPv6 adds an address that is usable at once to a pod's interface.
func addIPv6(t *testing.T, pod *topology.Namespace, address netip.Addr) {
	t.Helper()
	must(t, pod.Do(func() error {
		// In this order: the link-local address is created when IPv6 is enabled.
		for _, setting := range [][2]string{{"accept_dad", "0"}, {"disable_ipv6", "1"}, {"disable_ipv6", "0"}} {
			path := "/proc/sys/net/ipv6/conf/" + topology.PodInterface + "/" + setting[0]
			if err := os.WriteFile(path, []byte(setting[1]), 0); err != nil {
				return err
			}
		}
		return nil
	}))
	ip(t, pod, "address", "add", address.String()+"/"+strconv.Itoa(podPrefixBits6), "dev", topology.PodInterface, "nodad")
}

// newLab6 returns a lab with pods of both families and a running ktsnd that knows both.
func newLab6(t *testing.T, options ...string) (*lab, *control.Client) {
	t.Helper()
	lab := newLab(t)
	return lab, lab.startDaemon6(t, options...)
}

// startDaemon6 adds IPv6 to the pods of a lab and starts its ktsnd.
func (l *lab) startDaemon6(t *testing.T, options ...string) *control.Client {
	t.Helper()
	addIPv6(t, l.PodA, podAddress6A)
	addIPv6(t, l.PodB, podAddress6B)
	_, client := l.startDaemon(t, options...)
	l.addPeer6(t, client)
	return client
}

func (l *lab) addPeer6(t *testing.T, client *control.Client) {
	t.Helper()
	must(t, client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressB,
		Subnets: []netip.Prefix{topology.PodSubnetB, podSubnet6B}}))
}

// connectedTo returns the options with which ktsn-test-send sends from a connected socket. Messages follow, whose offsets may
// be negative.
func connectedTo(address netip.AddrPort) []string {
	return []string{"--connect", "--to", address.Addr().String(), "--port", strconv.Itoa(int(address.Port())), "--"}
}

// sendResult is the result of a send call of ktsn-test-send.
type sendResult struct{ result, errno int }

// sendTo sends from pod a with ktsn-test-send and returns its results.
func (l *lab) sendTo(t *testing.T, arguments ...string) []sendResult {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-send"), arguments...)
	command.Env = l.preloaded(t)
	return l.sendBy(t, command)
}

// sendBy returns the results of ktsn-test-send.
func (l *lab) sendBy(t *testing.T, command *exec.Cmd) []sendResult {
	t.Helper()
	var output bytes.Buffer
	command.Stdout = &output
	must(t, finish(t, start(t, l.PodA, "ktsn-test-send", command)))
	var all []sendResult
	for lines := bufio.NewScanner(&output); lines.Scan(); {
		var (
			txtime string
			result sendResult
		)
		if _, err := fmt.Sscan(lines.Text(), &txtime, &result.result, &result.errno); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		all = append(all, result)
	}
	return all
}

// checkErrno checks the error of sending one message.
func (l *lab) checkErrno(t *testing.T, want unix.Errno, arguments ...string) {
	t.Helper()
	if sent := l.sendTo(t, append(arguments, "--port", "7788", "0:text")...); len(sent) != 1 || unix.Errno(sent[0].errno) != want {
		t.Errorf("the calls answered %v, want %v", sent, want)
	}
}

// listen opens a UDP socket in a pod.
func listen(t *testing.T, pod *topology.Namespace, network string, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	bind := func() (err error) {
		conn, err = net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
		return err
	}
	// A parallel test may have just forked: its child holds the descriptors closed here until it executes its program.
	err := pod.Do(bind)
	for deadline := time.Now().Add(patience); errors.Is(err, unix.EADDRINUSE) && time.Now().Before(deadline); err = pod.Do(bind) {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// receive waits for one datagram.
func receive(t *testing.T, conn *net.UDPConn) (string, netip.AddrPort) {
	t.Helper()
	buffer := make([]byte, 2000)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	length, source, err := conn.ReadFromUDPAddrPort(buffer)
	must(t, err)
	return string(buffer[:length]), source
}

// silent checks that nothing else arrives.
func silent(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	buffer := make([]byte, 2000)
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if length, source, err := conn.ReadFromUDPAddrPort(buffer); err == nil {
		t.Errorf("%q arrived from %s", buffer[:length], source)
	}
}

// tunnelledFrames returns the tunnelled frames to node b that contain the text.
func (l *lab) tunnelledFrames(t *testing.T, text string, count int, send func()) []gopacket.Packet {
	t.Helper()
	const outerBytes = 14 + 20 + 8 + 8
	tap := l.openTap(t, 500)
	holds := func(frame wiretap.Packet) bool {
		return len(frame.Head) > outerBytes && bytes.Contains(frame.Head[outerBytes:], []byte(text))
	}
	send()
	awaitWire(t, tap, count, holds)
	time.Sleep(20 * time.Millisecond) // for unexpected ones
	var frames []gopacket.Packet
	for _, packet := range stopTap(t, tap) {
		if holds(packet) {
			frames = append(frames, gopacket.NewPacket(packet.Head[outerBytes:], layers.LayerTypeEthernet, gopacket.Default))
		}
	}
	if len(frames) != count {
		t.Fatalf("%d frames with %q on the wire, want %d", len(frames), text, count)
	}
	return frames
}

func TestDatagramsOfBothFamiliesArriveOnTime(t *testing.T) {
	timing(t)
	lab, client := newLab6(t)
	v4, v6 := netip.AddrPortFrom(topology.PodAddressB, listenPort), netip.AddrPortFrom(podAddress6B, listenPort)
	for name, test := range map[string]struct {
		arguments []string
		network   string
		at        netip.AddrPort
		source    netip.Addr
	}{
		"IPv6":                                 {[]string{"--to", podAddress6B.String()}, "udp6", v6, podAddress6A},
		"IPv6, connected":                      {[]string{"--to", podAddress6B.String(), "--connect"}, "udp6", v6, podAddress6A},
		"IPv6, bound":                          {[]string{"--to", podAddress6B.String(), "--bind", podAddress6A.String()}, "udp6", v6, podAddress6A},
		"IPv6, known before SO_TXTIME":         {[]string{"--to", podAddress6B.String(), "--connect", "--before"}, "udp6", v6, podAddress6A},
		"IPv4 from an IPv6 socket":             {[]string{"--to", topology.PodAddressB.String(), "--domain", "6"}, "udp4", v4, topology.PodAddressA},
		"IPv4 from a connected IPv6 socket":    {[]string{"--to", topology.PodAddressB.String(), "--domain", "6", "--connect"}, "udp4", v4, topology.PodAddressA},
		"IPv4 from an IPv6 socket so bound":    {[]string{"--to", topology.PodAddressB.String(), "--domain", "6", "--bind", topology.PodAddressA.String()}, "udp4", v4, topology.PodAddressA},
		"IPv4 to a listener of both":           {[]string{"--to", topology.PodAddressB.String()}, "udp", netip.AddrPortFrom(netip.IPv6Unspecified(), listenPort), topology.PodAddressA},
		"IPv6 to a listener of both":           {[]string{"--to", podAddress6B.String()}, "udp", netip.AddrPortFrom(netip.IPv6Unspecified(), listenPort), podAddress6A},
		"IPv6 from a socket that is IPv6 only": {[]string{"--to", podAddress6B.String(), "--v6only", "1"}, "udp6", v6, podAddress6A},
	} {
		t.Run(name, func(t *testing.T) {
			conn := listen(t, lab.PodB, test.network, test.at)
			before := counters(t, client)
			began := time.Now()
			sent := lab.sendTo(t, append(test.arguments, "--port", "7788", "600000:second", "300000:first")...)
			for _, want := range []string{"first", "second"} {
				got, source := receive(t, conn)
				if got != want || source.Addr().Unmap() != test.source {
					t.Errorf("got %q from %s, want %q from %s; the calls answered %v", got, source, want, test.source, sent)
				}
			}
			if took := time.Since(began); took < 600*time.Millisecond {
				t.Errorf("the last arrived after %v", took)
			}
			if after := awaitSettled(t, client); after.Sent-before.Sent != 2 || after.KernelPath != before.KernelPath {
				t.Errorf("counted %+v, before %+v", after, before)
			}
			conn.Close()
		})
	}
}

func TestManyMessagesOverIPv6ArriveUnchanged(t *testing.T) {
	content(t)
	lab, _ := newLab6(t)
	for name, payloadBytes := range map[string]int{
		"64 bytes":                        64,
		"an odd number of bytes":          65,
		"the largest that fits the frame": 1450 - 40 - 8,
	} {
		t.Run(name, func(t *testing.T) {
			const count = 50
			at := netip.AddrPortFrom(podAddress6B, listenPort)
			f := listenFor(t, lab.PodB, at, count)
			f.talker = lab.startTalker(t, f.talkerFile, "--to", at.String(), "--count", strconv.Itoa(count), "--size", strconv.Itoa(payloadBytes))
			f.finish(t)
			for _, message := range f.received {
				if !message.Valid || message.Source.Addr() != podAddress6A || int(message.PayloadBytes) != payloadBytes {
					t.Errorf("message %d: %+v", message.Sequence, message)
				}
			}
			if len(f.received) != count {
				t.Errorf("%d of %d messages arrived", len(f.received), count)
			}
		})
	}
	t.Run("one byte more is rejected", func(t *testing.T) {
		const emsgsize = 90
		if sent := lab.sendTo(t, "--to", podAddress6B.String(), "--port", "7788", "10000:@1403", "10000:@1402"); len(sent) != 2 ||
			sent[0].errno != emsgsize || sent[1].result != 1402 {
			t.Errorf("the calls answered %v", sent)
		}
	})
}

func TestIPv6FrameHeaders(t *testing.T) {
	content(t)
	lab, _ := newLab6(t)
	conn := listen(t, lab.PodB, "udp6", netip.AddrPortFrom(podAddress6B, listenPort))
	frame := lab.tunnelledFrames(t, "looked at", 1, func() {
		lab.sendTo(t, "--to", podAddress6B.String(), "--port", "7788", "20000:looked at")
		receive(t, conn)
	})[0]
	header, ok := frame.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	if !ok {
		t.Fatalf("no IPv6 in %v", frame)
	}
	if header.HopLimit != 64 || header.TrafficClass != 0 || header.FlowLabel == 0 ||
		header.SrcIP.String() != podAddress6A.String() || header.DstIP.String() != podAddress6B.String() {
		t.Errorf("the header is %+v", header)
	}
	ether := frame.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	if ether.SrcMAC.String() != interfaceMAC(t, lab.PodA).String() || ether.DstMAC.String() != interfaceMAC(t, lab.PodB).String() {
		t.Errorf("from %s to %s", ether.SrcMAC, ether.DstMAC)
	}
}

// linkLocal returns the link-local address of a pod's interface.
func linkLocal(t *testing.T, pod *topology.Namespace) netip.Addr {
	t.Helper()
	output, err := exec.Command("ip", "-n", pod.Name(), "-6", "-brief", "address", "show", "dev", topology.PodInterface,
		"scope", "link").Output()
	must(t, err)
	for _, field := range strings.Fields(string(output)) {
		if prefix, err := netip.ParsePrefix(field); err == nil {
			return prefix.Addr()
		}
	}
	t.Fatalf("no link-local address in %q", output)
	return netip.Addr{}
}

func TestLinkLocalAddressesByInterface(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	there, here := linkLocal(t, lab.PodB), linkLocal(t, lab.PodA)
	conn := listen(t, lab.PodB, "udp6", netip.AddrPortFrom(netip.IPv6Unspecified(), listenPort))
	for name, arguments := range map[string][]string{
		"by its scope":         {"--scope", topology.PodInterface},
		"connected":            {"--scope", topology.PodInterface, "--connect"},
		"by the bound device":  {"--device", topology.PodInterface},
		"by a control message": {"--cmsg-interface", topology.PodInterface},
	} {
		t.Run(name, func(t *testing.T) {
			before := counters(t, client)
			sent := lab.sendTo(t, append(arguments, "--to", there.String(), "--port", "7788", "20000:near")...)
			got, source := receive(t, conn)
			if got != "near" || source.Addr().WithZone("") != here {
				t.Errorf("got %q from %s, want it from %s; the calls answered %v", got, source, here, sent)
			}
			if after := awaitSettled(t, client); after.Sent-before.Sent != 1 {
				t.Errorf("counted %+v", after)
			}
			silent(t, conn)
		})
	}
}

func TestIPv6NeighborsAreResolvedAgain(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	conn := listen(t, lab.PodB, "udp6", netip.AddrPortFrom(podAddress6B, listenPort))
	for range 2 {
		lab.sendTo(t, "--to", podAddress6B.String(), "--port", "7788", "0:as soon as known")
		if got, _ := receive(t, conn); got != "as soon as known" {
			t.Errorf("got %q", got)
		}
		for _, namespace := range []*topology.Namespace{lab.PodA, lab.PodB, lab.NodeA, lab.NodeB} {
			ip(t, namespace, "neighbour", "flush", "all")
		}
	}
	t.Run("unanswered requests expire", func(t *testing.T) {
		before := counters(t, client)
		lab.sendTo(t, "--to", "fd00:42:2::99", "--port", "7788", "--hold", "4000", "0:nobody")
		if after := awaitSettled(t, client); after.DropUnresolved-before.DropUnresolved != 1 {
			t.Errorf("counted %+v", after)
		}
	})
}

func TestUnreachableIPv6AddressesAreRejected(t *testing.T) {
	content(t)
	lab, _ := newLab6(t)
	for name, test := range map[string]struct {
		arguments []string
		errno     unix.Errno
	}{
		"without a peer":                       {[]string{"--to", "fd00:42:3::2"}, unix.EHOSTUNREACH},
		"without a route":                      {[]string{"--to", "2001:db8::2"}, unix.ENETUNREACH},
		"IPv4 from a socket that is IPv6 only": {[]string{"--to", topology.PodAddressB.String(), "--domain", "6", "--v6only", "1"}, unix.ENETUNREACH},
	} {
		t.Run(name, func(t *testing.T) {
			lab.checkErrno(t, test.errno, test.arguments...)
		})
	}
}

// elsewhere are destinations other than the IPv4 address of a pod, with the address of a listener for them.
var elsewhere = map[string]struct{ to, bind string }{
	"an IPv6 address": {netip.AddrPortFrom(podAddress6B, listenPort).String(), "[::]:7788"},
	"a group":         {"239.1.2.3:7788", "0.0.0.0:7788"},
}

// joinGroups makes pod b a member of the group.
func (c *fourPods) joinGroups(t *testing.T) {
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

// awaitInTime waits until a message leaves that ktsnd had before its time. A message to a group still counts as late if
// sending its first copy takes longer than --late-after: the copies leave one after the other.
func awaitInTime(t *testing.T, client *control.Client) {
	t.Helper()
	awaitCounters(t, client, "a message is there before its time", func(counted control.Counters) bool {
		return counted.Sent > counted.LateTaken+counted.LateUnresolved
	})
}

// checkReplacing replaces ktsnd repeatedly while a talker sends.
func checkReplacing(t *testing.T, to, bind string, times int,
	replace func(*fourPods, *process.Process) (*process.Process, *control.Client)) {
	t.Helper()
	lab := newFourPods(t)
	lab.joinGroups(t)
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
