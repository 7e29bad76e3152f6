// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// eth0 is an interface of a pod from another plugin.
const eth0 = "eth0"

var (
	eth0Address = netip.MustParsePrefix("10.244.0.2/24")
	eth0Peer    = netip.MustParsePrefix("10.244.0.1/24")
)

// addEth0 gives a pod the interface eth0, and returns the namespace of the other end.
func addEth0(t *testing.T, lab *lab, pod *pod) *topology.Namespace {
	t.Helper()
	outside := lab.namespace(t, "outside")
	command := exec.Command("ip", "-n", pod.Name(), "link", "add", eth0, "type", "veth", "peer", "name", eth0, "netns", outside.Name())
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, end := range []struct {
		where   *topology.Namespace
		address netip.Prefix
	}{{pod.Namespace, eth0Address}, {outside, eth0Peer}} {
		must(t, end.where.Do(func() error {
			if err := topology.AddAddress(eth0, end.address); err != nil {
				return err
			}
			return topology.SetUp(eth0)
		}))
	}
	return outside
}

// sendTimed sends a datagram through eth0, with a transmit time of 200 ms from now or without one.
func sendTimed(t *testing.T, pod *pod, text string, timed bool) {
	t.Helper()
	must(t, pod.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := testlab.EnableTxtime(fd, unix.CLOCK_MONOTONIC); err != nil {
			return err
		}
		var control []byte
		if timed {
			control = testlab.TxtimeMessage(testlab.ClockNow(unix.CLOCK_MONOTONIC) + 2e8)
		}
		return unix.Sendmsg(fd, []byte(text), control, &unix.SockaddrInet4{Addr: eth0Peer.Addr().As4(), Port: 7788}, 0)
	}))
}

// arrivesFirst checks which datagram arrives first.
func arrivesFirst(t *testing.T, conn net.PacketConn, want string) {
	t.Helper()
	buffer := make([]byte, 100)
	length, _, err := conn.ReadFrom(buffer)
	must(t, err)
	if got := string(buffer[:length]); got != want {
		t.Errorf("%q arrived, want %q", got, want)
	}
}

func refusedAt(t *testing.T, pod *pod, interfaceName string) capture.Count {
	t.Helper()
	count, err := capture.ReadIn(pod.Path(), interfaceName)
	must(t, err)
	return count
}

// TestOtherInterfaceDropsTimedMessages checks that a program without libktsn.so sends nothing early through eth0, also after the interface
// of the network was removed under it, and that the filter of another program stays.
func TestOtherInterfaceDropsTimedMessages(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	outside := addEth0(t, lab, pod)
	conn := within(t, outside, func() (net.PacketConn, error) { return net.ListenPacket("udp4", "10.244.0.1:7788") })
	defer conn.Close()
	foreign(t, pod, -1) // TC_ACT_UNSPEC
	config := lab.a.config(nil)
	pod.add(t, config)

	sendTimed(t, pod, "timed", true)
	sendTimed(t, pod, "untimed", false)
	arrivesFirst(t, conn, "untimed")
	if count := refusedAt(t, pod, eth0); count.Refused[capture.ReasonNotCaptured] != 1 {
		t.Errorf("the counters of %s are %+v", eth0, count)
	}
	if output := lab.a.ktsn(t, "node", "capture"); !strings.Contains(output, eth0) || !strings.Contains(output, "1 "+capture.ReasonNotCaptured) {
		t.Errorf("`ktsn node capture` does not show %s:\n%s", eth0, output)
	}
	pod.del(t, config)
	sendTimed(t, pod, "timed", true)
	sendTimed(t, pod, "after DEL", false)
	arrivesFirst(t, conn, "after DEL")
	on(t, pod.Namespace, eth0, func(link netlink.Link) error {
		filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_EGRESS)
		if err == nil && len(filters) != 2 {
			err = fmt.Errorf("%s has %d filters, want ours and the other program's", eth0, len(filters))
		}
		return err
	})
}

// TestOtherInterfaceWithFilterThatAccepts checks that an interface is not shown as guarded where an earlier filter of another program lets
// timed messages leave.
func TestOtherInterfaceWithFilterThatAccepts(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	outside := addEth0(t, lab, pod)
	conn := within(t, outside, func() (net.PacketConn, error) { return net.ListenPacket("udp4", "10.244.0.1:7788") })
	defer conn.Close()
	pod.add(t, lab.a.config(nil))
	if output := lab.a.ktsn(t, "node", "capture"); strings.Contains(output, "not guarded") {
		t.Errorf("without the other filter `ktsn node capture` shows:\n%s", output)
	}
	on(t, pod.Namespace, eth0, func(link netlink.Link) error { return netlink.QdiscDel(netdev.Clsact(link)) })
	foreign(t, pod, 0) // TC_ACT_OK
	lab.a.ktsn(t, "node", "restore")
	sendTimed(t, pod, "timed", true)
	arrivesFirst(t, conn, "timed") // otherwise the rest proves nothing
	if output := lab.a.ktsn(t, "node", "capture"); !strings.Contains(output, "None, not guarded") {
		t.Errorf("`ktsn node capture` shows:\n%s", output)
	}
}

// TestInterfacesOnTheNetworkAreLeftAlone checks that a macvlan on the network's interface does not drop what that interface
// captures.
func TestInterfacesOnTheNetworkAreLeftAlone(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	addEth0(t, lab, pod)
	pod.add(t, lab.a.config(nil))
	for name, parent := range map[string]string{"mac0": podIf, "mac1": eth0} {
		on(t, pod.Namespace, parent, func(link netlink.Link) error {
			attributes := netlink.NewLinkAttrs()
			attributes.Name, attributes.ParentIndex = name, link.Attrs().Index
			return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attributes, Mode: netlink.MACVLAN_MODE_BRIDGE})
		})
	}
	lab.a.ktsn(t, "node", "restore")
	for name, guarded := range map[string]bool{"mac0": false, "mac1": true} {
		if refusedAt(t, pod, name).Attached != guarded {
			t.Errorf("%s has the program: %v", name, !guarded)
		}
	}
}

// foreign attaches the filter of another program to eth0.
func foreign(t *testing.T, pod *pod, verdict int32) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, verdict), asm.Return(),
	}})
	must(t, err)
	defer program.Close()
	on(t, pod.Namespace, eth0, func(link netlink.Link) error {
		return netdev.Filter{Side: netdev.Egress, Priority: 1, Name: "foreign"}.Attach(netdev.Here, link, program)
	})
}

func TestOtherInterfaceOfPodThatMayLeaveOffTheNetwork(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for name, args := range map[string]fields{"off the network": {"offNetwork": "pass"}, "unseen": {"unseen": "pass"}} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			outside := addEth0(t, lab, pod)
			conn := within(t, outside, func() (net.PacketConn, error) { return net.ListenPacket("udp4", "10.244.0.1:7788") })
			defer conn.Close()
			pod.add(t, lab.a.config(fields{"args": fields{"cni": args}}))
			lab.a.ktsn(t, "node", "restore")
			sendTimed(t, pod, "timed", true)
			arrivesFirst(t, conn, "timed")
			if refusedAt(t, pod, eth0).Attached {
				t.Errorf("%s has the filter", eth0)
			}
		})
	}
}

// TestOtherInterfaceIsGuardedAgain checks that `ktsn node restore` guards interfaces that were added after the network's.
func TestOtherInterfaceIsGuardedAgain(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	pod.add(t, lab.a.config(nil))
	addEth0(t, lab, pod)
	lab.a.ktsn(t, "node", "restore")
	if count := refusedAt(t, pod, eth0); !count.Attached || count.Mode != capture.None {
		t.Errorf("the counters of %s are %+v", eth0, count)
	}
}

// TestMulticastRoutes checks that the kernel sends multicast without a named interface through the network with the routes, although eth0
// has the default route.
func TestMulticastRoutes(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	addEth0(t, lab, pod)
	must(t, pod.Do(func() error {
		link, err := netlink.LinkByName(eth0)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IP(eth0Peer.Addr().AsSlice())})
	}))
	config := lab.a.config(fields{"ipam": fields{"type": "static", "addresses": []fields{{"address": "10.42.1.2/16"}, {"address": "fd42::2/64"}},
		"routes": []fields{{"dst": "224.0.0.0/4"}, {"dst": "ff00::/8"}}}})
	pod.add(t, config)
	for _, group := range []string{"239.1.2.3", "ff15::1"} {
		must(t, pod.Do(func() error {
			routes, err := netlink.RouteGet(net.ParseIP(group))
			if err != nil {
				return err
			}
			link, err := netlink.LinkByIndex(routes[0].LinkIndex)
			if err == nil && link.Attrs().Name != podIf {
				err = fmt.Errorf("%s goes through %s", group, link.Attrs().Name)
			}
			return err
		}))
	}
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
}
