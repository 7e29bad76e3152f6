// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"encoding/json"
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

	"github.com/containernetworking/cni/libcni"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/hops"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// newLinkLab returns two nodes with a running ktsnd.
func newLinkLab(t testing.TB) *lab {
	t.Helper()
	lab := newServedLab(t)
	lab.b.startDaemon(t)
	return lab
}

func TestLinkJoinsTwoPods(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	for name, endpoint := range map[string]*node{"of two nodes": lab.b, "of one node": lab.a} {
		t.Run(name, func(t *testing.T) {
			vni := linkVNI
			if endpoint == lab.a {
				vni++
			}
			l := newLinked(lab.a.newPod(t), endpoint.newPod(t), vni)
			l.plug(t)
			for family, at := range map[string]int{"IPv4": 0, "IPv6": 1} {
				client, other := netip.MustParsePrefix(l.client.addresses[at]).Addr(), netip.MustParsePrefix(l.endpoint.addresses[at]).Addr()
				t.Run("ICMP over "+family, func(t *testing.T) { ping(t, l.client.pod, other, largest(at == 0)) })
				t.Run("ICMP back over "+family, func(t *testing.T) { ping(t, l.endpoint.pod, client, 56) })
				t.Run("UDP over "+family, func(t *testing.T) { checkUDP(t, l.client.pod, l.endpoint.pod, client, other, 56) })
				t.Run("TCP over "+family, func(t *testing.T) { checkTCP(t, l.client.pod, l.endpoint.pod, other) })
			}
			for _, local := range []*end{l.client, l.endpoint} {
				must(t, l.check(t, local))
			}
		})
	}
}

func TestLinkNeedsNoNeighborDiscovery(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.plug(t)
	must(t, l.client.Do(func() error {
		link, err := netlink.LinkByName(l.client.name)
		must(t, err)
		neighbours, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V4)
		if len(neighbours) != 1 || neighbours[0].State != netlink.NUD_PERMANENT {
			t.Errorf("the pod's neighbours are %v", neighbours)
		}
		return err
	}))
}

func TestRepeatedPlugChangesNothing(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.plug(t)
	before := lab.a.inventory(t, l.client.pod)
	must(t, l.plugWith(t, lab.a.runtime, l.client))
	checkSame(t, "after a second ADD", before, lab.a.inventory(t, l.client.pod))
	ping(t, l.client.pod, netip.MustParseAddr("10.200.5.1"), 56)
}

func TestRepeatedPlugUpdatesRoutes(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	for _, routes := range [][]string{nil, {"10.9.0.0/16", "fd09::/32"}, {"10.8.0.0/16", "fd09::/32"}, nil} {
		l.client.routes = routes
		must(t, l.plugWith(t, lab.a.runtime, l.client))
		var have []string
		must(t, l.client.Do(func() error {
			all, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
			for _, route := range all {
				if route.Dst != nil && route.Gw != nil {
					have = append(have, route.Dst.String())
				}
			}
			return err
		}))
		slices.Sort(have)
		want := slices.Sorted(slices.Values(routes))
		if !slices.Equal(have, want) {
			t.Errorf("the pod has routes to %v, not %v", have, want)
		}
		must(t, l.check(t, l.client))
	}
	l.unplug(t, l.client)
}

func TestLinkFollowsPeerToOtherNode(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.plug(t)
	config := l.configOf(l.client)
	config["link"].(fields)["peer"].(fields)["node"] = "192.0.2.77"
	must(t, lab.a.attach(rename(t, "kubernetsn-link", config), l.client.attachment()))
	peers, err := lab.a.client.Peers(t.Context())
	must(t, err)
	if len(peers) != 1 || peers[0].Address.String() != "192.0.2.77" {
		t.Errorf("ktsnd has the peers %v", peers)
	}
	must(t, l.plugWith(t, lab.a.runtime, l.client))
	ping(t, l.client.pod, netip.MustParseAddr("10.200.5.1"), 56)
}

func TestForwardingPodGetsSettingsBack(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	client, middle, endpoint := lab.a.newPod(t), lab.b.newPod(t), lab.a.newPod(t)
	first, second := newLinked(client, middle, linkVNI), newLinked(middle, endpoint, linkVNI+1)
	first.endpoint.forward, second.client.forward = []string{"IPv4", "IPv6"}, []string{"IPv4", "IPv6"}
	first.client.routes = []string{"10.200.6.0/31", "fd00:200:6::/127"}
	second.endpoint.routes = []string{"10.200.5.0/31", "fd00:200:5::/127"}
	before := forwarding(t, middle)
	for _, l := range []*linkedPods{first, second} {
		for _, local := range []*end{l.client, l.endpoint} {
			must(t, l.plugWith(t, local.node.runtime, local))
		}
	}
	ping(t, client, netip.MustParseAddr("10.200.6.1"), 56)
	ping(t, client, netip.MustParseAddr("fd00:200:6::1"), 56)
	ping(t, endpoint, netip.MustParseAddr("10.200.5.0"), 56)
	if got := forwarding(t, middle); got != "1 1" {
		t.Errorf("the middle pod forwards %s", got)
	}
	for to, by := range map[string]string{"10.200.6.1": "10.200.5.1", "fd00:200:6::1": "fd00:200:5::1"} {
		checkRoute(t, client, to, by)
	}
	first.unplug(t, first.endpoint)
	if got := forwarding(t, middle); got != "1 1" {
		t.Errorf("with one link left that forwards it forwards %s", got)
	}
	second.unplug(t, second.client)
	if got := forwarding(t, middle); got != before {
		t.Errorf("without links it forwards %s, and before %s", got, before)
	}
	first.unplug(t, first.client)
	second.unplug(t, second.endpoint)
}

// checkRoute checks the hops that `ktsn trace --chain` reports for packets of a pod.
func checkRoute(t *testing.T, from *pod, to, by string) {
	t.Helper()
	var routes []hops.Hop
	answer, err := outputOf(t, from.node, exec.Command(program(t, "ktsn"), "trace", "--chain", "--control", from.node.control(), "--pod", from.uid, "--interface", "up0",
		"--to", to, "--output", "json"))
	must(t, err)
	must(t, json.Unmarshal([]byte(answer), &routes))
	if len(routes) != 2 || routes[0].Address.String() != by || routes[0].Arrived || routes[1].Address.String() != to || !routes[1].Arrived {
		t.Errorf("the way to %s is %s", to, answer)
	}
}

// receivesFrom reports whether a datagram from an address of one pod arrives at the other.
func receivesFrom(t *testing.T, from, to *pod, source, target netip.Addr) bool {
	t.Helper()
	listener, talker := listenUDP(t, to, target), listenUDP(t, from, source)
	_, err := talker.WriteToUDPAddrPort([]byte("is it heard"), listener.LocalAddr().(*net.UDPAddr).AddrPort())
	must(t, err)
	must(t, listener.SetReadDeadline(time.Now().Add(time.Second)))
	_, _, err = listener.ReadFromUDPAddrPort(make([]byte, 100))
	return err == nil
}

func forwarding(t *testing.T, p *pod) string {
	t.Helper()
	var all []string
	must(t, p.Do(func() error {
		for _, path := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all = append(all, strings.TrimSpace(string(text)))
		}
		return nil
	}))
	return strings.Join(all, " ")
}

func TestLinkDropsForeignSources(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.endpoint.routes = []string{"10.9.0.0/16"}
	l.plug(t)
	for source, comes := range map[string]bool{"10.9.1.1": true, "10.7.1.1": false} {
		must(t, l.client.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			must(t, err)
			address, err := netlink.ParseAddr(source + "/32")
			must(t, err)
			return netlink.AddrAdd(lo, address)
		}))
		got := receivesFrom(t, l.client.pod, l.endpoint.pod, netip.MustParseAddr(source), netip.MustParseAddr("10.200.5.1"))
		if got != comes {
			t.Errorf("a datagram from %s arrives: %v", source, got)
		}
	}
}

func TestSandboxEndUnplugsLinks(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	for name, leave := range map[string]func(*testing.T, *pod){
		"DEL": func(t *testing.T, p *pod) {
			must(t, lab.a.runtime.DelNetworkList(t.Context(), lab.a.sandboxes(t), p.attachment()))
		},
		"GC": func(t *testing.T, _ *pod) {
			must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), lab.a.sandboxes(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, endpoint := lab.a.newPod(t), lab.b.newPod(t)
			before := lab.a.inventory(t, client)
			must(t, lab.a.attach(lab.a.sandboxes(t), client.attachment()))
			for i := range 3 {
				l := newLinked(client, endpoint, linkVNI+i)
				l.client.name = "up" + strconv.Itoa(i)
				must(t, l.plugWith(t, lab.a.runtime, l.client))
			}
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), lab.a.sandboxes(t), client.attachment()))
			leave(t, client)
			checkSame(t, "after "+name, before, lab.a.inventory(t, client))
		})
	}
}

func TestCheckReportsLinkFaults(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.client.routes = []string{"10.9.0.0/16"}
	l.plug(t)
	must(t, l.client.Do(func() error {
		link, err := netlink.LinkByName(l.client.name)
		must(t, err)
		address, err := netlink.ParseAddr("10.200.5.0/31")
		must(t, err)
		must(t, netlink.AddrDel(link, address))
		neighbours, err := netlink.NeighList(link.Attrs().Index, unix.AF_INET)
		must(t, err)
		for i := range neighbours {
			must(t, netlink.NeighDel(&neighbours[i]))
		}
		return nil
	}))
	err := l.check(t, l.client)
	for _, want := range []string{"lacks the address 10.200.5.0/31", "does not know that 10.200.5.1 has", "lacks the route to 10.9.0.0/16"} {
		testlab.CheckError(t, err, want)
	}
	must(t, l.plugWith(t, lab.a.runtime, l.client))
	if err := l.check(t, l.client); err != nil {
		t.Errorf("ADD did not mend it: %v", err)
	}
}

func TestKilledPlugIsCleanedUpOrCompleted(t *testing.T) {
	t.Parallel()
	checkKilledLink(t, fault.Link, func(t *testing.T, l *linkedPods, killed *libcni.CNIConfig) {
		mustBeKilled(t, l.plugWith(t, killed, l.client))
	})
}

func TestKilledUnplugIsCompleted(t *testing.T) {
	t.Parallel()
	checkKilledLink(t, fault.LinkDel, func(t *testing.T, l *linkedPods, killed *libcni.CNIConfig) {
		must(t, l.plugWith(t, l.client.node.runtime, l.client))
		mustBeKilled(t, killed.DelNetworkList(t.Context(), rename(t, "kubernetsn-link", l.configOf(l.client)), l.client.attachment()))
	})
}

// checkKilledLink runs a command that is killed at fault points, and then DEL and ADD in turns, or each of them
// (testlab.Long).
func checkKilledLink(t *testing.T, points []string, run func(*testing.T, *linkedPods, *libcni.CNIConfig)) {
	t.Helper()
	lab := newLinkLab(t)
	client := lab.a.newPod(t)
	must(t, lab.a.attach(lab.a.sandboxes(t), client.attachment()))
	before := lab.a.inventory(t, client)
	l := newLinked(client, lab.b.newPod(t), linkVNI)
	l.client.forward = []string{"IPv4"}
	for i, point := range points {
		for j, next := range []string{"DEL", "ADD"} {
			if (i+j)%2 != 0 && !testlab.Long() {
				continue
			}
			t.Run(point+", then "+next, func(t *testing.T) {
				run(t, l, lab.a.killedAt(t, point))
				if next == "ADD" {
					must(t, l.plugWith(t, lab.a.runtime, l.client))
					lab.a.removeSomethingElse(t)
					must(t, l.check(t, l.client))
				}
				l.unplug(t, l.client)
				checkSame(t, "after DEL", before, lab.a.inventory(t, client))
				if got := forwarding(t, client); !strings.HasPrefix(got, "0 ") {
					t.Errorf("the pod forwards: %s", got)
				}
			})
		}
	}
}

// removeSomethingElse attaches and detaches another pod. The kernel removes its devices together with those that a
// killed DEL left.
func (n *node) removeSomethingElse(t *testing.T) {
	t.Helper()
	other, config := n.newPod(t), n.config(nil)
	other.add(t, config)
	other.del(t, config)
}

// TestAddAfterKilledDel kills DEL of the last pod of a network and attaches the next pod before DEL is repeated.
func TestAddAfterKilledDel(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	former, next := lab.a.newPod(t), lab.a.newPod(t)
	before := lab.a.inventory(t, former, next)
	config := lab.a.config(nil)
	for _, point := range fault.Del {
		t.Run(point, func(t *testing.T) {
			former.add(t, config)
			mustBeKilled(t, lab.a.killedAt(t, point).DelNetworkList(t.Context(), list(t, config), former.attachment()))
			next.add(t, config)
			former.del(t, config)
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), next.attachment()))
			next.del(t, config)
			checkSame(t, "after both", before, lab.a.inventory(t, former, next))
		})
	}
}

func TestSandboxIsForgottenWithLinks(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	client, endpoint := lab.a.newPod(t), lab.b.newPod(t)
	before, forwarded := lab.a.inventory(t, client), forwarding(t, client)
	must(t, lab.a.attach(lab.a.sandboxes(t), client.attachment()))
	const many = 40 // more than one batch
	for i := range many {
		l := newLinked(client, endpoint, linkVNI+i)
		l.client.name, l.client.forward = fmt.Sprintf("up%d", i), []string{"IPv4"}
		must(t, l.plugWith(t, lab.a.runtime, l.client))
	}
	must(t, lab.a.runtime.DelNetworkList(t.Context(), lab.a.sandboxes(t), client.attachment()))
	checkSame(t, "after DEL of the sandbox", before, lab.a.inventory(t, client))
	if got := forwarding(t, client); got != forwarded {
		t.Errorf("without links the pod forwards %s, and before %s", got, forwarded)
	}
}

func TestInvalidLinkIsRejected(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	before := lab.a.inventory(t, l.client.pod)
	for name, test := range map[string]struct {
		change   func(config, link, peer fields)
		sentence string
	}{
		"with addresses of two links":  {func(_, link, _ fields) { link["addresses"] = []string{"10.200.5.4/31", "fd00:200:5::/127"} }, "not the two ends of one link"},
		"with the node's own address":  {func(_, _, peer fields) { peer["node"] = "192.0.2.1" }, "192.0.2.1"},
		"with a group as a node":       {func(_, _, peer fields) { peer["node"] = "224.0.0.5" }, "no address at which tunnels of a node can end"},
		"with a route that is none":    {func(_, link, _ fields) { link["routes"] = []string{"10.9.0.1/16"} }, "no range written by its first address"},
		"with an MTU that is too much": {func(config, _, _ fields) { config["mtu"] = 1500 }, "an MTU of 1500 does not fit"},
		"with IPAM":                    {func(config, _, _ fields) { config["ipam"] = fields{"type": "static"} }, "the addresses of links are given"},
		"with an unknown field":        {func(_, link, _ fields) { link["colour"] = "red" }, "unknown field colour"},
	} {
		t.Run(name, func(t *testing.T) {
			config := l.configOf(l.client)
			link := config["link"].(fields)
			test.change(config, link, link["peer"].(fields))
			_, err := lab.a.runtime.AddNetworkList(t.Context(), rename(t, "kubernetsn-link", config), l.client.attachment())
			testlab.CheckError(t, err, test.sentence)
			checkSame(t, "after the refusal", before, lab.a.inventory(t, l.client.pod))
		})
	}
}

func (l *linkedPods) checkTimed(t *testing.T) {
	t.Helper()
	const count = 50
	from := l.client.node
	socket := filepath.Join(from.dir, "pods", l.client.uid, "app.sock")
	must(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	must(t, from.client.SocketAdd(t.Context(), l.client.uid, socket))
	defer func() {
		must(t, errors.Join(from.client.SocketDel(context.Background(), l.client.uid), os.RemoveAll(filepath.Dir(socket))))
	}()
	before := from.counters(t)
	file := filepath.Join(l.endpoint.node.dir, "listener.csv")
	to := netip.AddrPortFrom(netip.MustParsePrefix(l.endpoint.addresses[0]).Addr(), 7788)
	listener := startListenerAt(t, l.endpoint.pod, to, file, count)
	talker := startTalker(t, l.client.pod, socket, "--count", strconv.Itoa(count), "--to", to.String())
	must(t, errors.Join(talker.Wait(), listener.Wait()))
	received := testlab.ReadFile(t, file, tsnperf.ReadListener)
	for _, message := range received {
		if message.Arrival < message.Txtime {
			t.Errorf("message %d arrived %d ns before its time", message.Sequence, message.Txtime-message.Arrival)
		}
	}
	if sent := from.counters(t).Sent - before.Sent; len(received) != count || sent != count {
		t.Errorf("of %d messages ktsnd sent %d, and %d arrived", count, sent, len(received))
	}
}

// TestLinkPeerWithDamagedFileIsForgotten truncates the file of a link's peer, as a crash of the machine does.
func TestLinkPeerWithDamagedFileIsForgotten(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	file := filepath.Join(lab.a.dir, "state", "links", strconv.Itoa(linkVNI))
	damage := func() {
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, text[:len(text)/2], 0o600))
	}
	peers := func(when string, want ...string) {
		t.Helper()
		all, err := lab.a.client.Peers(t.Context())
		must(t, err)
		var have []string
		for _, peer := range all {
			have = append(have, peer.Address.String())
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s ktsnd has the peers %v, not %v", when, have, want)
		}
	}
	must(t, l.plugWith(t, lab.a.runtime, l.client))
	damage()
	config := l.configOf(l.client)
	config["link"].(fields)["peer"].(fields)["node"] = "192.0.2.77"
	must(t, lab.a.attach(rename(t, "kubernetsn-link", config), l.client.attachment()))
	peers("with another peer", "192.0.2.77")
	damage()
	l.unplug(t, l.client)
	peers("without the link")
}
