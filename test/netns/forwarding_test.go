// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// nodeAddressC is the address of a third node without pods: node b receives its frames.
var nodeAddressC = netip.MustParseAddr("192.0.2.3")

// frameSender sends frames from pod a to one hardware address through one socket.
type frameSender struct {
	*fourPods
	lines io.Writer
	tap   *wiretap.Tap
	sent  int
}

func (c *fourPods) startFrameSender(t *testing.T, mac string) *frameSender {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-send"), "--packet", "dgram", "--interface", topology.PodInterface, "--mac", mac,
		"--ethertype", strconv.Itoa(etherType), "--lines")
	command.Env = c.preloaded(t)
	lines, err := command.StdinPipe()
	must(t, err)
	start(t, c.PodA, "ktsn-test-send", command)
	t.Cleanup(func() { lines.Close() })
	return &frameSender{fourPods: c, lines: lines, tap: c.openTap(t, 10000)}
}

// say sends one frame and returns its text after it has left.
func (s *frameSender) say(t *testing.T) string {
	t.Helper()
	before := counters(t, s.client).Sent
	s.sent++
	text := fmt.Sprintf("frame %d.", s.sent)
	if _, err := fmt.Fprintf(s.lines, "0:%s\n", text); err != nil {
		t.Fatal(err)
	}
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		if counters(t, s.client).Sent == before {
			return fmt.Errorf("%q was not sent: %+v", text, counters(t, s.client))
		}
		return nil
	})
	return text
}

// wentTo returns the nodes that received the frame.
func (s *frameSender) wentTo(t *testing.T, text string) []string {
	t.Helper()
	const destination, outerBytes = 14 + 16, 14 + 20 + 8 + 8
	time.Sleep(20 * time.Millisecond) // the kernel may have it in a backlog
	packets, err := s.tap.Seen()
	must(t, err)
	nodes := []string{}
	for _, packet := range packets {
		if len(packet.Head) > outerBytes && bytes.Contains(packet.Head[outerBytes:], []byte(text)) {
			nodes = append(nodes, net.IP(packet.Head[destination:destination+4]).String())
		}
	}
	slices.Sort(nodes)
	return nodes
}

// expect sends until a frame goes to the given nodes.
func (s *frameSender) expect(t *testing.T, when string, nodes ...netip.Addr) {
	t.Helper()
	want := []string{}
	for _, node := range nodes {
		want = append(want, node.String())
	}
	testlab.Eventually(t, patience, 0, func() error {
		got := s.wentTo(t, s.say(t))
		if slices.Equal(got, want) {
			return nil
		}
		return fmt.Errorf("%s: frames go to %v, want %v", when, got, want)
	})
}

// onlyHere sends until a frame arrives in the pod and checks that it goes to no other node.
func (s *frameSender) onlyHere(t *testing.T, when string, fd int) {
	t.Helper()
	s.expect(t, when)
	text := s.say(t)
	for {
		frame := receiveFrame(t, fd, patience)
		if frame == nil {
			t.Fatalf("%s: %q did not arrive", when, text)
		}
		if bytes.Contains(frame, []byte(text)) {
			break
		}
	}
	if nodes := s.wentTo(t, text); len(nodes) != 0 {
		t.Errorf("%s: it went to %v as well", when, nodes)
	}
}

// speakAs broadcasts a frame through the kernel.
func speakAs(t *testing.T, pod *topology.Namespace, mac string) {
	t.Helper()
	source, err := net.ParseMAC(mac)
	must(t, err)
	fd := frameSocket(t, pod, topology.PodInterface, 0)
	defer unix.Close(fd)
	_, err = unix.Write(fd, slices.Concat(bytes.Repeat([]byte{0xff}, 6), source, []byte{0x88, 0xb6}, make([]byte, 46)))
	must(t, err)
}

// fdb changes forwarding entries of node a.
func (c *fourPods) fdb(t *testing.T, arguments ...string) {
	t.Helper()
	command := exec.Command("bridge", append([]string{"-n", c.NodeA.Name(), "fdb"}, arguments...)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("bridge fdb %v: %v: %s", arguments, err, output)
	}
}

func newFourPodsThreeNodes(t *testing.T) *fourPods {
	t.Helper()
	lab := newFourPods(t)
	ip(t, lab.NodeB, "address", "add", nodeAddressC.String()+"/24", "dev", topology.PhysicalInterface)
	peer := control.Peer{VNI: topology.VNI, Address: nodeAddressC, Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.3.0/24")}}
	must(t, lab.client.PeerAdd(t.Context(), peer))
	return lab
}

func TestFramesFollowLearnedAddresses(t *testing.T) {
	content(t)
	const mac = "02:00:00:00:00:77"
	lab := newFourPodsThreeNodes(t)
	talker := lab.startFrameSender(t, mac)
	neighbor := lab.others["a neighbor on node a"]
	fd := listenPacket(t, neighbor)
	nodeB, nodeC := topology.NodeAddressB, nodeAddressC

	talker.expect(t, "nobody knows the address", nodeB, nodeC)
	speakAs(t, lab.PodB, mac)
	talker.expect(t, "it was heard from node b", nodeB)
	lab.fdb(t, "replace", mac, "dev", topology.TunnelName, "dst", nodeC.String(), "self", "dynamic")
	talker.expect(t, "it has moved to node c", nodeC)
	speakAs(t, neighbor, mac)
	talker.onlyHere(t, "it was heard on this node", fd)
	lab.fdb(t, "replace", mac, "dev", topology.TunnelName, "dst", nodeB.String(), "self", "permanent")
	talker.expect(t, "it is behind node b for good", nodeB)
	speakAs(t, neighbor, mac)
	talker.expect(t, "and heard on this node", nodeB)
	lab.fdb(t, "del", mac, "dev", topology.TunnelName, "self")
	talker.onlyHere(t, "what was for good is removed", fd)
	lab.fdb(t, "del", mac, "dev", "pod2", "master")
	talker.expect(t, "it is forgotten", nodeB, nodeC)

	lab.fdb(t, "replace", mac, "dev", topology.TunnelName, "dst", "192.0.2.99", "self", "dynamic")
	talker.expect(t, "it is behind a node that is no peer", nodeB, nodeC)
	lab.fdb(t, "replace", mac, "dev", topology.TunnelName, "dst", nodeC.String(), "self", "dynamic")
	talker.expect(t, "it is behind one that is", nodeC)
	must(t, lab.client.PeerDel(t.Context(), topology.VNI, nodeC))
	talker.expect(t, "that one is gone", nodeB)
	if counted := counters(t, lab.client); counted.CopiesDropped+counted.DropPort+counted.DropInvalid != 0 {
		t.Errorf("counted %+v", counted)
	}
}

func TestForgedAddressOfOtherNodeRedirectsNoPod(t *testing.T) {
	timing(t)
	t.Parallel()
	lab := newFourPodsThreeNodes(t)
	neighbor := lab.others["a neighbor on node a"]
	mac := interfaceMAC(t, neighbor).String()
	fd := listenPacket(t, neighbor)
	// Like tsn-cni for each pod.
	lab.fdb(t, "replace", mac, "dev", "pod2", "master", "static", "sticky")
	must(t, lab.client.EndpointDel(t.Context(), "neighbor", topology.PodInterface))
	before := lab.startFrameSender(t, mac)
	before.onlyHere(t, "before ktsnd knows the pod", fd)
	onBridge(t, lab.client, "neighbor", neighbor)
	known := lab.startFrameSender(t, mac)
	known.onlyHere(t, "when ktsnd knows the pod", fd)

	speakAs(t, lab.PodB, mac)
	lab.fdb(t, "replace", mac, "dev", topology.TunnelName, "dst", nodeAddressC.String(), "self", "permanent")
	for range 5 {
		before.onlyHere(t, "begun before ktsnd knew the pod, forged", fd)
		known.onlyHere(t, "begun later, forged", fd)
	}
}
