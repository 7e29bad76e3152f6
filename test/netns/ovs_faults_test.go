// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/ovs"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// kernelDaemon is where packages have an ovs-vswitchd that was built without DPDK.
const kernelDaemon = "/usr/lib/openvswitch-switch/ovs-vswitchd"

// vsctl runs ovs-vsctl on the node's database, and does not wait for ovs-vswitchd.
func (l *ovsLab) vsctl(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.Command("ovs-vsctl", append([]string{"--db=" + l.node.Database, "--no-wait", "--timeout=10"}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-vsctl %v: %v: %s", arguments, err, out)
	}
	return string(out)
}

// state is all that `ktsn ovs` can change.
func (l *ovsLab) state(t *testing.T) string {
	t.Helper()
	var state strings.Builder
	state.WriteString(l.vsctl(t, "--columns=name,external_ids", "list", "Bridge"))
	state.WriteString(l.vsctl(t, "--columns=name,tag,external_ids", "list", "Port"))
	state.WriteString(l.vsctl(t, "--columns=other_config,external_ids", "list", "Open_vSwitch"))
	err := l.NodeA.Do(func() error {
		answers, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + topology.PhysicalInterface + "/arp_ignore")
		if err != nil {
			return err
		}
		state.WriteString("arp_ignore " + string(answers))
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, link := range links {
			name := link.Attrs().Name
			if slices.Contains([]string{"ovs-netdev", "ovs-system"}, name) {
				continue // Open vSwitch's own, which come with its first bridge
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
	})
	if err != nil {
		t.Fatal(err)
	}
	return state.String()
}

// refused runs setup, which must fail with that sentence and leave everything as it was.
func (l *ovsLab) refused(t *testing.T, want string, options ...string) {
	t.Helper()
	before := l.state(t)
	output, err := l.ktsn(t, "setup", append(l.setup(), options...)...)
	if err == nil || !strings.Contains(output, want) || strings.Count(strings.TrimSpace(output), "\n") > 0 {
		t.Errorf("it ended with %v and said %q, want %q", err, output, want)
	}
	if after := l.state(t); after != before {
		t.Errorf("it changed\n%s\ninto\n%s", before, after)
	}
}

func TestOpenVSwitchSetupAndTeardownLeaveNothing(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.Start(t.Context(), lab.Topology) })
	fresh := lab.state(t)
	t.Run("where something is in the way, nothing is left", func(t *testing.T) {
		// Before DPDK is started for the first time.
		lab.refused(t, "needs 1000000 MB of hugepages", "--memory", "1000000")
		lab.refused(t, "is not the run directory of the ovs-vswitchd that follows", "--run-dir", lab.dir)
		lab.refused(t, "there is no such interface", "--interface", "eno9")
		lab.refused(t, "has the address 192.0.2.1, which br-phy needs", "--interface", "", "--device", "net_af_packet9,iface=eno9")
		lab.refused(t, "--device 0000:ff:1f.7: there is no such PCI device", "--interface", "", "--device", "0000:ff:1f.7")
		lab.refused(t, "--device net_af_xdp0,iface=eno9: there is no interface eno9", "--interface", "", "--device", "net_af_xdp0,iface=eno9")
		ip(t, lab.NodeA, "route", "add", "203.0.113.0/24", "via", topology.NodeAddressB.String())
		lab.refused(t, "phys0 has a route through the gateway 192.0.2.2")
		ip(t, lab.NodeA, "route", "del", "203.0.113.0/24")
		lab.refused(t, "cannot open ktsn-phys", "--interface", "", "--device", "net_af_packet9,iface=eno9", "--address", "198.51.100.1/24")
	})
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	first := lab.state(t)
	t.Run("repeated, it changes nothing", func(t *testing.T) {
		if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil || output != "" {
			t.Errorf("%v: %s", err, output)
		}
		if again := lab.state(t); again != first {
			t.Errorf("it changed\n%s\ninto\n%s", first, again)
		}
	})
	t.Run("with other options, it follows them", func(t *testing.T) {
		if output, err := lab.ktsn(t, "setup", append(lab.setup(), "--network", "7", "--peer", "192.0.2.9")...); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		state := lab.state(t)
		for _, want := range []string{"vx7-c0000202", "vx7-c0000209", "vx42-c0000209", "tsnov7", "tsnvx7"} {
			if !strings.Contains(state, want) {
				t.Errorf("there is no %s", want)
			}
		}
		output, err := lab.ktsn(t, "status")
		if err == nil || !strings.Contains(output, "not connected to ktsnd") || strings.Contains(output, "flows are missing") {
			t.Errorf("status says %v: %s", err, output)
		}
	})
	t.Run("and what somebody else added stays", func(t *testing.T) {
		lab.vsctl(t, "add-port", ovs.BridgeInternal, "foreign", "--", "set", "Interface", "foreign", "type=internal")
		if output, err := lab.ktsn(t, "teardown"); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if ports := lab.vsctl(t, "list-ports", ovs.BridgeInternal); ports != "foreign\n" {
			t.Errorf("on br-int are %q", ports)
		}
		lab.vsctl(t, "del-port", ovs.BridgeInternal, "foreign")
	})
	if output, err := lab.ktsn(t, "teardown"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if after := lab.state(t); after != fresh {
		t.Errorf("of\n%s\nis left\n%s", fresh, after)
	}
}

// neighbor is where node b has the tunnel's address of node a, "" when it does not know; own is where an interface of node a is.
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
	if err != nil {
		t.Fatal(err)
	}
	return neighbor, local
}

// awaitNeighbor waits until node b sends to that interface what is for node a.
func (l *ovsLab) awaitNeighbor(t *testing.T, name string) {
	t.Helper()
	const soon = 5 * time.Second // far less than the kernel takes to doubt what it knows
	testlab.Eventually(t, soon, 10*time.Millisecond, func() error {
		neighbor, local := l.neighbor(t, name)
		if neighbor == local {
			return nil
		}
		return fmt.Errorf("node b has %s at %s, and %s is %s", topology.NodeAddressA, neighbor, name, local)
	})
}

// A take-down that could not give everything back says so, and the next one does.
func TestFailedOpenVSwitchTeardownContinues(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.Start(t.Context(), lab.Topology) })
	fresh := lab.state(t)
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	lab.awaitNeighbor(t, ovs.BridgePhysical)
	const mark = "external_ids:kubernetsn-address-from="
	noted := strings.TrimSpace(lab.vsctl(t, "get", "Open_vSwitch", ".", "external_ids:kubernetsn-address-from"))
	lab.vsctl(t, "set", "Open_vSwitch", ".", mark+`"phys0 nowhere"`)
	if output, err := lab.ktsn(t, "teardown"); err == nil || !strings.Contains(output, "give phys0 its address back") {
		t.Fatalf("it ended with %v and said %q", err, output)
	}
	if kept := lab.vsctl(t, "get", "Open_vSwitch", ".", "external_ids:kubernetsn-address-from"); !strings.Contains(kept, "nowhere") {
		t.Errorf("what there is to give back is forgotten: %q", kept)
	}
	lab.vsctl(t, "set", "Open_vSwitch", ".", mark+noted)
	if output, err := lab.ktsn(t, "teardown"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if after := lab.state(t); after != fresh {
		t.Errorf("of\n%s\nis left\n%s", fresh, after)
	}
	t.Run("and the other node knows at once where the address is", func(t *testing.T) { lab.awaitNeighbor(t, topology.PhysicalInterface) })
}

func TestUnsuitableOpenVSwitchIsReported(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	if _, err := os.Stat(kernelDaemon); err != nil {
		testlab.Missing(t, err.Error())
	}
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.StartProgram(t.Context(), lab.Topology, kernelDaemon) })
	for version := ""; version == ""; { // until ovs-vswitchd has said what it is
		version = strings.TrimSpace(strings.Trim(lab.vsctl(t, "get", "Open_vSwitch", ".", "dpdk_version"), "[]\n"))
	}
	t.Run("built without DPDK", func(t *testing.T) { lab.refused(t, "runs without DPDK") })
	t.Run("with a bridge of the kernel", func(t *testing.T) {
		if err := lab.node.Kill(); err != nil {
			t.Fatal(err)
		}
		lab.vsctl(t, "add-br", ovs.BridgeInternal)
		lab.vsctl(t, "set", "Open_vSwitch", ".", `dpdk_version="DPDK 22.11"`)
		lab.refused(t, "bridge br-int is there already and of the kernel's datapath")
	})
	t.Run("or is not there", func(t *testing.T) {
		lab.refused(t, "the database of Open vSwitch does not answer", "--db", "unix:"+filepath.Join(lab.dir, "none"))
	})
}

func TestOpenVSwitchTeardownAfterItEnded(t *testing.T) {
	content(t) // it waits for what has ended, and its Open vSwitch hardly runs
	lab := newOVSNode(t)
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.Start(t.Context(), lab.Topology) })
	fresh := lab.state(t)
	kill := func() {
		t.Helper()
		if err := lab.node.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	const ended = "ovs-vswitchd does not run, or does not follow this database; start it"
	kill()
	t.Run("nothing is set up", func(t *testing.T) { lab.refused(t, ended) })
	if err := lab.node.StartDaemon(); err != nil {
		t.Fatal(err)
	}
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	kill()
	for _, command := range []string{"setup", "status"} {
		t.Run(command, func(t *testing.T) {
			var options []string
			if command == "setup" {
				options = lab.setup()
			}
			if output, err := lab.ktsn(t, command, options...); err == nil || !strings.Contains(output, ended) {
				t.Errorf("it ended with %v and said %q", err, output)
			}
		})
	}
	if output, err := lab.ktsn(t, "teardown"); err != nil || output != "" {
		t.Errorf("teardown: %v: %s", err, output)
	}
	if after := lab.state(t); after != fresh {
		t.Errorf("of\n%s\nis left\n%s", fresh, after)
	}
	if err := lab.node.StartDaemon(); err != nil {
		t.Fatal(err)
	}
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
		t.Errorf("and set up again: %v: %s", err, output)
	}
}

// stopAfter begins to set up, and ends that with a signal after a while.
func (l *ovsLab) stopAfter(t *testing.T, wait time.Duration, signal os.Signal) {
	t.Helper()
	setup := start(t, l.NodeA, "ktsn ovs setup", l.ktsnCommand(t, "setup", l.setup()...))
	time.Sleep(wait)
	process, err := os.FindProcess(setup.PID())
	if err != nil {
		t.Fatal(err)
	}
	_ = process.Signal(signal) // it may have ended
	select {
	case <-setup.Done():
	case <-time.After(2 * patience):
		t.Fatalf("ktsn ovs setup goes on after %v", signal)
	}
}

func TestInterruptedOpenVSwitchSetupLeavesNothing(t *testing.T) {
	timing(t)
	lab := newOVSNode(t)
	lab.start(t, func() (*ovsnode.Node, error) { return ovsnode.Start(t.Context(), lab.Topology) })
	fresh := lab.state(t)
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil { // how long it takes, from the second time on
		t.Fatalf("%v: %s", err, output)
	}
	if output, err := lab.ktsn(t, "teardown"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	begin := time.Now()
	if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	whole, halfway := time.Since(begin), 0
	if output, err := lab.ktsn(t, "teardown"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	const moments = 8
	for i := range moments {
		wait := whole * time.Duration(i) / moments
		lab.stopAfter(t, wait, syscall.SIGTERM)
		if after := lab.state(t); after != fresh && !lab.complete(t) {
			t.Errorf("told to end after %s: of\n%s\nis left\n%s", wait, fresh, after)
		}
		if output, err := lab.ktsn(t, "teardown"); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		lab.stopAfter(t, wait, os.Kill)
		if lab.state(t) != fresh {
			halfway++
		}
		if i%2 == 0 { // what was begun is gone on with
			if output, err := lab.ktsn(t, "setup", lab.setup()...); err != nil {
				t.Errorf("killed after %s, and again: %v: %s", wait, err, output)
			}
		}
		if output, err := lab.ktsn(t, "teardown"); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if after := lab.state(t); after != fresh {
			t.Errorf("killed after %s, and taken down: of\n%s\nis left\n%s", wait, fresh, after)
		}
	}
	t.Logf("setup takes %s; of %d that were killed %d left something, which teardown removed", whole, moments, halfway)
	if halfway == 0 {
		t.Error("nobody was killed half-way")
	}
}

// complete tells whether everything is set up but for ktsnd, who is not there.
func (l *ovsLab) complete(t *testing.T) bool {
	t.Helper()
	output, _ := l.ktsn(t, "status")
	return strings.Contains(output, "not connected to ktsnd") && !strings.Contains(output, "flows are missing") && strings.Contains(output, "vx42-c0000202")
}

func TestInvalidOpenVSwitchSocketIsNamed(t *testing.T) {
	timing(t)
	lab := newLab(t)
	occupied := filepath.Join(lab.dir, "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(lab.dir, "taken.sock")
	listener, err := net.Listen("unix", taken)
	if err != nil {
		t.Fatal(err)
	}
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
				t.Errorf("it ended with %v and said %q, want %q", err, daemon.Stderr(), test.want)
			}
		})
	}
	t.Run("and a network that has no VLAN is refused", func(t *testing.T) {
		socket := filepath.Join(lab.dir, "v.sock")
		daemon := start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), append(lab.daemonArguments(), "--uplink", "ovs", "--vhost-socket", socket)...))
		client := connect(t, daemon, lab.control)
		err := client.EndpointAdd(t.Context(), control.Endpoint{Identity: identity, Interface: topology.PodInterface, Netns: lab.PodA.Path(),
			VNI: ovs.MaxNetwork + 1})
		if err == nil || !strings.Contains(err.Error(), "carries networks 1 to 4094") {
			t.Errorf("it says %v", err)
		}
		info, err := os.Stat(socket)
		if err != nil || info.Mode().Perm() != 0o700 && info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is %v, %v", info, err)
		}
	})
}
