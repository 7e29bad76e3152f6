// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"bytes"
	"encoding/binary"
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

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// address is an address of each family.
type address struct{ ipv4, ipv6 netip.Addr }

var (
	ofPodA  = address{topology.PodAddressA, podAddress6A}
	ofPodB  = address{topology.PodAddressB, podAddress6B}
	ofTap   = address{neighborAddress, netip.MustParseAddr("fd00:42:1::3")}
	ofVhost = address{netip.MustParseAddr("10.42.1.4"), netip.MustParseAddr("fd00:42:1::4")}
	ofOther = address{netip.MustParseAddr("10.42.2.3"), netip.MustParseAddr("fd00:42:2::3")}
)

// both returns both addresses as on a command line.
func (a address) both() []netip.Addr { return []netip.Addr{a.ipv4, a.ipv6} }

// otherName is the machine of node b.
var otherName = "w" + machineName[1:]

const (
	// vhostPod is the pod of node a's machine for vhost-user.
	vhostPod = "test-vhost"
	// tapDevice and vhostDevice are the interfaces in the machines. The latter has its own network namespace, so that no
	// frame uses the wrong one.
	tapDevice, vhostDevice = "tap0", "vhost0"
	inVhost                = "ip netns exec vhost "
)

// machines are two of them, a node each, whose frames are all captured:
//
//	node a: one with two processors; two queues at a tap, two by vhost-user
//	node b: one with one processor and one queue, at a tap
type machines struct {
	// whole is the test to which all parts belong.
	whole *testing.T
	// a and b are the lab from each node's point of view.
	a, b *captured
	// tap and otherAttachment are the attachments of machine and otherMachine.
	machine, otherMachine *session
	tap, otherAttachment  *virtualMachine
	// vhost is the pod for vhost-user, relays the process that runs its relay.
	vhost     *topology.Namespace
	vhostMAC  net.HardwareAddr
	vhostPath string
	relays    *process.Process
	// page is the file of the memory shared by machine and test. clock serves the time to the machine.
	page  string
	clock *process.Process
}

// seenFromB returns the lab with its nodes exchanged.
func (c *captured) seenFromB(t *testing.T) *captured {
	t.Helper()
	exchanged := *c.Topology
	exchanged.NodeA, exchanged.NodeB, exchanged.PodA, exchanged.PodB = c.NodeB, c.NodeA, c.PodB, c.PodA
	dir := publicDir(t)
	return &captured{
		lab:    &lab{Topology: &exchanged, dir: dir, control: filepath.Join(dir, "control.sock")},
		wiring: &cniruntime.Wiring{A: c.wiring.B, B: c.wiring.A},
	}
}

// newMachines returns when both machines accept commands and have their addresses.
func newMachines(t *testing.T) *machines {
	t.Helper()
	m := &machines{whole: t, a: newCaptured(t, capture.All, "--link-speed", "1Gbit")}
	m.startOtherNode(t)
	m.tap = m.a.attachMachineAs(t, machineName, withBoth(m.a.wiring.A, ofTap, podSubnet6B), "--vcpus", "2", "--queues", "2")
	m.otherAttachment = m.b.attachMachineAs(t, otherName, withBoth(m.b.wiring.A, ofOther, podSubnet6A))
	m.attachVhost(t)
	m.a.awaitRelay(t, machineIdentity)
	m.b.awaitRelay(t, "vm-"+otherName)
	m.machine = newSession(t, m.a.NodeA, 2, slices.Concat(argumentsOf(m.tap.Machine), m.vhostArguments(), m.pageArguments(t))...)
	m.otherMachine = newSession(t, m.b.NodeA, 1, argumentsOf(m.otherAttachment.Machine)...)
	m.machine.say = func() string { return "\nlog of ktsn vm relay: " + m.relays.Stderr() }
	for _, s := range []*session{m.machine, m.otherMachine} {
		s.boot(t)
		t.Cleanup(func() { s.close(t) })
	}
	for _, s := range []*session{m.machine, m.otherMachine} {
		s.awaitReady(t)
	}
	m.startClock()
	m.setUpOne(t)
	m.setUpOther(t)
	return m
}

// startOtherNode starts ktsnd and relays on node b, whose pod is already attached.
func (m *machines) startOtherNode(t *testing.T) {
	t.Helper()
	m.b = m.a.seenFromB(t)
	m.b.wiring.A.Capture(capture.All)
	m.b.startBareDaemon(t, "--local-address", topology.NodeAddressB.String(), "--link-speed", "1Gbit")
	m.b.startRelays(t)
	must(t, m.b.client.PeerAdd(t.Context(), control.Peer{VNI: topology.VNI, Address: topology.NodeAddressA,
		Subnets: []netip.Prefix{topology.PodSubnetA, podSubnet6A}}))
}

// withBoth returns another pod of the node with an address of each family.
func withBoth(side *cniruntime.Side, addresses address, remote netip.Prefix) *cniruntime.Side {
	another := side.Another("", nil, addresses.ipv4)
	another.Also(netip.PrefixFrom(addresses.ipv6, podPrefixBits6), remote)
	return another
}

// attachVhost attaches a pod without processes and starts the relay of its machine.
func (m *machines) attachVhost(t *testing.T) {
	t.Helper()
	pod := newNamespace(t, m.a.NodeA.Name()+"-vhost")
	side := m.a.wiring.A.Another(vhostPod, pod, ofVhost.ipv4)
	side.Also(netip.PrefixFrom(ofVhost.ipv6, podPrefixBits6), podSubnet6B)
	side.Capture(capture.None)
	m.a.attachSide(t, side)
	// The addresses belong to the machine. The pod's kernel would answer for it.
	ip(t, pod, "address", "flush", "dev", topology.PodInterface)
	m.vhost, m.vhostMAC = pod, interfaceMAC(t, pod)
	sockets := publicDir(t)
	must(t, os.Chmod(sockets, 0o777))
	m.vhostPath = filepath.Join(sockets, "vhost.sock")
	m.relays = start(t, m.a.NodeA, "ktsn vm relay", exec.Command(program(t, "ktsn"), "vm", "relay", "--netns", pod.Path(), "--socket", side.Socket(),
		"--vhost-socket", m.vhostPath, "--queues", "2", "--vcpus", "2", "--records",
		"--relay-binary", publicCopy(t, "ktsn-relay-vhost"), "--relay-user", strconv.Itoa(nobody)))
}

// vhostArguments returns QEMU's arguments for vhost-user.
func (m *machines) vhostArguments() []string {
	memory := strconv.Itoa(sessionMiB) + "M"
	return []string{
		"-object", "memory-backend-memfd,id=mem,share=on,size=" + memory, "-numa", "node,memdev=mem",
		"-chardev", "socket,id=vhost,server=on,path=" + m.vhostPath,
		"-netdev", "vhost-user,id=vhost,chardev=vhost,queues=2",
		"-device", "virtio-net-pci,netdev=vhost,mq=on,vectors=6,mac=" + m.vhostMAC.String(),
	}
}

// pageArguments returns the arguments for the memory shared with this process: both read their counters through it
// (internal/testlab/guestclock).
func (m *machines) pageArguments(t *testing.T) []string {
	t.Helper()
	const bytes = 8 << 20
	// In memory, since a relay of vhost-user accepts no other files.
	memory, err := os.MkdirTemp("/dev/shm", "ktsn-test-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(memory) })
	m.page = filepath.Join(memory, "page")
	must(t, errors.Join(os.WriteFile(m.page, nil, 0o600), os.Truncate(m.page, bytes)))
	return []string{"-object", fmt.Sprintf("memory-backend-file,id=page,share=on,mem-path=%s,size=%d", m.page, bytes), "-device", "ivshmem-plain,memdev=page"}
}

// startClock serves the time to the machine of node a until the end of the whole test.
func (m *machines) startClock() {
	m.clock = start(m.whole, m.a.NodeA, "ktsn vm clock", exec.Command(program(m.whole, "ktsn"), "vm", "clock", "--socket", m.tap.Clock))
}

// setUpOne configures interface names, addresses and a datagram echo in the machine of node a.
func (m *machines) setUpOne(t *testing.T) {
	t.Helper()
	m.machine.run(t, nameDevices, m.tap.Address, tapDevice)
	m.machine.run(t, nameDevices, m.vhostMAC, vhostDevice)
	m.machine.run(t, "ip netns add vhost && ip link set %[1]s netns vhost && %[2]sip link set lo up", vhostDevice, inVhost)
	m.machine.run(t, setUpDevice, "", tapDevice, m.tap.MTU, ofTap.ipv4, ofTap.ipv6)
	// A record is 24 bytes.
	m.machine.run(t, setUpDevice, inVhost, vhostDevice, m.tap.MTU-recordBytes, ofVhost.ipv4, ofVhost.ipv6)
}

// setUpOther configures the machine of node b likewise.
func (m *machines) setUpOther(t *testing.T) {
	t.Helper()
	m.otherMachine.run(t, nameDevices, m.otherAttachment.Address, tapDevice)
	m.otherMachine.run(t, setUpDevice, "", tapDevice, m.otherAttachment.MTU, ofOther.ipv4, ofOther.ipv6)
}

const (
	nameDevices = `for folder in /sys/class/net/*; do
	[ "$(cat "$folder/address")" != %s ] || ip link set "${folder##*/}" name %s
done`
	setUpDevice = `%[1]ssysctl -q -w net.ipv6.conf.%[2]s.accept_dad=0
%[1]sip link set %[2]s mtu %[3]d up
%[1]sip address add %[4]s/16 dev %[2]s
%[1]sip address add %[5]s/32 dev %[2]s
%[1]s$inside echo :7 >/tmp/echo.%[2]s 2>&1 &`
)

// bothPaths returns the paths of the machine of node a: the prefix of a command there and its interface.
func (m *machines) bothPaths() map[string]guestPath {
	return map[string]guestPath{
		"tap":        {machineIdentity, "", tapDevice, ofTap, m.tap.MTU, m.tap.Address},
		"vhost-user": {vhostPod, inVhost, vhostDevice, ofVhost, m.tap.MTU - recordBytes, m.vhostMAC.String()},
	}
}

// guestPath is an interface of a machine: its identity in ktsnd and the prefix of commands that use it.
type guestPath struct {
	identity, in, device string
	addresses            address
	mtu                  int
	mac                  string
}

// linkAddress returns the link address in the output of `ip -brief`.
func linkAddress(t *testing.T, shown string) netip.Addr {
	t.Helper()
	for field := range strings.FieldsSeq(shown) {
		if prefix, err := netip.ParsePrefix(field); err == nil {
			return prefix.Addr()
		}
	}
	t.Fatalf("there is no address in %q", shown)
	return netip.Addr{}
}

func parseMAC(t *testing.T, text string) net.HardwareAddr {
	t.Helper()
	mac, err := net.ParseMAC(text)
	must(t, err)
	return mac
}

// innerTag returns the VLAN tag of a tunnelled frame from a hardware address.
func innerTag(frame, from []byte) (tag uint16, ok bool) {
	const tunnelBytes = vniAt + 4
	if len(frame) < tunnelBytes+16 {
		return 0, false
	}
	inner := frame[tunnelBytes:]
	if !bytes.Equal(inner[6:12], from) || binary.BigEndian.Uint16(inner[12:]) != unix.ETH_P_8021Q {
		return 0, false
	}
	return binary.BigEndian.Uint16(inner[14:]), true
}
