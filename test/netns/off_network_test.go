// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Addresses of pod b on the interface eth0, which the pods have in common besides the network.
var (
	eth0AddressB  = netip.MustParseAddr("10.244.0.2")
	eth0Address6B = netip.MustParseAddr("fd00:244::2")
)

// addEth0 connects the pods by an interface eth0 with the default routes, as the primary network does.
func (l *lab) addEth0(t *testing.T) {
	t.Helper()
	ip(t, l.PodA, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", l.PodB.Name())
	for number, pod := range []*topology.Namespace{l.PodA, l.PodB} {
		setZero(t, pod, "ipv6/conf/eth0/disable_ipv6")
		ip(t, pod, "address", "add", fmt.Sprintf("10.244.0.%d/24", number+1), "dev", "eth0")
		ip(t, pod, "address", "add", fmt.Sprintf("fd00:244::%d/64", number+1), "dev", "eth0", "nodad")
		ip(t, pod, "link", "set", "eth0", "up")
	}
	ip(t, l.PodA, "route", "add", "default", "via", eth0AddressB.String())
	ip(t, l.PodA, "-6", "route", "add", "default", "via", eth0Address6B.String())
}

// sendOff sends a timed message that no network has a route for; with the setting, if it is not empty.
func (l *lab) sendOff(t *testing.T, setting string, arguments ...string) []sendResult {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-send"), append(arguments, "--port", "7788", "200000:off")...)
	command.Env = l.preloaded(t)
	if setting != "" {
		command.Env = append(command.Env, "KTSN_OFF_NETWORK="+setting)
	}
	return l.sendBy(t, command)
}

// TestMessagesOffTheNetworkAreRefused checks that no timed message leaves early by an interface that is not of the pod's
// network, and that each refused one is counted.
func TestMessagesOffTheNetworkAreRefused(t *testing.T) {
	content(t)
	for name, test := range map[string]struct {
		// before changes pod a.
		before    [][]string
		arguments []string
	}{
		"an address on eth0":              {nil, []string{"--to", eth0AddressB.String()}},
		"a connected socket":              {nil, []string{"--connect", "--to", eth0AddressB.String()}},
		"IPv6":                            {nil, []string{"--domain", "6", "--to", eth0Address6B.String()}},
		"the device eth0":                 {nil, []string{"--device", "eth0", "--to", eth0AddressB.String()}},
		"a control message":               {nil, []string{"--cmsg-interface", "eth0", "--to", eth0AddressB.String()}},
		"multicast":                       {nil, []string{"--to", "239.1.2.3"}},
		"an address of the default route": {nil, []string{"--to", "192.0.2.77"}},
		"the network's interface is down": {[][]string{{"link", "set", topology.PodInterface, "down"}}, []string{"--to", topology.PodAddressB.String()}},
		"its addresses are flushed":       {[][]string{{"address", "flush", "dev", topology.PodInterface}}, []string{"--to", topology.PodAddressB.String()}},
		"its routes are deleted":          {[][]string{{"route", "flush", "dev", topology.PodInterface}}, []string{"--to", topology.PodAddressB.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab, client := newLab6(t)
			lab.addEth0(t)
			for _, step := range test.before {
				ip(t, lab.PodA, step...)
			}
			conn := listen(t, lab.PodB, "udp", netip.AddrPortFrom(netip.IPv6Unspecified(), listenPort))
			if sent := lab.sendOff(t, "", test.arguments...); len(sent) != 1 || unix.Errno(sent[0].errno) != unix.ENETUNREACH {
				t.Errorf("the calls returned %v, want ENETUNREACH", sent)
			}
			silent(t, conn)
			if counted := counters(t, client); counted.OffNetwork != 1 || counted.KernelPath != 0 || counted.Taken != 0 {
				t.Errorf("%d are counted as off the network, %d as the kernel's, %d as taken", counted.OffNetwork, counted.KernelPath, counted.Taken)
			}
		})
	}
}

func TestMessagesOffTheNetworkPassOnRequest(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	lab.addEth0(t)
	conn := listen(t, lab.PodB, "udp4", netip.AddrPortFrom(eth0AddressB, listenPort))
	if sent := lab.sendOff(t, "pass", "--to", eth0AddressB.String()); len(sent) != 1 || sent[0].errno != 0 {
		t.Errorf("the calls returned %v", sent)
	}
	if got, _ := receive(t, conn); got != "off" {
		t.Errorf("got %q", got)
	}
	if counted := counters(t, client); counted.OffNetwork != 0 || counted.KernelPath != 1 {
		t.Errorf("%d are counted as off the network, %d as the kernel's", counted.OffNetwork, counted.KernelPath)
	}
}

// TestSocketReturnsToTheNetwork checks that a socket whose messages were refused sends again when the network has a route.
func TestSocketReturnsToTheNetwork(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	lab.addEth0(t)
	ip(t, lab.PodA, "link", "set", topology.PodInterface, "down")
	lab.startFlow(t)
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if counted := counters(t, client); counted.OffNetwork == 0 {
			return fmt.Errorf("counted %+v", counted)
		}
		return nil
	})
	ip(t, lab.PodA, "link", "set", topology.PodInterface, "up")
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if counted := counters(t, client); counted.Sent == 0 {
			return fmt.Errorf("counted %+v", counted)
		}
		return nil
	})
}
