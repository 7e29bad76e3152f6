// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// fourPods is a lab with a second pod on each node, all known to ktsnd.
type fourPods struct {
	*lab
	daemon *process.Process
	client *control.Client
	// others are all pods except the sender, by their place.
	others map[string]*topology.Namespace
}

func newFourPods(t *testing.T) *fourPods {
	t.Helper()
	lab := newLab(t)
	others := map[string]*topology.Namespace{
		"pod b":                lab.PodB,
		"another of node b":    addPod(t, lab.NodeB, "2", netip.MustParseAddr("10.42.2.3")),
		"a neighbor on node a": lab.addNeighbor(t),
	}
	addIPv6(t, lab.PodA, podAddress6A)
	addIPv6(t, lab.PodB, podAddress6B)
	addIPv6(t, others["another of node b"], netip.MustParseAddr("fd00:42:2::3"))
	addIPv6(t, others["a neighbor on node a"], netip.MustParseAddr("fd00:42:1::3"))
	daemon, client := lab.startDaemon(t)
	lab.addPeer6(t, client)
	onBridge(t, client, identity, lab.PodA)
	onBridge(t, client, "neighbor", others["a neighbor on node a"])
	return &fourPods{lab, daemon, client, others}
}

// join opens a socket that is a member of a group.
func join(t *testing.T, pod *topology.Namespace, network string, group netip.AddrPort) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	must(t, pod.Do(func() error {
		link, err := net.InterfaceByName(topology.PodInterface)
		if err != nil {
			return err
		}
		conn, err = net.ListenMulticastUDP(network, link, net.UDPAddrFromAddrPort(group))
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestGroupsAndBroadcastReachEachPodOnceOnTime(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	const throughInterface = topology.PodInterface
	for name, test := range map[string]struct {
		to, network string
		arguments   []string
		mac         string
		ttl         uint8
	}{
		"an IPv4 group":                {"239.129.2.3", "udp4", []string{"--multicast-interface", throughInterface}, "01:00:5e:01:02:03", 1},
		"by IP_MULTICAST_IF's address": {"239.1.2.4", "udp4", []string{"--multicast-address", topology.PodAddressA.String()}, "01:00:5e:01:02:04", 1},
		"by SO_BINDTODEVICE":           {"239.1.2.5", "udp4", []string{"--device", throughInterface}, "01:00:5e:01:02:05", 1},
		"by a message's IP_PKTINFO":    {"239.1.2.6", "udp4", []string{"--cmsg-interface", throughInterface}, "01:00:5e:01:02:06", 1},
		"with IP_MULTICAST_TTL":        {"239.1.2.7", "udp4", []string{"--device", throughInterface, "--multicast-ttl", "5"}, "01:00:5e:01:02:07", 5},
		"of an IPv6 socket":            {"239.1.2.8", "udp4", []string{"--domain", "6", "--device", throughInterface}, "01:00:5e:01:02:08", 1},
		"connected":                    {"239.1.2.9", "udp4", []string{"--device", throughInterface, "--connect"}, "01:00:5e:01:02:09", 1},
		"an IPv6 group":                {"ff15::1:2", "udp6", []string{"--multicast-interface", throughInterface}, "33:33:00:01:00:02", 1},
		"an IPv6 group of the link":    {"ff02::1:3", "udp6", []string{"--scope", throughInterface}, "33:33:00:01:00:03", 1},
		"with IPV6_MULTICAST_HOPS":     {"ff15::1:4", "udp6", []string{"--multicast-interface", throughInterface, "--multicast-ttl", "4"}, "33:33:00:01:00:04", 4},
		"a subnet's broadcast":         {"10.42.255.255", "udp4", []string{"--broadcast", "1"}, "ff:ff:ff:ff:ff:ff", 64},
		"broadcast":                    {"255.255.255.255", "udp4", []string{"--broadcast", "1", "--device", throughInterface}, "ff:ff:ff:ff:ff:ff", 64},
	} {
		t.Run(name, func(t *testing.T) {
			group := netip.AddrPortFrom(netip.MustParseAddr(test.to), listenPort)
			conns := map[string]*net.UDPConn{}
			for where, pod := range lab.others {
				if group.Addr().IsMulticast() {
					conns[where] = join(t, pod, test.network, group)
				} else {
					conns[where] = listen(t, pod, "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), listenPort))
				}
			}
			before := counters(t, lab.client)
			began := time.Now()
			frame := lab.tunnelledFrames(t, "to all", 1, func() {
				sent := lab.sendTo(t, append(test.arguments, "--to", test.to, "--port", "7788", "50000:to all")...)
				for where, conn := range conns {
					if got, source := receive(t, conn); got != "to all" || source.Addr().Is4() != (test.network == "udp4") {
						t.Errorf("%s got %q from %s; the calls answered %v", where, got, source, sent)
					}
				}
			})[0]
			if took := time.Since(began); took < 50*time.Millisecond {
				t.Errorf("the last arrived after %v", took)
			}
			for _, conn := range conns {
				silent(t, conn)
				conn.Close()
			}
			if got := carriedBy(frame); got.ttl != test.ttl {
				t.Errorf("its TTL is %d, want %d", got.ttl, test.ttl)
			}
			if mac := frame.Layer(layers.LayerTypeEthernet).(*layers.Ethernet).DstMAC.String(); mac != test.mac {
				t.Errorf("it goes to %s, want %s", mac, test.mac)
			}
			after := awaitSettled(t, lab.client)
			if after.Sent-before.Sent != 1 || after.CopiesSent-before.CopiesSent != 2 || after.CopiesDropped != before.CopiesDropped ||
				after.KernelPath != before.KernelPath {
				t.Errorf("counted %+v, before %+v", after, before)
			}
		})
	}
}

func TestBroadcastNeedsSocketOption(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	lab.checkErrno(t, unix.EACCES, "--to", "10.42.255.255")
}

func TestHostLocalGroupMessageUsesKernel(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	conn := join(t, lab.PodA, "udp4", netip.MustParseAddrPort("239.1.2.3:7788"))
	before := counters(t, lab.client).KernelPath
	lab.tunnelledFrames(t, "stay", 0, func() {
		lab.sendTo(t, "--to", "239.1.2.3", "--port", "7788", "--device", topology.PodInterface, "--multicast-ttl", "0", "0:stay")
		if got, _ := receive(t, conn); got != "stay" {
			t.Errorf("got %q", got)
		}
	})
	if after := counters(t, lab.client).KernelPath; after != before+1 {
		t.Errorf("%d messages went to the kernel", after-before)
	}
}

// TestGroupMessagesAreNotLoopedBack checks the documented difference: ktsnd's messages to a group are not looped back
// into the pod.
func TestGroupMessagesAreNotLoopedBack(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	for to, network := range map[string]string{"239.1.2.3": "udp4", "ff15::1:2": "udp6"} {
		group := netip.AddrPortFrom(netip.MustParseAddr(to), listenPort)
		sender, other := join(t, lab.PodA, network, group), join(t, lab.PodB, network, group)
		lab.sendTo(t, "--to", to, "--port", "7788", "--multicast-interface", topology.PodInterface, "10000:to others")
		receive(t, other)
		silent(t, sender)
		sender.Close()
		other.Close()
	}
}

func TestUnreachableNodeDelaysNoGroup(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	must(t, lab.client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: netip.MustParseAddr("192.0.2.99"),
		Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.99.0/24")}}))
	conn := join(t, lab.PodB, "udp4", netip.MustParseAddrPort("239.1.2.3:7788"))
	ip(t, lab.PodA, "route", "add", "239.0.0.0/8", "dev", topology.PodInterface)
	running := lab.startTalker(t, os.DevNull, "--to", "239.1.2.3:7788", "--cycle", "10ms", "--count", "700")
	// After the kernel has given up the dead node, which takes three seconds.
	time.Sleep(5 * time.Second)
	before := counters(t, lab.client)
	for range 150 {
		receive(t, conn)
	}
	must(t, finish(t, running))
	after := awaitSettled(t, lab.client)
	if after.Sent != 700 || after.LateUnresolved != before.LateUnresolved || after.DropUnresolved != 0 {
		t.Errorf("counted %+v, earlier %+v", after, before)
	}
}

func TestNewGroupPeerIsReached(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	ip(t, lab.PodA, "route", "add", "239.0.0.0/8", "dev", topology.PodInterface)
	must(t, lab.client.PeerDel(t.Context(), topology.VNI, topology.NodeAddressB))
	group := netip.MustParseAddrPort("239.1.2.3:7788")
	conns := map[string]*net.UDPConn{}
	for where, pod := range lab.others {
		conns[where] = join(t, pod, "udp4", group)
	}
	running := lab.startTalker(t, os.DevNull, "--to", "239.1.2.3:7788", "--cycle", "5ms")
	receive(t, conns["a neighbor on node a"])
	silent(t, conns["pod b"])

	lab.addPeer6(t, lab.client)
	receive(t, conns["pod b"])
	receive(t, conns["another of node b"])
	late := addPod(t, lab.NodeA, "3", netip.MustParseAddr("10.42.1.4"))
	receive(t, join(t, late, "udp4", group))

	interrupt(t, running)
	if counted := awaitSettled(t, lab.client); counted.Sent+counted.Dropped() != counted.Taken || counted.Dropped() != 0 {
		t.Errorf("counted %+v", counted)
	}
}

// membersPatience is the timeout of membership queries and reports, which take seconds.
const membersPatience = 4 * patience

// twoDaemons is a lab of four pods with a ktsnd on each node, which are peers.
type twoDaemons struct {
	*fourPods
	daemonB *process.Process
	clientB *control.Client
}

func newTwoDaemons(t *testing.T) *twoDaemons {
	t.Helper()
	both := &twoDaemons{fourPods: newFourPods(t)}
	both.startDaemonB(t)
	return both
}

func (d *twoDaemons) startDaemonB(t *testing.T) {
	t.Helper()
	path := filepath.Join(filepath.Dir(d.control), "control-b.sock")
	d.daemonB, d.clientB = startDaemonOn(t, d.NodeB, path, topology.NodeAddressB)
	must(t, d.clientB.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA,
		Subnets: []netip.Prefix{topology.PodSubnetA}}))
}

// ofNode returns what ktsnd of node a knows of a node's groups.
func ofNode(t *testing.T, client *control.Client, address netip.Addr) control.NodeGroups {
	t.Helper()
	all, err := client.Groups(t.Context())
	must(t, err)
	at := slices.IndexFunc(all, func(groups control.NodeGroups) bool { return groups.Address == address && groups.VNI == topology.VNI })
	if at < 0 {
		t.Fatalf("no groups of %s among %+v", address, all)
	}
	return all[at]
}

// awaitGroups waits until ktsnd's groups of a node satisfy a condition.
func awaitGroups(t *testing.T, client *control.Client, address netip.Addr, what string, condition func(control.NodeGroups) bool) {
	t.Helper()
	testlab.Eventually(t, membersPatience, 10*time.Millisecond, func() error {
		groups := ofNode(t, client, address)
		if condition(groups) {
			return nil
		}
		return fmt.Errorf("not %s: %+v", what, groups)
	})
}

func isListed(groups control.NodeGroups) bool { return groups.Known && !groups.Everything }

func hasGroup(group string) func(control.NodeGroups) bool {
	return func(groups control.NodeGroups) bool {
		return slices.Contains(groups.Groups, netip.MustParseAddr(group))
	}
}

func (d *twoDaemons) awaitBothListed(t *testing.T) {
	t.Helper()
	// Then node a's own ports are known too: they were queried at the same time.
	awaitGroups(t, d.client, topology.NodeAddressA, "all of node a known", isListed)
	awaitGroups(t, d.client, topology.NodeAddressB, "all of node b known", isListed)
}

func (d *twoDaemons) sendToGroup(t *testing.T, group, text string) {
	t.Helper()
	d.sendTo(t, "--to", group, "--port", "7788", "--multicast-interface", topology.PodInterface, "0:"+text)
}

func TestGroupMessagesGoToMembers(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	for group, network := range map[string]string{"239.1.2.3": "udp4", "ff15::1:2": "udp6"} {
		t.Run(group, func(t *testing.T) {
			address := netip.AddrPortFrom(netip.MustParseAddr(group), listenPort)
			neighbor := join(t, both.others["a neighbor on node a"], network, address)
			awaitGroups(t, both.client, topology.NodeAddressA, "a member on node a", hasGroup(group))
			before := awaitSettled(t, both.client)
			both.tunnelledFrames(t, "on this node only", 0, func() {
				both.sendToGroup(t, group, "on this node only")
				receive(t, neighbor)
			})
			after := awaitSettled(t, both.client)
			if after.Sent-before.Sent != 1 || after.CopiesSent-before.CopiesSent != 1 || after.CopiesPruned-before.CopiesPruned != 1 {
				t.Errorf("counted %+v, before %+v", after, before)
			}

			member := join(t, both.PodB, network, address)
			awaitGroups(t, both.client, topology.NodeAddressB, "a member on node b", hasGroup(group))
			neighbor.Close()
			awaitGroups(t, both.client, topology.NodeAddressA, "no member on node a", func(groups control.NodeGroups) bool {
				return !hasGroup(group)(groups)
			})
			before = awaitSettled(t, both.client)
			both.tunnelledFrames(t, "on node b only", 1, func() {
				both.sendToGroup(t, group, "on node b only")
				receive(t, member)
			})
			after = awaitSettled(t, both.client)
			if after.CopiesSent-before.CopiesSent != 1 || after.CopiesPruned-before.CopiesPruned != 1 {
				t.Errorf("counted %+v, before %+v", after, before)
			}
		})
	}
}

// TestGroupWithoutMembersCostsOneFrame checks that a message without receivers counts as sent, as with a switch without
// a port for it.
func TestGroupWithoutMembersCostsOneFrame(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	before := awaitSettled(t, both.client)
	both.tunnelledFrames(t, "to nobody", 1, func() { both.sendToGroup(t, "239.1.2.9", "to nobody") })
	after := awaitSettled(t, both.client)
	if after.Sent-before.Sent != 1 || after.CopiesSent-before.CopiesSent != 1 || after.CopiesPruned-before.CopiesPruned != 2 ||
		after.Dropped() != before.Dropped() {
		t.Errorf("counted %+v, before %+v", after, before)
	}
}

func TestLinkLocalGroupsAndBroadcastReachAll(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	for _, to := range []string{"224.0.0.251", "ff02::1:3"} {
		before := awaitSettled(t, both.client)
		arguments := []string{"--to", to, "--port", "7788", "--multicast-interface", topology.PodInterface}
		if netip.MustParseAddr(to).Is6() {
			arguments = append(arguments, "--scope", topology.PodInterface)
		}
		both.tunnelledFrames(t, "to the link", 1, func() { both.sendTo(t, append(arguments, "0:to the link")...) })
		after := awaitSettled(t, both.client)
		if after.CopiesSent-before.CopiesSent != 2 || after.CopiesPruned != before.CopiesPruned {
			t.Errorf("to %s: counted %+v, before %+v", to, after, before)
		}
	}
}

// bridgeKnows reports whether the bridge of a node has a group membership behind a port.
func bridgeKnows(t *testing.T, node *topology.Namespace, port, group string) bool {
	t.Helper()
	command := exec.Command("bridge", "-n", node.Name(), "mdb", "show", "dev", topology.BridgeName)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, output)
	}
	return strings.Contains(string(output), "port "+port+" grp "+group+" ")
}

// TestMembersStayDuringPortFlap sets a port down and up: its pod does not notice and reports nothing until it is
// queried.
func TestMembersStayDuringPortFlap(t *testing.T) {
	content(t)
	const (
		group, port = "239.1.2.3", "pod2"
		most        = 3 * time.Second // ktsnd's timeout
	)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	join(t, both.others["another of node b"], "udp4", netip.MustParseAddrPort(group+":7788"))
	for attempt := 1; ; attempt++ {
		if attempt > 20 {
			t.Fatalf("the port was never down for less than %v", most)
		}
		awaitGroups(t, both.client, topology.NodeAddressB, "a member on node b", hasGroup(group))
		time.Sleep(2500 * time.Millisecond) // until the announcement takes precedence over the pod's reports
		began := time.Now()
		ip(t, both.NodeB, "link", "set", port, "down")
		// This announcement shows that node b's ktsnd has noticed the port's state.
		later := "239.1.3." + strconv.Itoa(attempt)
		join(t, both.PodB, "udp4", netip.MustParseAddrPort(later+":7788"))
		awaitGroups(t, both.client, topology.NodeAddressB, "a later member on node b", hasGroup(later))
		known := hasGroup(group)(ofNode(t, both.client, topology.NodeAddressB))
		ip(t, both.NodeB, "link", "set", port, "up")
		if took := time.Since(began); took >= most {
			t.Logf("attempt %d: the port was down for %v", attempt, took)
			continue
		}
		if !known {
			t.Fatal("while its port is down, the member is forgotten")
		}
		break
	}
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		known := bridgeKnows(t, both.NodeB, port, group)
		if groups := ofNode(t, both.client, topology.NodeAddressB); !hasGroup(group)(groups) {
			t.Fatalf("before the pod has answered, the member is forgotten: %+v", groups)
		}
		if known {
			return nil
		}
		return errors.New("the bridge does not learn again of the member")
	})
}

// talkToGroup sends to a group from pod a every few milliseconds until it is stopped.
func (d *twoDaemons) talkToGroup(t *testing.T, group string) *process.Process {
	t.Helper()
	ip(t, d.PodA, "route", "add", "239.0.0.0/8", "dev", topology.PodInterface)
	return d.startTalker(t, os.DevNull, "--to", group, "--cycle", "5ms")
}

func TestLateGroupMemberIsReached(t *testing.T) {
	content(t)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	const group = "239.1.2.3:7788"
	running := both.talkToGroup(t, group)
	for _, where := range []string{"another of node b", "a neighbor on node a"} {
		receive(t, join(t, both.others[where], "udp4", netip.MustParseAddrPort(group)))
	}

	// A killed ktsnd announces nothing: the report itself contains the member.
	kill(t, both.daemonB)
	late := addPod(t, both.NodeB, "3", netip.MustParseAddr("10.42.2.4"))
	const other = "239.1.2.4:7788"
	interrupt(t, running)
	ip(t, both.PodA, "route", "del", "239.0.0.0/8", "dev", topology.PodInterface)
	running = both.talkToGroup(t, other)
	receive(t, join(t, late, "udp4", netip.MustParseAddrPort(other)))

	// The next ktsnd first requests all groups, then has the pods' answers.
	both.startDaemonB(t)
	awaitGroups(t, both.client, topology.NodeAddressB, "everything", func(groups control.NodeGroups) bool { return groups.Everything })
	awaitGroups(t, both.client, topology.NodeAddressB, "what the pods answer", func(groups control.NodeGroups) bool {
		return isListed(groups) && hasGroup("239.1.2.3")(groups) && hasGroup("239.1.2.4")(groups)
	})

	// A ktsnd that ends announces it.
	if err := both.daemonB.Stop(patience); err != nil {
		t.Error(err)
	}
	awaitGroups(t, both.client, topology.NodeAddressB, "unknown", func(groups control.NodeGroups) bool { return !groups.Known })
	interrupt(t, running)
	if counted := awaitSettled(t, both.client); counted.Dropped() != 0 {
		t.Errorf("counted %+v", counted)
	}
}
