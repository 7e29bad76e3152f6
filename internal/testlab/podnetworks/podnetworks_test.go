// SPDX-License-Identifier: Apache-2.0

package podnetworks

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func programs(t *testing.T) string {
	t.Helper()
	testlab.Root(t)
	dir := testlab.BinDir(t)
	if err := CheckPrograms(dir); err != nil {
		testlab.Missing(t, err.Error())
	}
	return dir
}

// send sends a datagram and returns whether it arrived, and from where.
func send(t *testing.T, from, to *End, bytes int) (source netip.Addr, arrived bool) {
	t.Helper()
	var listener, talker *net.UDPConn
	err := to.where.Do(func() (err error) {
		listener, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Address, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = from.where.Do(func() (err error) {
		talker, err = net.DialUDP("udp4", nil, listener.LocalAddr().(*net.UDPAddr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer talker.Close()
	if _, err := talker.Write([]byte(strings.Repeat("x", bytes))); err != nil {
		t.Fatal(err)
	}
	_ = listener.SetReadDeadline(time.Now().Add(5 * time.Second))
	count, address, err := listener.ReadFromUDPAddrPort(make([]byte, 10_000))
	return address.Addr().Unmap(), err == nil && count == bytes
}

func TestAllPodsAreReachable(t *testing.T) {
	withHostGW, without := []string{Host, Flannel, FlannelHostGW, TSN}, []string{Host, Flannel, TSN, Link}
	for name, wanted := range map[string]Wanted{
		"with a link of 1500":                   {Networks: withHostGW, LinkMTU: 1500, Pods: 2},
		"with a link of 8900":                   {Networks: withHostGW, LinkMTU: 8900, Pods: 2},
		"by a link between two pods":            {Networks: All, LinkMTU: 1500, Pods: 1},
		"by a link alone":                       {Networks: []string{Link}, LinkMTU: 8950, Pods: 1},
		"with a router between, of 1500 bytes":  {Networks: without, LinkMTU: 1500, Routed: true, Pods: 1},
		"with a router between, of 8950 bytes ": {Networks: without, LinkMTU: 8950, Routed: true, Pods: 1},
	} {
		t.Run(name, func(t *testing.T) {
			wanted.Programs = programs(t)
			n, err := Create(t.Context(), wanted)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := n.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			checkReached(t, n)
		})
	}
}

// checkReached sends the largest datagram to each pod of each network.
func checkReached(t *testing.T, n *Networks) {
	t.Helper()
	for _, network := range n.wanted.Networks {
		near := n.Near(network)
		for i, far := range n.Far(network, n.wanted.Pods) {
			const headers = 28
			if source, arrived := send(t, near, far, near.MTU-headers); !arrived || source != near.Address {
				t.Errorf("%s, pod %d: the largest datagram arrived: %v, from %v", network, i+1, arrived, source)
			}
			if got := mtuOf(t, far); got != far.MTU || near.MTU != far.MTU {
				t.Errorf("%s, pod %d: MTU %d, said to be %d and %d", network, i+1, got, near.MTU, far.MTU)
			}
		}
	}
	want := 0
	if slices.Contains(n.wanted.Networks, TSN) || slices.Contains(n.wanted.Networks, Link) {
		want = 2
	}
	if len(n.Daemons()) != want {
		t.Errorf("%d daemons, want %d", len(n.Daemons()), want)
	}
}

func mtuOf(t *testing.T, end *End) (bytes int) {
	t.Helper()
	err := end.where.Do(func() error {
		link, err := netlink.LinkByName(end.Interface)
		if err == nil {
			bytes = link.Attrs().MTU
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestFlannelUsesItsTunnel(t *testing.T) {
	n, err := Create(t.Context(), Wanted{Networks: []string{Flannel, FlannelHostGW}, LinkMTU: 1500, Pods: 1, Programs: programs(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	for network, want := range map[string]uint64{Flannel: 20, FlannelHostGW: 0} {
		before := sent(t, n, "flannel.1")
		for range 20 {
			send(t, n.Near(network), n.Far(network, 1)[0], 10)
		}
		if after := sent(t, n, "flannel.1"); after-before < want || (want == 0 && after != before) {
			t.Errorf("%s: %d frames through VXLAN, want %d", network, after-before, want)
		}
	}
}

func sent(t *testing.T, n *Networks, device string) (frames uint64) {
	t.Helper()
	err := n.nodes.NodeA.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err == nil {
			frames = link.Attrs().Statistics.TxPackets
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

func TestInvalidNetworksLeaveNothing(t *testing.T) {
	dir := programs(t)
	empty := t.TempDir()
	for name, test := range map[string]struct {
		wanted Wanted
		want   string
	}{
		"host-gw over a router":     {Wanted{Networks: []string{FlannelHostGW}, LinkMTU: 1500, Routed: true, Pods: 1, Programs: dir}, "needs both nodes on one link"},
		"a link with three ends":    {Wanted{Networks: []string{Link}, LinkMTU: 1500, Pods: 2, Programs: dir}, "a link has two ends"},
		"an MTU too small":          {Wanted{Networks: All, LinkMTU: 1400, Pods: 1, Programs: dir}, "an MTU of 1400 and 1 pods; give 1500 to 9000"},
		"no pod":                    {Wanted{Networks: All, LinkMTU: 1500, Programs: dir}, "0 pods"},
		"a network that nobody has": {Wanted{Networks: []string{Host, "weave"}, LinkMTU: 1500, Pods: 1, Programs: dir}, `no network is called "weave"`},
		"programs missing":          {Wanted{Networks: All, LinkMTU: 1500, Pods: 1, Programs: empty}, "ktsnd is missing; run `make build`"},
	} {
		t.Run(name, func(t *testing.T) {
			before := namespaces(t)
			if _, err := Create(t.Context(), test.wanted); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if after := namespaces(t); after > before {
				t.Errorf("%d network namespaces of ours, %d before", after, before)
			}
		})
	}
}

// namespaces counts the namespaces of this process.
func namespaces(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob("/run/netns/ktsn-" + strconv.FormatInt(int64(os.Getpid()), 16) + "-*")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
