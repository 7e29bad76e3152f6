// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
)

// primary attaches a pod to the node's ordinary network by the bridge plugin, as eth0 with the default route.
func primary(t *testing.T, p *pod) (*libcni.NetworkConfigList, *libcni.RuntimeConf) {
	t.Helper()
	config := p.node.bridgePlugin()
	config["isDefaultGateway"] = true
	configs, err := cniruntime.List("1.0.0", "primary", config)
	must(t, err)
	at := p.attachment()
	at.IfName = "eth0"
	must(t, p.node.attach(configs, at))
	t.Cleanup(func() { _ = p.node.runtime.DelNetworkList(t.Context(), configs, at) })
	return configs, at
}

func TestSecondInterfaceKeepsFirst(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	pod := r.a.newPod(t)
	configs, at := primary(t, pod)
	before := r.a.inventory(t, pod)
	routes := defaultRoutes(t, pod)
	config := r.a.config(nil)
	result := pod.add(t, config)
	if after := defaultRoutes(t, pod); !slices.Equal(after, routes) || len(routes) != 1 {
		t.Errorf("the default routes were %q and are %q", routes, after)
	}
	must(t, r.a.runtime.CheckNetworkList(t.Context(), configs, at))
	must(t, r.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
	ping(t, pod, r.address(r.b1, true), 56)
	ping(t, pod, netip.MustParseAddr("10.99.0.1"), 56) // the first interface's gateway
	if address := addressOf(result, true); !r.a.subnet.Contains(address) {
		t.Errorf("its address is %s", address)
	}
	pod.del(t, config)
	checkSame(t, "after DEL", before, r.a.inventory(t, pod))
	must(t, r.a.runtime.CheckNetworkList(t.Context(), configs, at))
}

func defaultRoutes(t *testing.T, p *pod) []string {
	t.Helper()
	var all []string
	must(t, p.Do(func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, route := range routes {
			if route.Dst == nil || route.Dst.IP.IsUnspecified() {
				all = append(all, route.Gw.String())
			}
		}
		return err
	}))
	return all
}

func TestInterfacesInSeveralNetworks(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	first := list(t, lab.a.config(nil))
	second := rename(t, "tsn-second", lab.a.config(fields{"vni": 43, "ipam": static("10.43.1.2/16")}))
	atSecond := pod.attachment()
	atSecond.IfName = "tsn1"
	for configs, at := range map[*libcni.NetworkConfigList]*libcni.RuntimeConf{first: pod.attachment(), second: atSecond} {
		must(t, lab.a.attach(configs, at))
	}
	have := lab.a.inventory(t, pod)
	for _, want := range []string{"node has tsnbr42", "node has tsnbr43", pod.id + " has tsn0", pod.id + " has tsn1",
		"ktsnd has endpoint " + pod.identity() + " tsn1", "ktsnd has 1 sockets"} {
		if !slices.Contains(have, want) {
			t.Errorf("not so: %s\nthere is:\n%s", want, strings.Join(have, "\n"))
		}
	}
	must(t, lab.a.runtime.DelNetworkList(t.Context(), first, pod.attachment()))
	if have := lab.a.inventory(t, pod); !slices.Contains(have, "ktsnd has 1 sockets") || slices.Contains(have, "node has tsnbr42") {
		t.Errorf("after the first left there is:\n%s", strings.Join(have, "\n"))
	}
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), second, atSecond))
	must(t, lab.a.runtime.DelNetworkList(t.Context(), second, atSecond))
	checkSame(t, "after both left", before, lab.a.inventory(t, pod))
}

func TestOtherPluginsFollowInChain(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	for _, version := range spoken {
		t.Run(version, func(t *testing.T) {
			configs := listOf(t, version, lab.a.config(nil), map[string]any{"type": "tuning",
				"dataDir": folder(t), "sysctl": fields{"net.ipv4.conf.IFNAME.log_martians": "1"}})
			answer, err := lab.a.runtime.AddNetworkList(t.Context(), configs, pod.attachment())
			must(t, err)
			result, err := current.GetResult(answer)
			if err != nil || len(result.Interfaces) != 3 || len(result.IPs) != 1 {
				t.Errorf("the chain's result is %+v, %v", result, err)
			}
			if version != "0.3.1" {
				if err := lab.a.runtime.CheckNetworkList(t.Context(), configs, pod.attachment()); err != nil {
					t.Errorf("CHECK: %v", err)
				}
			}
			must(t, lab.a.runtime.DelNetworkList(t.Context(), configs, pod.attachment()))
			checkSame(t, "after DEL", before, lab.a.inventory(t, pod))
		})
	}
}

// TestPluginFollowsOthersInChain checks that the result of the previous plugin is passed on.
func TestPluginFollowsOthersInChain(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(fields{"prevResult": fields{"cniVersion": "1.1.0",
		"interfaces": []fields{{"name": "eth0", "sandbox": pod.Path(), "mac": "02:00:00:00:00:01"}},
		"ips":        []fields{{"address": "10.99.0.2/16", "interface": 0}}, "routes": []fields{{"dst": "0.0.0.0/0", "gw": "10.99.0.1"}}}})
	result := pod.add(t, config)
	if len(result.Interfaces) != 4 || len(result.IPs) != 2 || len(result.Routes) != 2 {
		t.Fatalf("the result is %+v", result)
	}
	if result.Interfaces[0].Name != "eth0" || *result.IPs[0].Interface != 0 || *result.IPs[1].Interface != 3 ||
		result.Interfaces[3].Name != podIf {
		t.Errorf("the result is %+v, %+v", result.Interfaces, result.IPs)
	}
}

func TestExistingDevicesAreUsedAndKept(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	attributes := linkAttrs("br-mine")
	attributes.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 0, 9}
	lab.a.addDevice(t, &netlink.Bridge{LinkAttrs: attributes})
	on(t, lab.a.Namespace, "br-mine", netlink.LinkSetUp)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	t.Run("a bridge", func(t *testing.T) {
		config := lab.a.config(fields{"bridge": "br-mine"})
		pod.add(t, config)
		pod.del(t, config)
		checkSame(t, "after DEL", before, lab.a.inventory(t, pod))
	})
	t.Run("a bridge with its tunnel", func(t *testing.T) {
		on(t, lab.a.Namespace, "br-mine", func(bridge netlink.Link) error {
			tunnel := &netlink.Vxlan{LinkAttrs: linkAttrs("vx-mine"), VxlanId: 77, Port: 4789, Learning: true}
			tunnel.MTU, tunnel.MasterIndex, tunnel.Flags = 1400, bridge.Attrs().Index, net.FlagUp
			return netlink.LinkAdd(tunnel)
		})
		before := lab.a.inventory(t, pod)
		config := lab.a.config(fields{"bridge": "br-mine", "tunnel": "vx-mine", "vni": 77})
		if result := pod.add(t, config); result.Interfaces[2].Mtu != 1400 {
			t.Errorf("the pod's MTU is %d, not the tunnel's", result.Interfaces[2].Mtu)
		}
		pod.del(t, config)
		checkSame(t, "after DEL", before, lab.a.inventory(t, pod))
	})
}

func TestBridgeStaysWhileUsed(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	on(t, lab.a.Namespace, bridgeName, func(bridge netlink.Link) error {
		port := &netlink.Veth{LinkAttrs: linkAttrs("theirs"), PeerName: "theirs-too"}
		port.MasterIndex = bridge.Attrs().Index
		return netlink.LinkAdd(port)
	})
	pod.del(t, config)
	if have := lab.a.inventory(t, pod); !slices.Contains(have, "node has "+bridgeName) || slices.Contains(have, "node has "+tunnelName) {
		t.Errorf("there is:\n%s", strings.Join(have, "\n"))
	}
	pod.add(t, config) // it is reused
	on(t, lab.a.Namespace, "theirs", netlink.LinkDel)
	pod.del(t, config)
	if have := lab.a.inventory(t, pod); slices.Contains(have, "node has "+bridgeName) {
		t.Errorf("there is:\n%s", strings.Join(have, "\n"))
	}
}

func TestConfigurationIsApplied(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	t.Run("the hardware address of the runtime", func(t *testing.T) {
		pod := lab.a.newPod(t)
		configs := list(t, lab.a.config(nil))
		at := pod.attachment()
		at.CapabilityArgs = map[string]any{"mac": "02:00:00:00:00:42", "ips": []string{"10.42.1.77/24"}}
		answer, err := lab.a.runtime.AddNetworkList(t.Context(), configs, at)
		must(t, err)
		result, err := current.GetResult(answer)
		must(t, err)
		if result.Interfaces[2].Mac != "02:00:00:00:00:42" || addressOf(result, true).String() != "10.42.1.77" {
			t.Errorf("the result is %+v, %+v", result.Interfaces[2], result.IPs)
		}
		must(t, lab.a.runtime.DelNetworkList(t.Context(), configs, at))
	})
	t.Run("an MTU", func(t *testing.T) {
		pod := lab.a.newPod(t)
		config := lab.a.config(fields{"mtu": 1300})
		if result := pod.add(t, config); result.Interfaces[2].Mtu != 1300 {
			t.Errorf("the result is %+v", result.Interfaces[2])
		}
		pod.del(t, config)
	})
	t.Run("the uplink's MTU", func(t *testing.T) {
		on(t, lab.a.Namespace, uplinkName, func(link netlink.Link) error { return netlink.LinkSetMTU(link, 9000) })
		defer on(t, lab.a.Namespace, uplinkName, func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1500) })
		pod := lab.a.newPod(t)
		config := lab.a.config(nil)
		if result := pod.add(t, config); result.Interfaces[2].Mtu != 8950 {
			t.Errorf("the result is %+v", result.Interfaces[2])
		}
		pod.del(t, config)
	})
	t.Run("a socket that the plugin must not create", func(t *testing.T) {
		pod := lab.a.newPod(t)
		config := lab.a.config(fields{"createSocket": false})
		result := pod.add(t, config)
		if want := pod.socket(); result.Interfaces[2].SocketPath != want {
			t.Errorf("socketPath is %q, want %q", result.Interfaces[2].SocketPath, want)
		}
		if _, err := os.Stat(result.Interfaces[2].SocketPath); err == nil {
			t.Error("it was made")
		}
		pod.del(t, config)
	})
	t.Run("DNS", func(t *testing.T) {
		pod := lab.a.newPod(t)
		config := lab.a.config(fields{"dns": fields{"nameservers": []string{"192.0.2.53"}}})
		if result := pod.add(t, config); !slices.Equal(result.DNS.Nameservers, []string{"192.0.2.53"}) {
			t.Errorf("the result is %+v", result.DNS)
		}
		pod.del(t, config)
	})
	t.Run("the container's id, without a pod's UID", func(t *testing.T) {
		pod := lab.a.newPod(t)
		configs := list(t, lab.a.config(nil))
		at := pod.attachment()
		at.Args = nil
		must(t, lab.a.attach(configs, at))
		if have := lab.a.inventory(t, pod); !slices.Contains(have, "ktsnd has endpoint "+pod.id+" "+podIf) {
			t.Errorf("there is:\n%s", strings.Join(have, "\n"))
		}
		must(t, lab.a.runtime.DelNetworkList(t.Context(), configs, at))
	})
}

func TestIPv6OnlyWithIPv6Address(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	for name, test := range map[string]struct {
		address, ipv6 string
	}{
		"an address of IPv4": {"10.42.1.9/16", "1"},
		"an address of IPv6": {"fd00:42::9/64", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			config := lab.a.config(fields{"ipam": static(test.address)})
			pod.add(t, config)
			must(t, pod.Do(func() error {
				off, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + podIf + "/disable_ipv6")
				if strings.TrimSpace(string(off)) != test.ipv6 {
					t.Errorf("disable_ipv6 is %s", off)
				}
				return err
			}))
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
			pod.del(t, config)
		})
	}
}

// TestDelWithACardInTheLeavingGroup deletes devices in a group with a device that cannot be removed (loopback, network
// card): the kernel then removes none of the group.
func TestDelWithACardInTheLeavingGroup(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	const leavingGroup = 7631727
	on(t, lab.a.Namespace, "lo", func(lo netlink.Link) error { return netlink.LinkSetGroup(lo, leavingGroup) })
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	config := lab.a.config(nil)
	pod.add(t, config)
	pod.del(t, config)
	checkSame(t, "after DEL", before, lab.a.inventory(t, pod))
}
