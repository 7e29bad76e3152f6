// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// kernelDaemon is the packaged ovs-vswitchd without DPDK.
const kernelDaemon = "/usr/lib/openvswitch-switch/ovs-vswitchd"

// vsctl runs ovs-vsctl on the node's database without waiting for ovs-vswitchd.
func (l *ovsLab) vsctl(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.Command("ovs-vsctl", append([]string{"--db=" + l.node.Database, "--no-wait", "--timeout=10"}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-vsctl %v: %v: %s", arguments, err, out)
	}
	return string(out)
}

// state returns everything that `ktsn ovs` can change.
func (l *ovsLab) state(t *testing.T) string {
	t.Helper()
	var state strings.Builder
	state.WriteString(l.vsctl(t, "--columns=name,external_ids", "list", "Bridge"))
	state.WriteString(l.vsctl(t, "--columns=name,tag,external_ids", "list", "Port"))
	state.WriteString(l.vsctl(t, "--columns=other_config,external_ids", "list", "Open_vSwitch"))
	must(t, l.NodeA.Do(func() error {
		answers, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + topology.PhysicalInterface + "/arp_ignore")
		if err != nil {
			return err
		}
		state.WriteString("arp_ignore " + string(answers))
		links, err := netdev.Dump(netlink.LinkList)
		if err != nil {
			return err
		}
		for _, link := range links {
			name := link.Attrs().Name
			if slices.Contains([]string{"ovs-netdev", "ovs-system"}, name) {
				continue // Open vSwitch creates them with its first bridge
			}
			addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			state.WriteString(name)
			for _, address := range addresses {
				state.WriteString(" " + address.IPNet.String())
			}
			state.WriteString("\n")
		}
		return nil
	}))
	return state.String()
}

// checkRefused runs setup, which must fail with the given message and change nothing.
func (l *ovsLab) checkRefused(t *testing.T, want string, options ...string) {
	t.Helper()
	before := l.state(t)
	output, err := l.ktsn(t, "setup", append(l.setup(), options...)...)
	if err == nil || !strings.Contains(output, want) || strings.Count(strings.TrimSpace(output), "\n") > 0 {
		t.Errorf("it ended with %v and printed %q, want %q", err, output, want)
	}
	if after := l.state(t); after != before {
		t.Errorf("it changed\n%s\ninto\n%s", before, after)
	}
}

func TestOpenVSwitchSetupAndTeardownLeaveNothing(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	fresh := lab.state(t)
	t.Run("a failed setup leaves nothing", func(t *testing.T) {
		// Before the first start of DPDK.
		lab.checkRefused(t, "needs 1000000 MB of hugepages", "--memory", "1000000")
		lab.checkRefused(t, "is not the run directory of the ovs-vswitchd that follows", "--run-dir", lab.dir)
		lab.checkRefused(t, "there is no such interface", "--interface", "eno9")
		lab.checkRefused(t, "has the address 192.0.2.1, which br-phy needs", "--interface", "", "--device", "net_af_packet9,iface=eno9")
		lab.checkRefused(t, "--device 0000:ff:1f.7: there is no such PCI device", "--interface", "", "--device", "0000:ff:1f.7")
		lab.checkRefused(t, "--device net_af_xdp0,iface=eno9: there is no interface eno9", "--interface", "", "--device", "net_af_xdp0,iface=eno9")
		ip(t, lab.NodeA, "route", "add", "203.0.113.0/24", "via", topology.NodeAddressB.String())
		lab.checkRefused(t, "phys0 has a route through the gateway 192.0.2.2")
		ip(t, lab.NodeA, "route", "del", "203.0.113.0/24")
		lab.checkRefused(t, "cannot open ktsn-phys", "--interface", "", "--device", "net_af_packet9,iface=eno9", "--address", "198.51.100.1/24")
	})
	lab.mustKtsn(t, "setup", lab.setup()...)
	first := lab.state(t)
	t.Run("a repeated setup changes nothing", func(t *testing.T) {
		if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil || output != "" {
			t.Errorf("%v: %s", err, output)
		}
		if again := lab.state(t); again != first {
			t.Errorf("it changed\n%s\ninto\n%s", first, again)
		}
	})
	t.Run("changed options are applied", func(t *testing.T) {
		lab.mustKtsn(t, "setup", append(lab.setup(), "--network", "7", "--peer", "192.0.2.9")...)
		state := lab.state(t)
		for _, want := range []string{"vx7-c0000202", "vx7-c0000209", "vx42-c0000209", "tsnov7", "tsnvx7"} {
			if !strings.Contains(state, want) {
				t.Errorf("there is no %s", want)
			}
		}
		output, err := lab.ktsn(t, "status")
		if err == nil || !strings.Contains(output, "not connected to ktsnd") || strings.Contains(output, "flows are missing") {
			t.Errorf("status reports %v: %s", err, output)
		}
	})
	t.Run("foreign changes are kept", func(t *testing.T) {
		lab.vsctl(t, "add-port", ovs.BridgeInternal, "foreign", "--", "set", "Interface", "foreign", "type=internal")
		lab.mustKtsn(t, "teardown")
		if ports := lab.vsctl(t, "list-ports", ovs.BridgeInternal); ports != "foreign\n" {
			t.Errorf("on br-int are %q", ports)
		}
		lab.vsctl(t, "del-port", ovs.BridgeInternal, "foreign")
	})
	lab.mustKtsn(t, "teardown")
	if after := lab.state(t); after != fresh {
		t.Errorf("of\n%s\nis left\n%s", fresh, after)
	}
}

// neighbor returns the hardware address of node a's tunnel address on node b, "" if unresolved. own is that of an
// interface of node a.
func (l *ovsLab) neighbor(t *testing.T, name string) (neighbor, local string) {
	t.Helper()
	err := l.NodeB.Do(func() error {
		known, err := netlink.NeighList(0, netlink.FAMILY_V4)
		for _, entry := range known {
			if entry.IP.String() == topology.NodeAddressA.String() {
				neighbor = entry.HardwareAddr.String()
			}
		}
		return err
	})
	if err == nil {
		err = l.NodeA.Do(func() error {
			link, err := netlink.LinkByName(name)
			if err == nil {
				local = link.Attrs().HardwareAddr.String()
			}
			return err
		})
	}
	must(t, err)
	return neighbor, local
}

// awaitNeighbor waits until node b sends node a's packets to that interface.
func (l *ovsLab) awaitNeighbor(t *testing.T, name string) {
	t.Helper()
	const soon = 5 * time.Second // far less than the kernel's neighbour timeout
	testlab.Eventually(t, soon, 10*time.Millisecond, func() error {
		neighbor, local := l.neighbor(t, name)
		if neighbor == local {
			return nil
		}
		return fmt.Errorf("node b has %s at %s, and %s is %s", topology.NodeAddressA, neighbor, name, local)
	})
}

// TestFailedOpenVSwitchTeardownContinues checks that a failed take-down reports it and that the next one completes it.
func TestFailedOpenVSwitchTeardownContinues(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	fresh := lab.state(t)
	lab.mustKtsn(t, "setup", lab.setup()...)
	lab.awaitNeighbor(t, ovs.BridgePhysical)
	const mark = "external_ids:kubernetsn-address-from="
	noted := strings.TrimSpace(lab.vsctl(t, "get", "Open_vSwitch", ".", "external_ids:kubernetsn-address-from"))
	lab.vsctl(t, "set", "Open_vSwitch", ".", mark+`"phys0 nowhere"`)
	if output, err := lab.ktsn(t, "teardown"); err == nil || !strings.Contains(output, "give phys0 its address back") {
		t.Fatalf("it ended with %v and printed %q", err, output)
	}
	if kept := lab.vsctl(t, "get", "Open_vSwitch", ".", "external_ids:kubernetsn-address-from"); !strings.Contains(kept, "nowhere") {
		t.Errorf("what there is to give back is forgotten: %q", kept)
	}
	lab.vsctl(t, "set", "Open_vSwitch", ".", mark+noted)
	lab.mustKtsn(t, "teardown")
	if after := lab.state(t); after != fresh {
		t.Errorf("of\n%s\nis left\n%s", fresh, after)
	}
	t.Run("the other node learns the address at once", func(t *testing.T) { lab.awaitNeighbor(t, topology.PhysicalInterface) })
}

func TestUnsuitableOpenVSwitchIsReported(t *testing.T) {
	timing(t)
	if _, err := os.Stat(kernelDaemon); err != nil {
		testlab.Missing(t, err.Error())
	}
	lab := newOVSNode(t, kernelDaemon)
	for version := ""; version == ""; { // until ovs-vswitchd has reported its version
		version = strings.TrimSpace(strings.Trim(lab.vsctl(t, "get", "Open_vSwitch", ".", "dpdk_version"), "[]\n"))
	}
	t.Run("built without DPDK", func(t *testing.T) { lab.checkRefused(t, "runs without DPDK") })
	t.Run("with a bridge of the kernel", func(t *testing.T) {
		must(t, lab.node.Kill())
		lab.vsctl(t, "add-br", ovs.BridgeInternal)
		lab.vsctl(t, "set", "Open_vSwitch", ".", `dpdk_version="DPDK 22.11"`)
		lab.checkRefused(t, "bridge br-int is there already and of the kernel's datapath")
	})
	t.Run("missing", func(t *testing.T) {
		lab.checkRefused(t, "the database of Open vSwitch does not answer", "--db", "unix:"+filepath.Join(lab.dir, "none"))
	})
}

func TestOpenVSwitchTeardownAfterItEnded(t *testing.T) {
	content(t) // it mostly waits, and its Open vSwitch rarely runs
	lab := newOVSNode(t)
	fresh := lab.state(t)
	kill := func() {
		t.Helper()
		must(t, lab.node.Kill())
	}
	const ended = "ovs-vswitchd does not run, or does not follow this database; start it"
	kill()
	t.Run("not set up", func(t *testing.T) { lab.checkRefused(t, ended) })
	must(t, lab.node.StartDaemon())
	lab.mustKtsn(t, "setup", lab.setup()...)
	kill()
	for _, command := range []string{"setup", "status"} {
		t.Run(command, func(t *testing.T) {
			var options []string
			if command == "setup" {
				options = lab.setup()
			}
			if output, err := lab.ktsn(t, command, options...); err == nil || !strings.Contains(output, ended) {
				t.Errorf("it ended with %v and printed %q", err, output)
			}
		})
	}
	if output, err := lab.ktsn(t, "teardown"); err != nil || output != "" {
		t.Errorf("teardown: %v: %s", err, output)
	}
	if after := lab.state(t); after != fresh {
		t.Errorf("of\n%s\nis left\n%s", fresh, after)
	}
	must(t, lab.node.StartDaemon())
	lab.mustKtsn(t, "setup", lab.setup()...)
}

// stopAfter starts setup and stops it with a signal after a while.
func (l *ovsLab) stopAfter(t *testing.T, wait time.Duration, signal os.Signal) {
	t.Helper()
	setup := start(t, l.NodeA, "ktsn ovs setup", l.ktsnCommand(t, "setup", l.setup()...))
	time.Sleep(wait)
	process, err := os.FindProcess(setup.PID())
	must(t, err)
	_ = process.Signal(signal) // it may have ended
	select {
	case <-setup.Done():
	case <-time.After(2 * patience):
		t.Fatalf("ktsn ovs setup continues after %v", signal)
	}
}

func TestInterruptedOpenVSwitchSetupLeavesNothing(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	fresh := lab.state(t)
	lab.mustKtsn(t, "setup", lab.setup()...) // for its duration from the second run on
	lab.mustKtsn(t, "teardown")
	begin := time.Now()
	lab.mustKtsn(t, "setup", lab.setup()...)
	whole, halfway := time.Since(begin), 0
	lab.mustKtsn(t, "teardown")
	const moments = 8
	for i := range moments {
		wait := whole * time.Duration(i) / moments
		lab.stopAfter(t, wait, syscall.SIGTERM)
		if after := lab.state(t); after != fresh && !lab.complete(t) {
			t.Errorf("terminated after %s: of\n%s\nis left\n%s", wait, fresh, after)
		}
		lab.mustKtsn(t, "teardown")
		lab.stopAfter(t, wait, os.Kill)
		if lab.state(t) != fresh {
			halfway++
		}
		if i%2 == 0 { // a partial setup is continued
			if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
				t.Errorf("killed after %s, and again: %v: %s", wait, err, output)
			}
		}
		lab.mustKtsn(t, "teardown")
		if after := lab.state(t); after != fresh {
			t.Errorf("killed after %s, and taken down: of\n%s\nis left\n%s", wait, fresh, after)
		}
	}
	t.Logf("setup takes %s; of %d that were killed %d left something, which teardown removed", whole, moments, halfway)
	if halfway == 0 {
		t.Error("no process was killed in between")
	}
}

// complete reports whether everything is set up except ktsnd, which does not run.
func (l *ovsLab) complete(t *testing.T) bool {
	t.Helper()
	output, _ := l.ktsn(t, "status")
	return strings.Contains(output, "not connected to ktsnd") && !strings.Contains(output, "flows are missing") && strings.Contains(output, "vx42-c0000202")
}

func TestInvalidOpenVSwitchSocketIsNamed(t *testing.T) {
	timing(t)
	lab := newLab(t)
	occupied := filepath.Join(lab.dir, "file")
	must(t, os.WriteFile(occupied, nil, 0o600))
	taken := filepath.Join(lab.dir, "taken.sock")
	listener, err := net.Listen("unix", taken)
	must(t, err)
	defer listener.Close()
	for name, test := range map[string]struct {
		path, want string
	}{
		"in a folder that is not there": {filepath.Join(lab.dir, "no", "v.sock"), "check that its folder exists"},
		"where a file is":               {occupied, "something that is not a socket is there"},
		"where somebody listens":        {taken, "a running process listens there"},
	} {
		t.Run(name, func(t *testing.T) {
			daemon := start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), append(lab.daemonArguments(), "--uplink", "ovs", "--vhost-socket", test.path)...))
			err := finish(t, daemon)
			if err == nil || !strings.Contains(daemon.Stderr(), test.path) || !strings.Contains(daemon.Stderr(), test.want) {
				t.Errorf("it ended with %v and printed %q, want %q", err, daemon.Stderr(), test.want)
			}
		})
	}
	t.Run("a network without a VLAN is rejected", func(t *testing.T) {
		socket := filepath.Join(lab.dir, "v.sock")
		_, client := lab.startUnattached(t, "--uplink", "ovs", "--vhost-socket", socket)
		err := client.EndpointAdd(t.Context(), control.Endpoint{Identity: identity, Interface: topology.PodInterface, Netns: lab.PodA.Path(),
			VNI: ovs.MaxNetwork + 1})
		testlab.CheckError(t, err, "carries networks 1 to 4094")
		info, err := os.Stat(socket)
		if err != nil || info.Mode().Perm() != 0o700 && info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is %v, %v", info, err)
		}
	})
}

// endsWithin is the time in which ktsnd must end, whatever Open vSwitch does.
const endsWithin = 5 * time.Second

// answerTimeout is the time for which ktsnd waits for an answer of Open vSwitch at its start.
const answerTimeout = 2 * time.Second

func interruptedWithin(t *testing.T, running *process.Process, most time.Duration) {
	t.Helper()
	begun := time.Now()
	interrupt(t, running)
	if took := time.Since(begun); took > most {
		t.Errorf("%s took %v to end", running.Name(), took)
	}
}

// stopAnswering stops ovs-vswitchd until the end of the test: its connections remain and are not read.
func (l *ovsLab) stopAnswering(t *testing.T) {
	t.Helper()
	must(t, l.node.Signal(syscall.SIGSTOP))
	t.Cleanup(func() {
		if err := l.node.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
}

// TestKtsndEndsWithStalledOpenVSwitch checks that ktsnd ends although DPDK would wait for Open vSwitch's position in
// the queues.
func TestKtsndEndsWithStalledOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	talker := lab.startTalker(t, filepath.Join(lab.Dir, "talker.csv"), "--cycle", "20ms", "--lead", "40ms")
	awaitTaken(t, client, 5)
	lab.stopAnswering(t)
	// Messages handed over from now on stay in the queue.
	awaitTaken(t, client, counters(t, client).Taken+20)
	interruptedWithin(t, daemon, endsWithin)
	if notFetched.FindString(daemon.Stderr()) == "" {
		t.Errorf("the log lacks the frames that were left: %s", daemon.Stderr())
	}
	if _, err := os.Stat(lab.node.VhostSocket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is still there: %v", err)
	}
	interrupt(t, talker)
}

// connectSilently connects to a vhost-user socket `times` times as soon as it exists and answers nothing.
func connectSilently(t *testing.T, path string, times int) {
	t.Helper()
	ctx, done := t.Context(), make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for range times {
			connection := dialUntil(ctx, path)
			if connection == nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
			_, _ = io.Copy(io.Discard, connection) // until ktsnd ends it
			stop()
			_ = connection.Close()
			time.Sleep(20 * time.Millisecond) // avoids the socket that ktsnd is about to remove
		}
	}()
}

// dialUntil retries until it is connected. It returns nil when ctx is done.
func dialUntil(ctx context.Context, path string) net.Conn {
	for ctx.Err() == nil {
		if connection, err := net.Dial("unix", path); err == nil {
			return connection
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// startSilenced starts a ktsnd to whose vhost-user socket a silent client connects.
func startSilenced(t *testing.T, times int) *process.Process {
	t.Helper()
	lab := newLab(t)
	vhost := filepath.Join(lab.dir, "vhost.sock")
	connectSilently(t, vhost, times)
	return start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), "--uplink", "ovs", "--interface", topology.PhysicalInterface,
		"--control", lab.control, "--vhost-socket", vhost))
}

// silentTries is the number of attempts: sometimes ktsnd's own connection comes before the silent client.
const silentTries = 3

// TestKtsndStartsWithStalledOpenVSwitch checks that ktsnd starts and handles signals although DPDK would wait for the
// first client's answers.
func TestKtsndStartsWithStalledOpenVSwitch(t *testing.T) {
	content(t)
	var took time.Duration
	for range silentTries {
		began := time.Now()
		daemon := startSilenced(t, 1)
		awaitLog(t, daemon, "ready: sending")
		took = time.Since(began)
		interruptedWithin(t, daemon, endsWithin)
		if took >= answerTimeout {
			return
		}
	}
	t.Errorf("ktsnd waited only %v for an answer", took)
}

func TestKtsndFailsWithoutOpenVSwitchAnswer(t *testing.T) {
	timing(t)
	t.Parallel()
	for range silentTries {
		began := time.Now()
		daemon := startSilenced(t, math.MaxInt)
		for !strings.Contains(daemon.Stderr(), "ready: sending") {
			select {
			case <-daemon.Done():
				checkUnanswered(t, daemon, time.Since(began))
				return
			case <-time.After(10 * time.Millisecond):
			}
			if time.Since(began) > patience {
				t.Fatalf("ktsnd neither starts nor ends; its log: %s", daemon.Stderr())
			}
		}
		interruptedWithin(t, daemon, endsWithin)
	}
	t.Error("ktsnd started each time")
}

func checkUnanswered(t *testing.T, daemon *process.Process, took time.Duration) {
	t.Helper()
	const attempts = 3
	var exit *exec.ExitError
	if err := daemon.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ktsnd ends with %v, want status 1", err)
	}
	if took < attempts*answerTimeout {
		t.Errorf("ktsnd ends after %v, want %d attempts of %v each", took, attempts, answerTimeout)
	}
	if !strings.Contains(daemon.Stderr(), "does not answer") {
		t.Errorf("ktsnd reports %s", daemon.Stderr())
	}
}

// replacements is the result of a flow during several replacements of ktsnd.
type replacements struct {
	*flow
	counted sum
	// pauses are the times without departures in the successors' logs, gaps those without arrivals.
	pauses, gaps []time.Duration
	// log contains the logs of all ktsnds.
	log string
}

// gapsIn returns the longest gap between arrivals in each period.
func gapsIn(received []tsnperf.Received, periods [][2]int64) []time.Duration {
	gaps := make([]time.Duration, len(periods))
	for i := 1; i < len(received); i++ {
		from, to := received[i-1].Arrival, received[i].Arrival
		for n, period := range periods {
			if to > period[0] && from < period[1] {
				gaps[n] = max(gaps[n], time.Duration(to-from))
			}
		}
	}
	return gaps
}

// replaceUnderLoad sends a message a millisecond while ktsnd is replaced several times by a ktsnd that logs the given
// line.
func (l *lab) replaceUnderLoad(t *testing.T, daemon *process.Process, client *control.Client, times int, says string, options ...string) *replacements {
	t.Helper()
	result := &replacements{flow: l.startFlow(t, "--cycle", "1ms", "--lead", "20ms")}
	var periods [][2]int64
	for range times {
		awaitTaken(t, client, 200)
		begin, before := testlab.ClockNow(unix.CLOCK_TAI), daemon
		daemon, client = l.takeOver(t, daemon, options...)
		result.pauses = append(result.pauses, departurePause(t, daemon))
		awaitLog(t, daemon, says)
		result.log += before.Stderr()
		periods = append(periods, [2]int64{begin, testlab.ClockNow(unix.CLOCK_TAI)})
	}
	awaitTaken(t, client, 200)
	result.counted.add(result.end(t, client))
	result.log += daemon.Stderr()
	result.gaps = gapsIn(result.received, periods)
	return result
}

func (r *replacements) record(t *testing.T, port string) {
	t.Helper()
	name := "replaced in place over " + port + ": "
	record(t,
		reported(name+"pause in departures, p50", milliseconds(quantile(r.pauses, 0.5)), "ms"),
		reported(name+"pause in departures, max", milliseconds(quantile(r.pauses, 1)), "ms"),
		reported(name+"gap between arrivals, p50", milliseconds(quantile(r.gaps, 0.5)), "ms"),
		reported(name+"gap between arrivals, max", milliseconds(quantile(r.gaps, 1)), "ms"),
		reported(name+"messages lost", float64(len(r.lost(t))), ""))
}

// TestReplaceUnderLoadKeepsOpenVSwitch checks that no message is lost: Open vSwitch connects to the successor before
// its predecessor disconnects, and the predecessor ends when Open vSwitch has fetched everything.
func TestReplaceUnderLoadKeepsOpenVSwitch(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	result := lab.replaceUnderLoad(t, daemon, client, shortOrLong(3, 25), "Open vSwitch is connected", lab.uplink()...)
	if counted := result.counted; counted.uncertain != 0 || counted.dropped != 0 || counted.astray != 0 {
		t.Errorf("%d messages are uncertain, %d dropped, %d went the kernel's way", counted.uncertain, counted.dropped, counted.astray)
	}
	// If Open vSwitch stalls for --stale-after, as on a busy machine, frames are withdrawn, and the next message, which the
	// port rejected first, is dropped.
	frames, times := withdrawnIn(t, result.log)
	if lost := result.lost(t); len(lost) > frames+times {
		t.Errorf("of %d messages %d were lost, %d frames of them withdrawn in %d standstills: %d", len(result.sent), len(lost), frames, times, lost)
	}
	if strings.Contains(result.log, "has not fetched") {
		t.Errorf("a ktsnd that was replaced did not wait until Open vSwitch had fetched all; they say: %s", result.log)
	}
	if strings.Contains(result.log, "is not connected") {
		t.Errorf("Open vSwitch was not connected when a ktsnd took over; they say: %s", result.log)
	}
	lab.awaitConnected(t)
	result.record(t, "OVS")
}

// notFetched is the log line about frames that Open vSwitch had not fetched when ktsnd ended.
var notFetched = regexp.MustCompile(`Open vSwitch has not fetched the last (\d+) frames`)

func TestReplacedKtsndReportsFramesNotFetched(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	daemon, client := lab.startOVSDaemon(t)
	lab.awaitConnected(t)
	talker := lab.startTalker(t, filepath.Join(lab.Dir, "talker.csv"), "--cycle", "20ms", "--lead", "40ms")
	awaitCounters(t, client, "messages are sent", func(c control.Counters) bool { return c.Sent >= 5 })
	lab.stopAnswering(t)
	// It waits for Open vSwitch until the timeout and continues.
	lab.takeOver(t, daemon, lab.uplink()...)
	interrupt(t, talker)
	match := notFetched.FindStringSubmatch(daemon.Stderr())
	if match == nil {
		t.Fatalf("the log lacks it: %s", daemon.Stderr())
	}
	// Within --stale-after it notices that Open vSwitch fetches nothing, and adds no more frames to the queue.
	const queue = 512
	if count, err := strconv.Atoi(match[1]); err != nil || count < 1 || count > queue {
		t.Errorf("with a message each 20 ms, it is %s frames", match[1])
	}
}

// TestTakeOverWithSingleOpenVSwitchSocket uses the configuration of an older `ktsn ovs setup`: Open vSwitch has a
// single socket name and connects to the successor when it has lost the predecessor.
func TestTakeOverWithSingleOpenVSwitchSocket(t *testing.T) {
	timing(t)
	lab := newOVSLab(t)
	lab.vsctl(t, "del-port", ovs.BridgeInternal, "ktsnd2")
	daemon, client := lab.startOVSDaemon(t)
	awaitLog(t, daemon, "Open vSwitch is connected")
	result := lab.replaceUnderLoad(t, daemon, client, 1, "Open vSwitch is connected to "+lab.node.VhostSocket()+"\n", lab.uplink()...)
	output, err := lab.ktsn(t, "status")
	if err == nil || !strings.Contains(output, "there is no port ktsnd2 on br-int") {
		t.Errorf("status lacks what is missing: %v, %s", err, output)
	}
	t.Logf("%d sent, %d lost", len(result.sent), len(result.lost(t)))
	result.checkWentOn(t, 20)
	lab.mustKtsn(t, "setup", lab.setup()...)
	lab.awaitConnected(t)
}
