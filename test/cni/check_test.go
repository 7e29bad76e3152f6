// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// on applies a function to a device in a namespace.
func on(t *testing.T, where *topology.Namespace, name string, do func(netlink.Link) error) {
	t.Helper()
	must(t, where.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return do(link)
	}))
}

// portOf returns the node's end of a pod's veth pair.
func portOf(p *pod) string {
	attachment := overlay.Attachment{Network: networkName, ContainerID: p.id, Interface: podIf}
	return attachment.PortName()
}

func TestCheckNamesEveryDifference(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for name, test := range map[string]struct {
		breaks func(*testing.T, *pod)
		want   string
	}{
		"the pod's interface is gone": {func(t *testing.T, p *pod) { on(t, p.Namespace, podIf, netlink.LinkDel) },
			"the pod has no interface tsn0; the node's end of the pod's interface, PORT, is missing"},
		"it is down": {func(t *testing.T, p *pod) { on(t, p.Namespace, podIf, netlink.LinkSetDown) }, "tsn0 in the pod is down; the pod lacks the route to 10.42.0.0/16 through tsn0"},
		"it has another hardware address": {func(t *testing.T, p *pod) {
			on(t, p.Namespace, podIf, func(link netlink.Link) error {
				return netlink.LinkSetHardwareAddr(link, net.HardwareAddr{2, 0, 0, 0, 0, 1})
			})
		}, "tsn0 in the pod has the hardware address 02:00:00:00:00:01, not 0a:58:0a:2a:01:09"},
		"it has another MTU": {func(t *testing.T, p *pod) {
			on(t, p.Namespace, podIf, func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1300) })
			p.awaitMTU(t, 1300)
		}, "tsn0 in the pod has an MTU of 1300, not 1450; PORT has an MTU of 1474, not 1324"},
		"it lacks its address": {func(t *testing.T, p *pod) {
			on(t, p.Namespace, podIf, func(link netlink.Link) error {
				address, _ := netlink.ParseAddr("10.42.1.9/24")
				return netlink.AddrDel(link, address)
			})
		}, "tsn0 in the pod lacks the address 10.42.1.9/24; the pod lacks the route to 10.42.0.0/16 through tsn0"},
		"its filter is gone": {func(t *testing.T, p *pod) { on(t, p.Namespace, podIf, removeFilters) },
			"tsn0 of the pod had lost a filter for datagrams that libktsn.so does not see; it is back"},
		"it lacks its route": {func(t *testing.T, p *pod) {
			on(t, p.Namespace, podIf, func(link netlink.Link) error {
				_, to, _ := net.ParseCIDR("10.42.0.0/16")
				return netlink.RouteDel(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK})
			})
		}, "the pod lacks the route to 10.42.0.0/16 through tsn0"},
		"a sysctl was changed": {func(t *testing.T, p *pod) {
			must(t, p.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/tsn0/rp_filter", []byte("1"), 0) }))
		}, `the pod's net.ipv4.conf.IFNAME.rp_filter is "1", not "2"`},
		"the node's end is down": {func(t *testing.T, p *pod) { on(t, p.node.Namespace, portOf(p), netlink.LinkSetDown) },
			"PORT is down"},
		"it left the bridge": {func(t *testing.T, p *pod) { on(t, p.node.Namespace, portOf(p), netlink.LinkSetNoMaster) },
			"PORT is not a port of bridge tsnbr42; the bridge does not know 0a:58:0a:2a:01:09 on PORT"},
		"the bridge forgot the pod": {func(t *testing.T, p *pod) {
			on(t, p.node.Namespace, portOf(p), func(link netlink.Link) error {
				return netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER,
					HardwareAddr: net.HardwareAddr{0x0a, 0x58, 0x0a, 0x2a, 0x01, 0x09}})
			})
		}, "the bridge does not know 0a:58:0a:2a:01:09 on PORT"},
		"the bridge is down": {func(t *testing.T, p *pod) { on(t, p.node.Namespace, bridgeName, netlink.LinkSetDown) }, "tsnbr42 is down"},
		"the tunnel is gone": {func(t *testing.T, p *pod) { on(t, p.node.Namespace, tunnelName, netlink.LinkDel) }, "VXLAN device tsnvx42 is missing"},
		"the tunnel is down": {func(t *testing.T, p *pod) { on(t, p.node.Namespace, tunnelName, netlink.LinkSetDown) }, "tsnvx42 is down"},
		"the tunnel left the bridge": {func(t *testing.T, p *pod) { on(t, p.node.Namespace, tunnelName, netlink.LinkSetNoMaster) },
			"tsnvx42 is not a port of tsnbr42; give each network a bridge and tunnel of its own"},
		"the tunnel forgot a peer": {func(t *testing.T, p *pod) {
			on(t, p.node.Namespace, tunnelName, func(link netlink.Link) error {
				return netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
					HardwareAddr: make(net.HardwareAddr, 6), IP: net.IPv4(192, 0, 2, 2).To4()})
			})
		}, "tsnvx42 does not know peer 192.0.2.2"},
		"the uplink lost its address": {func(t *testing.T, p *pod) {
			on(t, p.node.Namespace, uplinkName, func(link netlink.Link) error {
				address, _ := netlink.ParseAddr("192.0.2.1/24")
				t.Cleanup(func() {
					on(t, p.node.Namespace, uplinkName, func(link netlink.Link) error { return netlink.AddrAdd(link, address) })
				})
				return netlink.AddrDel(link, address)
			})
		}, "the uplink phys0 does not have the address 192.0.2.1; give one that it has"},
		"ktsnd forgot the pod": {func(t *testing.T, p *pod) { must(t, p.node.client.EndpointDel(t.Context(), p.identity(), podIf)) },
			"ktsnd does not know interface tsn0 of IDENTITY; if it was restarted, run `ktsn node restore`"},
		"ktsnd has it in another network": {func(t *testing.T, p *pod) {
			must(t, errors.Join(p.node.client.EndpointDel(t.Context(), p.identity(), podIf),
				p.node.client.EndpointAdd(t.Context(), control.Endpoint{Identity: p.identity(), Interface: podIf, Netns: p.Path(), VNI: 7, Bridge: bridgeName})))
		}, "ktsnd's endpoint tsn0 is in network 7, not 42"},
		"ktsnd has it on no bridge": {func(t *testing.T, p *pod) {
			must(t, errors.Join(p.node.client.EndpointDel(t.Context(), p.identity(), podIf),
				p.node.client.EndpointAdd(t.Context(), control.Endpoint{Identity: p.identity(), Interface: podIf, Netns: p.Path(), VNI: vni})))
		}, `ktsnd's endpoint tsn0 is on bridge "", not tsnbr42`},
		"IPAM forgot the address": {func(t *testing.T, p *pod) {
			must(t, os.Remove(filepath.Join(p.node.dir, "ipam", networkName, "10.42.1.9")))
		}, "IPAM plugin host-local: host-local: Failed to find address added by container CONTAINER"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			lab.a.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24")
			ipam := lab.a.hostLocal(lab.a.subnet, "10.42.0.0/16")
			ipam["ranges"] = [][]fields{{{"subnet": "10.42.1.0/24", "rangeStart": "10.42.1.9", "rangeEnd": "10.42.1.9"}}}
			config := lab.a.config(fields{"ipam": ipam, "sysctl": fields{"net.ipv4.conf.IFNAME.rp_filter": "2"}})
			pod.add(t, config)
			configs := list(t, config)
			if err := lab.a.runtime.CheckNetworkList(t.Context(), configs, pod.attachment()); err != nil {
				t.Fatalf("before anything is changed: %v", err)
			}
			test.breaks(t, pod)
			err := lab.a.runtime.CheckNetworkList(t.Context(), configs, pod.attachment())
			code := uint(106)
			if name == "IPAM forgot the address" {
				code = 999 // host-local's code
			}
			checkSentence(t, err, code, expand(test.want, pod))
		})
	}
}

// awaitMTU waits until ktsnd uses the interface's MTU.
func (p *pod) awaitMTU(t *testing.T, want int) {
	t.Helper()
	testlab.Eventually(t, patience, time.Millisecond, func() error {
		endpoints, err := p.node.client.Endpoints(t.Context())
		must(t, err)
		for _, endpoint := range endpoints {
			if endpoint.Identity == p.identity() && endpoint.MTU == want {
				return nil
			}
		}
		return fmt.Errorf("no endpoint of the pod has an MTU of %d: %+v", want, endpoints)
	})
}

func TestCheckWithoutKtsndAsksToRetry(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	lab.a.stopDaemon(t)
	checkRefused(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()), 11, "ktsnd does not answer on ")
}

func TestStatusReportsLimitedConnectivity(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	configs := list(t, config)
	status := func() error { return lab.a.runtime.GetStatusNetworkList(t.Context(), configs) }
	if err := status(); err != nil {
		t.Errorf("of an empty node: %v", err)
	}
	checkRefused(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, lab.a.config(fields{"controlSocket": "/nowhere"}))), 50,
		"pods cannot be attached: ktsnd does not answer on /nowhere (no such file or directory)")
	checkRefused(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, lab.a.config(fields{"uplink": "eno9"}))), 50,
		"pods cannot be attached: the uplink eno9 is not the one that ktsnd sends on")
	checkRefused(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, lab.a.config(fields{"ipam": fields{"type": "whereabouts"}}))), 50,
		"pods cannot be attached: ipam: plugin whereabouts is not in CNI_PATH")
	checkRefused(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, lab.a.config(fields{"stateDir": "/proc/nowhere"}))), 50,
		"pods cannot be attached: make the state directory: ")

	pod.add(t, config)
	if err := status(); err != nil {
		t.Errorf("of a node with a pod: %v", err)
	}
	on(t, lab.a.Namespace, uplinkName, netlink.LinkSetDown)
	checkRefused(t, status(), 51, "pods cannot be attached, and attached pods suffer: the uplink phys0 is down")
	on(t, lab.a.Namespace, uplinkName, netlink.LinkSetUp)
	on(t, lab.a.Namespace, tunnelName, netlink.LinkDel)
	checkRefused(t, status(), 51, "pods cannot be attached, and attached pods suffer: VXLAN device tsnvx42 is missing")
	pod.del(t, config)
	pod.add(t, config)

	lab.a.stopDaemon(t)
	checkRefused(t, status(), 51, "pods cannot be attached, and attached pods suffer: ktsnd does not answer on ")
	lab.a.startDaemon(t)
	checkRefused(t, status(), 51, "suffer: ktsnd was restarted and knows none of 1 attached interfaces; run `ktsn node restore`")
	lab.a.ktsn(t, "node", "restore")
	if err := status(); err != nil {
		t.Errorf("after all is well again: %v", err)
	}
}

func TestGCWithoutListRemovesNothing(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	before := lab.a.inventory(t, pod)
	err := lab.a.forgetful(t, shipped(t)).GCNetworkList(t.Context(), list(t, config), nil)
	if err == nil {
		t.Error("GC without a list succeeded")
	}
	checkSame(t, "after it", before, lab.a.inventory(t, pod))
}

// TestGCKeepsOtherNetworks runs GC with two networks on one bridge.
func TestGCKeepsOtherNetworks(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	mine, other, stale := lab.a.newPod(t), lab.a.newPod(t), lab.a.newPod(t)
	config := lab.a.config(nil)
	mine.add(t, config)
	foreign := rename(t, "tsn-other", lab.a.config(fields{"ipam": static("10.42.1.200/16")}))
	must(t, lab.a.attach(foreign, other.attachment()))
	before := lab.a.inventory(t, mine, other, stale)
	stale.add(t, config)
	must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, config), mine))
	checkSame(t, "after GC", before, lab.a.inventory(t, mine, other, stale))
	must(t, lab.a.runtime.DelNetworkList(t.Context(), foreign, other.attachment()))
}

// TestGCRemovesInterfacesWithoutRecord runs GC with an endpoint in ktsnd that has neither pod nor record.
func TestGCRemovesInterfacesWithoutRecord(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	stray := lab.a.newPod(t)
	config := lab.a.config(nil)
	before := lab.a.inventory(t)
	stray.add(t, config)
	lab.a.loseState(t)
	must(t, stray.Destroy()) // takes the veth pair with it
	must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, config)))
	for _, line := range lab.a.inventory(t) {
		if line == "ktsnd has endpoint "+stray.identity()+" "+podIf || line == "node has "+tunnelName || line == "node has "+bridgeName {
			t.Errorf("left: %s (before there was %v)", line, before)
		}
	}
}
