// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/openvswitch"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// ovsLab is a lab whose node a has Open vSwitch as its uplink. Node b has the kernel's tunnel.
type ovsLab struct {
	*lab
	node   *ovsnode.Node
	wiring *cniruntime.Wiring
}

// newOVSNode creates nodes with an unconfigured Open vSwitch on node a. programs replace the ovs-vswitchd that has DPDK.
func newOVSNode(t *testing.T, programs ...string) *ovsLab {
	t.Helper()
	program(t, "ktsn")
	if _, err := ovsnode.Program(); err != nil {
		testlab.Missing(t, err.Error())
	}
	lab, wiring := newUnattached(t)
	wiring.B.LetPass() // the programs that answer there do not use libktsn
	var node *ovsnode.Node
	var err error
	if len(programs) > 0 {
		node, err = ovsnode.StartProgram(t.Context(), lab.Topology, programs[0])
	} else {
		node, err = ovsnode.Start(t.Context(), lab.Topology)
	}
	if err != nil {
		testlab.Missing(t, err.Error())
	}
	t.Cleanup(func() {
		if err := node.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &ovsLab{lab, node, wiring}
}

// newOVSLab creates a lab with everything set up and both pods attached.
func newOVSLab(t *testing.T) *ovsLab {
	t.Helper()
	lab := newOVSNode(t)
	lab.mustKtsn(t, "setup", lab.setup()...)
	lab.attachPods(t)
	return lab
}

// attachPods attaches both pods. It disables checksum offload at node b, whose veth pair does not compute checksums.
func (l *ovsLab) attachPods(t *testing.T) {
	t.Helper()
	must(t, l.NodeB.Do(func() error { return netdev.DisableChecksumOffload(topology.PhysicalInterface) }))
	l.wiring.A.Through(ovs.BridgePhysical, overlay.TunnelName(topology.VNI))
	must(t, l.wiring.AttachBoth(t.Context()))
}

// setup returns the options of `ktsn ovs setup`.
func (l *ovsLab) setup() []string {
	return []string{"--network", "42", "--peer", topology.NodeAddressB.String(), "--interface", topology.PhysicalInterface,
		"--address", topology.NodeAddressA.String() + "/24", "--vhost-socket", l.node.VhostSocket(), "--dpdk-extra", l.node.DPDKExtra()}
}

// ktsn runs `ktsn ovs` on node a and returns its output.
func (l *ovsLab) ktsn(t *testing.T, command string, options ...string) (string, error) {
	t.Helper()
	running := l.ktsnCommand(t, command, options...)
	var out bytes.Buffer
	running.Stdout = &out
	started, err := process.Start(l.NodeA, "ktsn ovs "+command, running)
	must(t, err)
	select {
	case <-started.Done():
	case <-time.After(2 * patience):
		t.Fatalf("ktsn ovs %s does not end", command)
	}
	return out.String() + started.Stderr(), started.Wait()
}

// mustKtsn is ktsn for a command that must succeed.
func (l *ovsLab) mustKtsn(t *testing.T, command string, options ...string) {
	t.Helper()
	if output, err := l.ktsn(t, command, options...); err != nil {
		t.Fatalf("ktsn ovs %s: %v: %s", command, err, output)
	}
}

func (l *ovsLab) ktsnCommand(t *testing.T, command string, options ...string) *exec.Cmd {
	t.Helper()
	arguments := append([]string{"ovs", command, "--db", l.node.Database, "--run-dir", l.node.RunDir}, options...)
	return exec.Command(program(t, "ktsn"), arguments...)
}

// startOVSDaemon starts a ktsnd that sends through Open vSwitch.
func (l *ovsLab) startOVSDaemon(t *testing.T) (*process.Process, *control.Client) {
	t.Helper()
	daemon, client := l.startDaemon(t, l.uplink()...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ktsnd's log: %s\novs-vswitchd's log ends with:\n%s\nsockets are:\n%s", daemon.Stderr(), lastOf(l.log(t), 8000), l.vhostSockets())
		}
	})
	return daemon, client
}

// uplink returns ktsnd's options for it.
func (l *ovsLab) uplink() []string {
	return []string{"--uplink", "ovs", "--interface", ovs.BridgePhysical, "--vhost-socket", l.node.VhostSocket()}
}

// awaitConnected waits until Open vSwitch fetches ktsnd's frames.
func (l *ovsLab) awaitConnected(t *testing.T) {
	t.Helper()
	testlab.Eventually(t, patience, 50*time.Millisecond, func() error {
		output, err := l.ktsn(t, "status")
		if err == nil {
			return nil
		}
		return fmt.Errorf("Open vSwitch is not in order: %v\n%s", err, output)
	})
}

// log returns the log of ovs-vswitchd.
func (l *ovsLab) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(l.node.Log())
	must(t, err)
	return string(text)
}

func lastOf(text string, bytes int) string { return text[max(0, len(text)-bytes):] }

// vhostSockets returns the kernel's lines of the sockets between Open vSwitch and ktsnd. The sixth column is 01 for a
// listening or connecting one and 03 for a connected one.
func (l *ovsLab) vhostSockets() string {
	var lines strings.Builder
	err := l.NodeA.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/unix")
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, l.node.VhostSocket()) {
				lines.WriteString(line)
			}
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return lines.String()
}

func TestMessagesGoThroughOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	_, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	source := netip.AddrPortFrom(topology.PodAddressA, 6001)
	for name, payloadBytes := range map[string]int{"the smallest payload": 40, "an odd one": 65, "the largest that fits the frame": 1422} {
		t.Run("timed, "+name, func(t *testing.T) {
			const count = 200
			before := counters(t, client)
			seen := lab.run(t, traffic{count: count, payloadBytes: payloadBytes, talkerOptions: []string{"--bind", source.String()},
				environment: lab.preloaded(t)})
			checkAllArrived(t, seen, count)
			checkFrames(t, lab.lab, seen, source, count)
			for i, wire := range seen.wireTAI {
				if txtime := seen.sent[i].Txtime; wire < txtime {
					t.Errorf("message %d was %d ns early", i, txtime-wire)
				}
			}
			if after := awaitSettled(t, client); after.Sent-before.Sent != count || after.Dropped() != before.Dropped() {
				t.Errorf("ktsnd sent %d and dropped %d", after.Sent-before.Sent, after.Dropped()-before.Dropped())
			}
		})
	}
	t.Run("untimed messages", func(t *testing.T) {
		seen := lab.run(t, traffic{count: 50, payloadBytes: 1422, talkerOptions: []string{"--no-txtime"}})
		checkAllArrived(t, seen, 50)
	})
	t.Run("answers return", func(t *testing.T) { lab.checkAnswers(t) })
	t.Run("a group is reached once", func(t *testing.T) {
		group := netip.MustParseAddrPort("239.1.2.3:7790")
		conn := join(t, lab.PodB, "udp4", group)
		lab.sendTo(t, "--multicast-interface", topology.PodInterface, "--to", group.Addr().String(), "--port", "7790", "200000:to all")
		if text, from := receive(t, conn); text != "to all" || from.Addr() != topology.PodAddressA {
			t.Errorf("%q arrived from %s", text, from)
		}
		silent(t, conn)
	})
	t.Run("a foreign flow sees the class priority", func(t *testing.T) { lab.checkOwnFlow(t) })
	t.Run("status", func(t *testing.T) {
		status, err := client.Status(t.Context())
		if err != nil || status.Uplink != "ovs" || status.Interface != ovs.BridgePhysical {
			t.Errorf("it is %+v, %v", status, err)
		}
	})
}

// checkOwnFlow adds a foreign flow that drops priority 6, and checks that nothing else is dropped.
func (l *ovsLab) checkOwnFlow(t *testing.T) {
	t.Helper()
	l.ofctl(t, "add-flow", "cookie=1,priority=200,in_port=ktsnd,dl_vlan=42,dl_vlan_pcp=6,actions=drop")
	const count = 20
	for priority, arrive := range map[string]int{"6": 0, "5": count} {
		seen := l.run(t, traffic{count: count, payloadBytes: 64, talkerOptions: []string{"--priority", priority}, environment: l.preloaded(t)})
		if len(seen.sent) != count || len(seen.received) != arrive {
			t.Errorf("of priority %s were %d sent, and %d arrived", priority, len(seen.sent), len(seen.received))
		}
	}
	if dumped := l.ofctl(t, "dump-flows", "cookie=1/-1"); !strings.Contains(dumped, "n_packets=20") {
		t.Errorf("the flow has seen other messages: %s", dumped)
	}
	l.ofctl(t, "del-flows", "cookie=1/-1")
}

// ofctl runs ovs-ofctl for br-int and returns its output.
func (l *ovsLab) ofctl(t *testing.T, command string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command("ovs-ofctl", append([]string{"--timeout=10", command, "unix:" + filepath.Join(l.node.RunDir, ovs.BridgeInternal+".mgmt")}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-ofctl %s %v: %v: %s", command, arguments, err, out)
	}
	return string(out)
}

// checkAnswers sends datagrams from pod b to pod a right after timed messages of pod a, from which Open vSwitch must
// not learn that pod a is behind ktsnd's port.
func (l *ovsLab) checkAnswers(t *testing.T) {
	t.Helper()
	at := netip.AddrPortFrom(topology.PodAddressA, 7791)
	conn := listen(t, l.PodA, "udp4", at)
	checkAllArrived(t, l.run(t, traffic{count: 20, payloadBytes: 64, environment: l.preloaded(t)}), 20)
	command := exec.Command(program(t, "ktsn-test-send"), append(connectedTo(at), "200000:an answer")...)
	must(t, finish(t, start(t, l.PodB, "ktsn-test-send", command)))
	if text, from := receive(t, conn); text != "an answer" || from.Addr() != topology.PodAddressB {
		t.Errorf("%q arrived from %s", text, from)
	}
}

func TestPluginAttachesThroughOpenVSwitchWithKtsnd(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	lab.socket = lab.wiring.A.Socket()
	_, client := lab.startUnattached(t, lab.uplink()...)
	lab.awaitConnected(t)
	must(t, lab.wiring.A.Detach(t.Context()))
	must(t, lab.wiring.A.Attach(t.Context(), client, lab.control))
	checkAllArrived(t, lab.run(t, traffic{count: 50, payloadBytes: 64, environment: lab.preloaded(t)}), 50)
	if taken := counters(t, client).Taken; taken != 50 {
		t.Errorf("ktsnd took %d messages", taken)
	}
	must(t, lab.wiring.A.Detach(t.Context()))
	if output, err := lab.ktsn(t, "status"); err != nil {
		t.Errorf("after the last pod Open vSwitch is not in order: %v\n%s", err, output)
	}
	t.Run("a network without setup is rejected", func(t *testing.T) {
		lab.wiring.A.Through(ovs.BridgePhysical, "tsnvx4711")
		err := lab.wiring.A.Attach(t.Context(), client, lab.control)
		testlab.CheckError(t, err, "ktsn ovs setup")
	})
}

func TestKilledOpenVSwitchReconnects(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	keeper := start(t, lab.NodeA, "ktsn", lab.ktsnCommand(t, "setup", append(lab.setup(), "--keep")...))
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	running := lab.startFlow(t, "--cycle", "5ms", "--lead", "20ms")
	const kills = 2
	// On a busy machine ktsnd may notice Open vSwitch later than the test, and peers answer even later.
	sends := func() {
		before := counters(t, client).Sent
		awaitCounters(t, client, "messages are sent", func(c control.Counters) bool { return c.Sent >= before+100 })
	}
	for range kills {
		sends()
		must(t, lab.node.Kill())
		awaitLog(t, daemon, "Open vSwitch is not connected")
		awaitTaken(t, client, counters(t, client).Taken+20)
		must(t, lab.node.StartDaemon())
		lab.awaitConnected(t)
		sends()
	}
	counted := running.end(t, client)
	lost := running.lost(t)
	t.Logf("%d sent, %d lost while Open vSwitch was killed %d times, %d of them counted by ktsnd", len(running.sent), len(lost), kills, counted.DropPort)
	if counted.DropPort == 0 || int(counted.DropPort) > len(lost) {
		t.Errorf("ktsnd counts %d dropped, %d are lost", counted.DropPort, len(lost))
	}
	running.checkWentOn(t, 50)
	for _, message := range running.received {
		if late := time.Duration(message.Arrival - message.Txtime); late > time.Second {
			t.Errorf("message %d arrived %s late: it waited for Open vSwitch", message.Sequence, late)
		}
	}
	awaitLog(t, keeper, "was restarted and is set up again")
}

// TestOpenVSwitchReconnectsAfterConnectionEnds ends connections as a repeated setup of Open vSwitch does while a busy
// machine delays ktsnd.
func TestOpenVSwitchReconnectsAfterConnectionEnds(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, _ := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	must(t, lab.node.Kill())
	awaitLog(t, daemon, "Open vSwitch is not connected")
	signal(t, daemon, syscall.SIGSTOP)
	conn, err := net.Dial("unix", lab.node.VhostSocket())
	if err == nil {
		err = conn.Close()
	}
	signal(t, daemon, syscall.SIGCONT)
	must(t, err)
	must(t, lab.node.StartDaemon())
	lab.mustKtsn(t, "setup", lab.setup()...)
	lab.awaitConnected(t)
	checkAllArrived(t, lab.run(t, traffic{count: 20, payloadBytes: 64, environment: lab.preloaded(t)}), 20)
}

// TestOpenVSwitchIsFoundWithoutDatabaseEntry uses the database that ovs-vswitchd leaves when ktsnd connects while its
// own "disconnected" is delayed.
func TestOpenVSwitchIsFoundWithoutDatabaseEntry(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	lab.vsctl(t, "set", "Interface", "ktsnd", "link_state=down", "status={mode=client,status=disconnected}")
	output, err := lab.ktsn(t, "status")
	if err != nil || !strings.Contains(output, "ktsnd connected: yes") {
		t.Errorf("it ends with %v and logs %s", err, output)
	}
	if link := lab.vsctl(t, "get", "Interface", "ktsnd", "link_state"); link != "up\n" {
		t.Errorf("the database continues saying that the link is %s", link)
	}
}

// withdrawnFrames matches the log line after each stall of Open vSwitch.
var withdrawnFrames = regexp.MustCompile(`Open vSwitch fetche[sd] nothing.*: the last (\d+) frames (?:are|were) withdrawn`)

// withdrawnIn returns the number of withdrawn frames in ktsnd's log and of its lines.
func withdrawnIn(t *testing.T, log string) (frames, times int) {
	t.Helper()
	for _, match := range withdrawnFrames.FindAllStringSubmatch(log, -1) {
		count, err := strconv.Atoi(match[1])
		must(t, err)
		frames, times = frames+count, times+1
	}
	return frames, times
}

// TestStalledOpenVSwitchSendsNoStaleMessages stops ovs-vswitchd, which fetches everything in the queue when it
// continues.
func TestStalledOpenVSwitchSendsNoStaleMessages(t *testing.T) {
	timing(t)
	const staleAfter, slack = 100 * time.Millisecond, 20 * time.Millisecond
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	running := lab.startFlow(t, "--cycle", "1ms", "--lead", "5ms")
	for range 3 {
		awaitTaken(t, client, counters(t, client).Taken+200)
		for _, number := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			must(t, lab.node.Signal(number))
			time.Sleep(5 * staleAfter)
		}
	}
	awaitTaken(t, client, counters(t, client).Taken+200)
	counted := running.end(t, client)
	departed := departedAt(t, client)
	// Open vSwitch may have fetched a burst when it is stopped or loses its CPU: ktsnd cannot withdraw that. Without being
	// overwritten, 40 frames of each stall would be late.
	const burst = 32
	var late []time.Duration
	for _, message := range running.received {
		if age := time.Duration(message.Arrival - departed[message.Txtime]); age > staleAfter+slack {
			late = append(late, age)
		}
	}
	if len(late) > burst {
		t.Errorf("%d messages arrived so long after ktsnd counted them as sent: %v", len(late), late)
	}
	withdrawn, _ := withdrawnIn(t, daemon.Stderr())
	if withdrawn == 0 || counted.DropStale < uint64(withdrawn) {
		t.Errorf("ktsnd withdrew %d frames, counted %d as drop-stale, and logged %s", withdrawn, counted.DropStale, daemon.Stderr())
	}
	// Open vSwitch may lose a few.
	if arrived := len(running.received); counted.Sent >= uint64(arrived+withdrawn) {
		t.Errorf("%d messages count as sent, %d arrived, and %d frames were withdrawn", counted.Sent, arrived, withdrawn)
	}
	t.Logf("sent %d, on time %d, late %d, drop-stale %d, drop-port %d; %d lost", counted.Sent, counted.OnTime, counted.Late(), counted.DropStale, counted.DropPort, len(running.lost(t)))
}

// awaitLog waits until a program has logged a text.
func awaitLog(t *testing.T, running *process.Process, text string) {
	t.Helper()
	awaitLogFor(t, running, text, patience)
}

func awaitLogFor(t *testing.T, running *process.Process, text string, most time.Duration) {
	t.Helper()
	testlab.Eventually(t, most, 10*time.Millisecond, func() error {
		if !strings.Contains(running.Stderr(), text) {
			return fmt.Errorf("%s did not log %q but: %s", running.Name(), text, running.Stderr())
		}
		return nil
	})
}

func TestKilledKtsndReconnectsToOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	running := lab.startFlow(t, "--cycle", "5ms", "--lead", "20ms")
	var total sum
	for range 3 {
		awaitTaken(t, client, 100)
		total.add(counters(t, client))
		kill(t, daemon)
		daemon, client = lab.startOVSDaemon(t)
		lab.awaitConnected(t)
	}
	awaitTaken(t, client, 100)
	total.add(running.end(t, client))
	t.Logf("%d sent, %d lost while ktsnd was killed three times, %d of them counted by it", len(running.sent), len(running.lost(t)), total.dropped)
	running.checkWentOn(t, 50)
	if total.astray != 0 {
		t.Errorf("%d messages took the kernel's path", total.astray)
	}
}

// followIn runs the agent's part for a node in the node's network namespace.
func (l *ovsLab) followIn(t *testing.T, follower *openvswitch.Reconciler, wanted openvswitch.Tunnels) error {
	t.Helper()
	return l.NodeA.Do(func() error { return follower.Reconcile(t.Context(), wanted) })
}

// TestAgentMaintainsOpenVSwitch checks that a node's agent sets up what `ktsn ovs setup` does without a cluster.
func TestAgentMaintainsOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	fresh := lab.state(t)
	plan := ovs.Plan{Interface: topology.PhysicalInterface, VhostSocket: lab.node.VhostSocket(), DPDKExtra: lab.node.DPDKExtra()}
	follower := &openvswitch.Reconciler{Switch: &lab.node.Switch, Plan: plan, PrefixBits: 24, PrefixOf: ovs.PrefixOf, Now: time.Now}
	wanted := openvswitch.Tunnels{Local: topology.NodeAddressA, Networks: map[uint32]uint16{topology.VNI: topology.VXLANPort}, Peers: []netip.Addr{topology.NodeAddressB}}
	must(t, lab.followIn(t, follower, wanted))
	lab.attachPods(t)
	_, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	checkAllArrived(t, lab.run(t, traffic{count: 50, payloadBytes: 64, environment: lab.preloaded(t)}), 50)

	restarted := make(chan bool, 10)
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- openvswitch.Watch(watching, &lab.node.Switch, func() { restarted <- true }) }()
	must(t, lab.node.Kill())
	must(t, lab.node.StartDaemon())
	select {
	case <-restarted:
	case <-time.After(patience):
		t.Fatal("nothing noticed that Open vSwitch was restarted")
	}
	must(t, lab.followIn(t, follower, wanted))
	lab.awaitConnected(t)
	before := counters(t, client)
	checkAllArrived(t, lab.run(t, traffic{count: 50, payloadBytes: 64, environment: lab.preloaded(t)}), 50)
	if after := awaitSettled(t, client); after.Sent-before.Sent != 50 {
		t.Errorf("ktsnd sent %d", after.Sent-before.Sent)
	}
	lab.checkAnswers(t)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	must(t, lab.wiring.A.Detach(t.Context()))
	wanted.Networks = nil
	must(t, lab.followIn(t, follower, wanted))
	if after := lab.state(t); after != fresh {
		t.Errorf("when there is no network any more, of\n%s\nis left\n%s", fresh, after)
	}
}

// startDirectFarEnd starts a ktsnd on node b that sends directly and returns the environment of pod b's programs.
func (l *ovsLab) startDirectFarEnd(t *testing.T) (*control.Client, []string) {
	t.Helper()
	controlSocket, socket := filepath.Join(l.dir, "control-b.sock"), filepath.Join(l.dir, "app-b.sock")
	_, client := startDaemonOn(t, l.NodeB, controlSocket, topology.NodeAddressB)
	must(t, errors.Join(
		client.SocketAdd(t.Context(), "pod-b", socket),
		client.EndpointAdd(t.Context(), control.Endpoint{Identity: "pod-b", Interface: topology.PodInterface, Netns: l.PodB.Path(), VNI: topology.VNI}),
		client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA, Subnets: []netip.Prefix{topology.PodSubnetA}})))
	return client, append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+socket)
}

// stream is a series of messages from one pod to the other.
type stream struct {
	from, to       *topology.Namespace
	source, target netip.AddrPort
	timed          bool
	environment    []string
	*flow
}

func (s *stream) start(t *testing.T, count int) {
	t.Helper()
	s.flow = listenFor(t, s.to, s.target, count)
	arguments := []string{"talker", "--quiet", "--clock", "tai", "--csv", s.talkerFile, "--bind", s.source.String(), "--to", s.target.String(),
		"--count", strconv.Itoa(count), "--cycle", "2ms"}
	if !s.timed {
		arguments = append(arguments, "--no-txtime")
	}
	command := exec.Command(program(t, "tsnperf"), arguments...)
	command.Env = s.environment
	s.talker = start(t, s.from, "talker", command)
}

// check waits for the end and checks that each message arrived once, unchanged, from the talker's address, and that no
// timed one was early.
func (s *stream) check(t *testing.T, count int) {
	t.Helper()
	s.finish(t)
	if len(s.sent) != count {
		t.Errorf("%d messages were sent", len(s.sent))
	}
	came := map[uint32]bool{}
	for _, message := range s.received {
		if !message.Valid || message.Source != s.source || came[message.Sequence] {
			t.Errorf("from %s came %+v", s.source, message)
		}
		if s.timed && message.Arrival < message.Txtime {
			t.Errorf("message %d arrived %d ns before its time", message.Sequence, message.Txtime-message.Arrival)
		}
		came[message.Sequence] = true
	}
	if len(came) != count {
		t.Errorf("%d of %d messages arrived from %s", len(came), count, s.source)
	}
}

// TestNodesWithAndWithoutOpenVSwitch sends timed and other messages in both directions between node a with and node b
// without Open vSwitch.
func TestNodesWithAndWithoutOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	_, switched := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	direct, farEnvironment := lab.startDirectFarEnd(t)
	a, b := topology.PodAddressA, topology.PodAddressB
	const count = 300
	streams := map[string]*stream{
		"timed, into the tunnel of Open vSwitch": {from: lab.PodA, to: lab.PodB, source: netip.AddrPortFrom(a, 6001),
			target: netip.AddrPortFrom(b, 7001), timed: true, environment: lab.preloaded(t)},
		"timed, out of it": {from: lab.PodB, to: lab.PodA, source: netip.AddrPortFrom(b, 6002),
			target: netip.AddrPortFrom(a, 7002), timed: true, environment: farEnvironment},
		"ordinary, into it":   {from: lab.PodA, to: lab.PodB, source: netip.AddrPortFrom(a, 6003), target: netip.AddrPortFrom(b, 7003)},
		"ordinary, out of it": {from: lab.PodB, to: lab.PodA, source: netip.AddrPortFrom(b, 6004), target: netip.AddrPortFrom(a, 7004)},
	}
	for _, s := range streams {
		s.start(t, count)
	}
	for name, s := range streams {
		t.Run(name, func(t *testing.T) { s.check(t, count) })
	}
	for name, client := range map[string]*control.Client{"ovs": switched, "direct": direct} {
		if seen := awaitSettled(t, client); seen.Sent != count || seen.Dropped() != 0 {
			t.Errorf("the ktsnd with uplink %s sent %d and dropped %d", name, seen.Sent, seen.Dropped())
		}
	}
}

// TestMessagesGoThroughOpenVSwitchByAFXDP uses a card through an XDP socket of DPDK: the kernel has its name only.
func TestMessagesGoThroughOpenVSwitchByAFXDP(t *testing.T) {
	timing(t)
	if fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		testlab.Missing(t, "this kernel makes no XDP sockets: "+err.Error())
	} else if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	lab := newOVSNode(t)
	ip(t, lab.NodeA, "address", "del", topology.NodeAddressA.String()+"/24", "dev", topology.PhysicalInterface)
	options := append(lab.setup(), "--interface", "", "--device", "net_af_xdp0,iface="+topology.PhysicalInterface)
	lab.mustKtsn(t, "setup", options...)
	lab.attachPods(t)
	_, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	const count = 200
	seen := lab.run(t, traffic{count: count, payloadBytes: 64, environment: lab.preloaded(t)})
	checkAllArrived(t, seen, count)
	if counted := counters(t, client); counted.Sent != count || counted.Dropped() != 0 {
		t.Errorf("ktsnd sent %d and dropped %d", counted.Sent, counted.Dropped())
	}
	lab.checkAnswers(t)
	lab.mustKtsn(t, "teardown")
	must(t, lab.NodeA.Do(func() error {
		card, err := netlink.LinkByName(topology.PhysicalInterface)
		if err == nil && card.Attrs().Xdp != nil && card.Attrs().Xdp.Attached {
			t.Error("a program of XDP stays at the interface")
		}
		return err
	}))
}
