// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// carried holds the headers of a frame that are compared.
type carried struct {
	tos, ttl uint8
	source   string
	// class is the traffic class that counted the message.
	class int
}

func carriedBy(frame gopacket.Packet) carried {
	if v6, ok := frame.Layer(layers.LayerTypeIPv6).(*layers.IPv6); ok {
		return carried{tos: v6.TrafficClass, ttl: v6.HopLimit, source: v6.SrcIP.String()}
	}
	v4, _ := frame.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	return carried{tos: v4.TOS, ttl: v4.TTL, source: v4.SrcIP.String()}
}

// sentByClass returns the number of sent messages of each class.
func sentByClass(t *testing.T, client *control.Client) map[int]uint64 {
	t.Helper()
	awaitSettled(t, client)
	sent := map[int]uint64{}
	for class, counted := range statusOf(t, client).Classes {
		sent[class] = counted.Sent
	}
	return sent
}

func TestFramesCarrySocketAndMessageOptions(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	ip(t, lab.PodA, "address", "add", "10.42.1.9/16", "dev", topology.PodInterface)
	ip(t, lab.PodA, "address", "add", "fd00:42:1::9/32", "dev", topology.PodInterface, "nodad",
		"preferred_lft", "0") // used only on request
	const (
		v4A, v6A = "10.42.1.2", "fd00:42:1::2"
		// Classes of SO_PRIORITY 0, 2, 4, 5 and 6 (traffic-class-map).
		bestEffort, two, four, five, six = 1, 2, 4, 5, 6
	)
	for name, test := range map[string]struct {
		arguments []string
		v6        bool
		want      carried
	}{
		"nothing":                             {nil, false, carried{0, 64, v4A, bestEffort}},
		"IPv6: nothing":                       {nil, true, carried{0, 64, v6A, bestEffort}},
		"IP_TOS, with the priority it brings": {[]string{"--tos", "0x10"}, false, carried{0x10, 64, v4A, six}},
		"IP_TOS set before SO_TXTIME":         {[]string{"--before", "--tos", "0x10"}, false, carried{0x10, 64, v4A, six}},
		"IP_TTL":                              {[]string{"--ttl", "7"}, false, carried{0, 7, v4A, bestEffort}},
		"SO_PRIORITY":                         {[]string{"--priority", "5"}, false, carried{0, 64, v4A, five}},
		"IPV6_TCLASS":                         {[]string{"--tos", "0xb8"}, true, carried{0xb8, 64, v6A, bestEffort}},
		"IPV6_UNICAST_HOPS":                   {[]string{"--ttl", "9"}, true, carried{0, 9, v6A, bestEffort}},
		"IPv4 from IPv6: IP_TOS and IP_TTL":   {[]string{"--domain", "6", "--tos", "0x08", "--ttl", "5"}, false, carried{0x08, 5, v4A, two}},
		"a message's IP_TOS":                  {[]string{"--cmsg-tos", "0x10"}, false, carried{0x10, 64, v4A, six}},
		"a message's IP_TOS before the socket's": {[]string{"--tos", "0x08", "--cmsg-tos", "0x10"}, false,
			carried{0x10, 64, v4A, six}},
		"a message's IP_TTL":         {[]string{"--cmsg-ttl", "3"}, false, carried{0, 3, v4A, bestEffort}},
		"a message's SO_PRIORITY":    {[]string{"--cmsg-priority", "4"}, false, carried{0, 64, v4A, four}},
		"a message's IP_PKTINFO":     {[]string{"--cmsg-source", "10.42.1.9"}, false, carried{0, 64, "10.42.1.9", bestEffort}},
		"all of them":                {[]string{"--cmsg-source", "10.42.1.9", "--cmsg-tos", "0x20", "--cmsg-ttl", "2", "--cmsg-priority", "5"}, false, carried{0x20, 2, "10.42.1.9", five}},
		"connected, and a message's": {[]string{"--connect", "--cmsg-ttl", "3"}, false, carried{0, 3, v4A, bestEffort}},
		"a message's IPV6_TCLASS":    {[]string{"--cmsg-tos", "0x2e"}, true, carried{0x2e, 64, v6A, bestEffort}},
		"a message's IPV6_HOPLIMIT":  {[]string{"--cmsg-ttl", "2"}, true, carried{0, 2, v6A, bestEffort}},
		"a message's IPV6_PKTINFO":   {[]string{"--cmsg-source", "fd00:42:1::9"}, true, carried{0, 64, "fd00:42:1::9", bestEffort}},
		"IPv4 from IPv6: IPV6_PKTINFO": {[]string{"--domain", "6", "--cmsg-source", "10.42.1.9"}, false,
			carried{0, 64, "10.42.1.9", bestEffort}},
		"IPv6: connected, and a message's": {[]string{"--connect", "--cmsg-tos", "0x2e"}, true, carried{0x2e, 64, v6A, bestEffort}},
		"SO_BINDTODEVICE":                  {[]string{"--device", topology.PodInterface}, false, carried{0, 64, v4A, bestEffort}},
		"the interface of IP_PKTINFO":      {[]string{"--cmsg-interface", topology.PodInterface}, false, carried{0, 64, v4A, bestEffort}},
	} {
		t.Run(name, func(t *testing.T) {
			to, network := topology.PodAddressB, "udp4"
			if test.v6 {
				to, network = podAddress6B, "udp6"
			}
			conn := listen(t, lab.PodB, network, netip.AddrPortFrom(to, listenPort))
			defer conn.Close()
			before := sentByClass(t, client)
			frame := lab.tunnelledFrames(t, "carried", 1, func() {
				lab.sendTo(t, append(test.arguments, "--to", to.String(), "--port", "7788", "10000:carried")...)
				receive(t, conn)
			})[0]
			got := carriedBy(frame)
			for class, sent := range sentByClass(t, client) {
				if sent != before[class] {
					got.class = class
				}
			}
			if got != test.want {
				t.Errorf("the frame shows %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestForbiddenMessageOptionsAreRejected(t *testing.T) {
	content(t)
	lab, _ := newLab6(t)
	for name, test := range map[string]struct {
		arguments []string
		errno     unix.Errno
	}{
		"a TTL of 0":                           {[]string{"--cmsg-ttl", "0"}, unix.EINVAL},
		"a TTL of 256":                         {[]string{"--cmsg-ttl", "256"}, unix.EINVAL},
		"a TOS of 256":                         {[]string{"--cmsg-tos", "256"}, unix.EINVAL},
		"a priority that takes a privilege":    {[]string{"--cmsg-priority", "7"}, unix.EPERM},
		"another interface than the socket's":  {[]string{"--device", topology.PodInterface, "--cmsg-interface", "lo"}, unix.EINVAL},
		"the address of another pod as source": {[]string{"--cmsg-source", topology.PodAddressB.String()}, unix.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			lab.checkErrno(t, test.errno, append(test.arguments, "--to", topology.PodAddressB.String())...)
		})
	}
}

// TestEndpointUsesSourcesAndGrants checks addresses that a pod with CAP_NET_ADMIN adds to itself.
func TestEndpointUsesSourcesAndGrants(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	ip(t, lab.PodA, "address", "add", "10.42.1.9/16", "dev", topology.PodInterface)
	ip(t, lab.PodA, "address", "add", "fd00:42:1::9/48", "dev", topology.PodInterface, "nodad")
	endpoint := control.Endpoint{Identity: identity, Interface: topology.PodInterface, Netns: lab.PodA.Path(), VNI: topology.VNI,
		Sources: &control.Sources{Addresses: []netip.Prefix{netip.PrefixFrom(topology.PodAddressA, 32), netip.PrefixFrom(podAddress6A, 128)}},
		Grants:  &control.Grants{PriorityMax: 7}}
	must(t, client.EndpointAdd(t.Context(), endpoint))
	four, six := topology.PodAddressB.String(), podAddress6B.String()
	for name, test := range map[string]struct {
		arguments []string
		errno     unix.Errno
	}{
		"from its IPv4 address":          {[]string{"--to", four}, 0},
		"from its IPv6 address":          {[]string{"--to", six, "--bind", podAddress6A.String()}, 0},
		"from another of its interface":  {[]string{"--to", four, "--cmsg-source", "10.42.1.9"}, unix.EPERM},
		"bound to another":               {[]string{"--to", four, "--bind", "10.42.1.9"}, unix.EPERM},
		"from another IPv6 address":      {[]string{"--to", six, "--cmsg-source", "fd00:42:1::9"}, unix.EPERM},
		"with a priority it was granted": {[]string{"--to", four, "--cmsg-priority", "7"}, 0},
		"with one above":                 {[]string{"--to", four, "--cmsg-priority", "8"}, unix.EPERM},
	} {
		t.Run(name, func(t *testing.T) {
			lab.checkErrno(t, test.errno, test.arguments...)
		})
	}
}

// TestForeignSourceAddressIsRejected binds to an address that the host does not have (IPV6_FREEBIND).
func TestForeignSourceAddressIsRejected(t *testing.T) {
	content(t)
	lab, _ := newLab6(t)
	for name, test := range map[string]struct {
		domain   string
		bind, to netip.Addr
	}{
		"IPv4":                  {"4", topology.PodAddressB, topology.PodAddressB},
		"IPv6":                  {"6", podAddress6B, podAddress6B},
		"IPv6, of nobody":       {"6", netip.MustParseAddr("fd00:42:1::77"), podAddress6B},
		"IPv4 from IPv6 socket": {"6", netip.MustParseAddr("::ffff:10.42.1.77"), topology.PodAddressB},
	} {
		t.Run(name, func(t *testing.T) {
			lab.checkErrno(t, unix.EINVAL, "--domain", test.domain, "--freebind", "1", "--bind", test.bind.String(), "--to", test.to.String())
		})
	}
}

func TestOtherInterfaceUsesKernel(t *testing.T) {
	content(t)
	lab, client := newLab6(t)
	conn := listen(t, lab.PodA, "udp4", netip.MustParseAddrPort("127.0.0.1:7788"))
	for name, arguments := range map[string][]string{
		"by the device":         {"--device", "lo"},
		"by a control message":  {"--cmsg-interface", "lo"},
		"by the address itself": {},
	} {
		t.Run(name, func(t *testing.T) {
			before := counters(t, client).KernelPath
			lab.sendTo(t, append(arguments, "--to", "127.0.0.1", "--port", "7788", "0:home")...)
			if got, _ := receive(t, conn); got != "home" {
				t.Errorf("got %q", got)
			}
			if after := counters(t, client).KernelPath; after != before+1 {
				t.Errorf("%d messages went to the kernel", after-before)
			}
		})
	}
}

// TestNamespaceWithoutEndpointUsesKernel sends from another network namespace of a pod's program, which has loopback
// only: the kernel handles its messages, with a transmit time or without.
func TestNamespaceWithoutEndpointUsesKernel(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	send := func(environment []string) string {
		t.Helper()
		command := exec.Command("unshare", "--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`,
			program(t, "ktsn-test-send"), "--to", "127.0.0.1", "--port", strconv.Itoa(listenPort), "5000:first", "-:none", "6000:second")
		command.Env = environment
		return saidOf(lab.outputOf(t, patience, command))
	}
	want := send(nil)
	if want != "5 0, 4 0, 6 0" {
		t.Fatalf("the kernel itself reports %q", want)
	}
	if got := send(lab.preloaded(t)); got != want {
		t.Errorf("results are %q, the kernel's %q", got, want)
	}
	if now := awaitSettled(t, client); now.KernelPath != 2 || now.Taken != 0 {
		t.Errorf("%d messages went the kernel's way and %d through ktsnd, want 2 and 0", now.KernelPath, now.Taken)
	}
}

// saidOf returns the output of ktsn-test-send for each message, without transmit times.
func saidOf(output string) string {
	var all []string
	for line := range strings.Lines(output) {
		if _, result, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all = append(all, result)
		}
	}
	return strings.Join(all, ", ")
}
