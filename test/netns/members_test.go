// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// membersPatience is for what waits for pods to be asked and heard, which takes seconds.
const membersPatience = 4 * patience

// twoDaemons is a company whose node b has a ktsnd as well, and each is the other's peer.
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
	d.daemonB = start(t, d.NodeB, "ktsnd b", exec.Command(program(t, "ktsnd"), "--interface", topology.PhysicalInterface,
		"--local-address", topology.NodeAddressB.String(), "--control", path))
	d.clientB = connect(t, d.daemonB, path)
	if err := d.clientB.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA,
		Subnets: []netip.Prefix{topology.PodSubnetA}}); err != nil {
		t.Fatal(err)
	}
}

// ofNode is what ktsnd of node a knows of a node's groups.
func ofNode(t *testing.T, client *control.Client, address netip.Addr) control.NodeGroups {
	t.Helper()
	all, err := client.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(groups control.NodeGroups) bool { return groups.Address == address && groups.VNI == topology.VNI })
	if at < 0 {
		t.Fatalf("no groups of %s among %+v", address, all)
	}
	return all[at]
}

// awaitGroups waits until ktsnd knows something of a node.
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

func listed(groups control.NodeGroups) bool { return groups.Known && !groups.Everything }

func hasGroup(group string) func(control.NodeGroups) bool {
	return func(groups control.NodeGroups) bool {
		return slices.Contains(groups.Groups, netip.MustParseAddr(group))
	}
}

func (d *twoDaemons) awaitBothListed(t *testing.T) {
	t.Helper()
	// Then node a's own ports are known as well: they were asked at the same time.
	awaitGroups(t, d.client, topology.NodeAddressA, "all of node a known", listed)
	awaitGroups(t, d.client, topology.NodeAddressB, "all of node b known", listed)
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

// A message without receivers is one that was sent, as with a switch that finds no port for it.
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

// bridgeKnows tells whether the bridge of a node has heard a pod join a group, behind a port.
func bridgeKnows(t *testing.T, node *topology.Namespace, port, group string) bool {
	t.Helper()
	command := exec.Command("bridge", "-n", node.Name(), "mdb", "show", "dev", topology.BridgeName)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, output)
	}
	return strings.Contains(string(output), "port "+port+" grp "+group+" ")
}

// A pod does not notice that its port is set down and up again, and says nothing until it is asked.
func TestMembersStayDuringPortFlap(t *testing.T) {
	content(t)
	const (
		group, port = "239.1.2.3", "pod2"
		most        = 3 * time.Second // for which ktsnd remembers
	)
	both := newTwoDaemons(t)
	both.awaitBothListed(t)
	join(t, both.others["another of node b"], "udp4", netip.MustParseAddrPort(group+":7788"))
	for attempt := 1; ; attempt++ {
		if attempt > 20 {
			t.Fatalf("the port was never down for less than %v", most)
		}
		awaitGroups(t, both.client, topology.NodeAddressB, "a member on node b", hasGroup(group))
		time.Sleep(2500 * time.Millisecond) // until an announcement decides, whatever the pod reported
		began := time.Now()
		ip(t, both.NodeB, "link", "set", port, "down")
		// Once this is announced, node b's ktsnd has seen that the port is down.
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
	for answered, deadline := false, time.Now().Add(patience); !answered; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the bridge does not learn again of the member")
		}
		answered = bridgeKnows(t, both.NodeB, port, group)
		if groups := ofNode(t, both.client, topology.NodeAddressB); !hasGroup(group)(groups) {
			t.Fatalf("before the pod has answered, the member is forgotten: %+v", groups)
		}
	}
}

// talkToGroup sends to a group from pod a every few milliseconds until it is stopped.
func (d *twoDaemons) talkToGroup(t *testing.T, group string) *process.Process {
	t.Helper()
	ip(t, d.PodA, "route", "add", "239.0.0.0/8", "dev", topology.PodInterface)
	talker := exec.Command(program(t, "tsnperf"), "talker", "--quiet", "--clock", "tai", "--to", group,
		"--cycle", "5ms", "--count", "1000000")
	talker.Env = d.preloaded(t)
	return start(t, d.PodA, "talker", talker)
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

	// A killed ktsnd announces nothing any more: the report itself says who joins.
	kill(t, both.daemonB)
	late := addPod(t, both.NodeB, "3", netip.MustParseAddr("10.42.2.4"))
	const other = "239.1.2.4:7788"
	interrupt(t, running)
	ip(t, both.PodA, "route", "del", "239.0.0.0/8", "dev", topology.PodInterface)
	running = both.talkToGroup(t, other)
	receive(t, join(t, late, "udp4", netip.MustParseAddrPort(other)))

	// The next one knows nothing yet and wants everything, then knows what the pods answer.
	both.startDaemonB(t)
	awaitGroups(t, both.client, topology.NodeAddressB, "everything", func(groups control.NodeGroups) bool { return groups.Everything })
	awaitGroups(t, both.client, topology.NodeAddressB, "what the pods answer", func(groups control.NodeGroups) bool {
		return listed(groups) && hasGroup("239.1.2.3")(groups) && hasGroup("239.1.2.4")(groups)
	})

	// One that ends says so.
	if err := both.daemonB.Stop(patience); err != nil {
		t.Error(err)
	}
	awaitGroups(t, both.client, topology.NodeAddressB, "unknown", func(groups control.NodeGroups) bool { return !groups.Known })
	interrupt(t, running)
	if counted := awaitSettled(t, both.client); counted.Dropped() != 0 {
		t.Errorf("counted %+v", counted)
	}
}
