// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func files(contents map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, content := range contents {
		all[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return all
}

func reasons(findings []Finding) (all []string) {
	for _, finding := range findings {
		all = append(all, fmt.Sprint(finding.Reason, " ", finding.Breaks))
	}
	return all
}

// neighborTable has a neighbour table with a limit of 1,024 entries.
func neighborTable(entries, fulls int) map[string]string {
	const statistics = "entries  allocs destroys hash_grows lookups hits res_failed rcv_probes_mcast rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards table_fulls\n" +
		"%08x 0 0 0 0 0 0 0 0 0 0 0 00000000\n%08x 0 0 0 0 0 0 0 0 0 0 0 %08x\n"
	return map[string]string{
		"proc/sys/net/ipv4/neigh/default/gc_thresh3": "1024\n", "proc/net/stat/arp_cache": fmt.Sprintf(statistics, entries, entries, fulls),
	}
}

// TestNeighborsFull checks that only entries that were refused since the check before stop traffic.
func TestNeighborsFull(t *testing.T) {
	n := Node{}
	for _, step := range []struct {
		entries, fulls int
		want           string
	}{{1024, 3, "NeighborTableScarce false"}, {2000, 3, "NeighborTableScarce false"}, {1024, 4, "NeighborTableFull true"}, {10, 4, "NeighborTableScarce false"}} {
		n.Files = files(neighborTable(step.entries, step.fulls))
		if got := reasons(n.Settings()); !slices.Equal(got, []string{step.want}) {
			t.Errorf("%+v: findings %q", step, got)
		}
	}
}

func TestSettings(t *testing.T) {
	const k3s = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	for name, test := range map[string]struct {
		files, host map[string]string
		pluginDir   string
		want        string
	}{
		"nothing known":         {},
		"neighbours":            {files: neighborTable(500, 0)},
		"many neighbours":       {files: neighborTable(900, 0), want: "NeighborTableScarce false"},
		"too many before":       {files: neighborTable(10, 3), want: "NeighborTableScarce false"},
		"as many as fit":        {files: neighborTable(1024, 0), want: "NeighborTableScarce false"},
		"default qdisc fq":      {files: map[string]string{"proc/sys/net/core/default_qdisc": "fq\n"}, want: "DefaultQdisc false"},
		"default qdisc another": {files: map[string]string{"proc/sys/net/core/default_qdisc": "fq_codel\n"}},
		"SELinux":               {files: map[string]string{"sys/fs/selinux/enforce": "1"}, want: "SELinuxEnforcing false"},
		"SELinux permissive":    {files: map[string]string{"sys/fs/selinux/enforce": "0"}},
		"no host-local":         {files: map[string]string{"opt/cni/bin/tsn-cni": ""}, pluginDir: "/opt/cni/bin", want: "PluginFolder true"},
		"k3s": {
			files: map[string]string{"opt/cni/bin/host-local": ""}, pluginDir: "/opt/cni/bin", want: "PluginFolder false",
			host: map[string]string{k3s: "[plugins.cri.cni]\n  bin_dir = \"/var/lib/rancher/k3s/data/cni\"\n"},
		},
		"one of several folders": {
			files: map[string]string{"opt/cni/bin/host-local": ""}, pluginDir: "/opt/cni/bin",
			host: map[string]string{"etc/crio/crio.conf": "plugin_dirs = [\n\t\"/usr/libexec/cni\",\n\t\"/opt/cni/bin/\",\n]\n"},
		},
		"the runtime's default": {
			files: map[string]string{"opt/cni/bin/host-local": ""}, pluginDir: "/opt/cni/bin", host: map[string]string{"etc/containerd/config.toml": "version = 2\n"},
		},
	} {
		n := Node{Files: files(test.files), Host: files(test.host), PluginDir: test.pluginDir}
		want := []string{test.want}
		if test.want == "" {
			want = nil
		}
		if got := reasons(n.Settings()); !slices.Equal(got, want) {
			t.Errorf("%s: findings %q, want %q", name, got, want)
		}
	}
}

// TestDevicesManaged by records such as NetworkManager and systemd-networkd write them.
func TestDevicesManaged(t *testing.T) {
	topology.EnterTestNamespace(t, "node")
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "tsnbr42"
	testlab.Must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}))
	bridge, err := netlink.LinkByName("tsnbr42")
	testlab.Must(t, err)
	index := bridge.Attrs().Index
	const networkManager, networkd = "NetworkManager", "systemd-networkd"
	for _, test := range []struct{ folder, content, manager string }{
		{"run/NetworkManager/devices", "[device]\nmanaged=true\nconnection-uuid=1\n", networkManager},
		{"run/NetworkManager/devices", "[device]\nmanaged=false\n", ""},
		{"run/systemd/netif/links", "# This is private data.\nADMIN_STATE=configured\nOPER_STATE=carrier\n", networkd},
		{"run/systemd/netif/links", "# This is private data.\nADMIN_STATE=unmanaged\nOPER_STATE=carrier\n", ""},
	} {
		for setting, has := range map[string]string{
			"etc/other": "", "etc/NetworkManager/conf.d/90-kubernetsn.conf": networkManager, "etc/systemd/network/05-kubernetsn.network": networkd,
		} {
			n := here()
			n.Host = files(map[string]string{fmt.Sprintf("%s/%d", test.folder, index): test.content, setting: ""})
			finding := n.managers()
			if test.manager == "" {
				if finding != nil {
					t.Errorf("%+v: %+v", test, finding)
				}
				continue
			}
			want := test.manager + " manages tsnbr42, and may change or remove it: it has no /etc/"
			if has == test.manager {
				want = test.manager + " manages tsnbr42, and may change or remove it: it has not read /" + setting
			}
			if finding == nil || !strings.HasPrefix(finding.Text, want) || strings.Contains(finding.Remedy, "agent.unmanagedDevices") != (has != test.manager) {
				t.Errorf("%+v with %s: %+v", test, setting, finding)
			}
		}
	}
}

// TestReversePath with a peer to which another interface leads. The kernel drops what it sends.
func TestReversePath(t *testing.T) {
	node, other := topology.EnterTestNamespace(t, "node"), topology.NewTestNamespace(t, "peer")
	testlab.Must(t, cable(node, other))
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "second"
	testlab.Must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "third"}))
	testlab.Must(t, topology.SetUp("second"))
	testlab.Must(t, topology.SetUp("third"))
	second, err := netlink.LinkByName("second")
	testlab.Must(t, err)
	for _, detour := range []bool{false, true} {
		if detour {
			testlab.Must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: second.Attrs().Index, Dst: topology.Network(netip.PrefixFrom(peerAddress, 32))}))
		}
		for _, mode := range []string{"0", "1"} {
			testlab.Must(t, os.WriteFile("/proc/sys/net/ipv4/conf/up/rp_filter", []byte(mode), 0))
			finding := here().reversePath()
			if (finding != nil) != (detour && mode == "1") {
				t.Errorf("rp_filter %s, a detour: %v: finding %+v", mode, detour, finding)
			}
		}
	}
}

func TestWatcher(t *testing.T) {
	topology.EnterTestNamespace(t, "node")
	networks := here().Networks
	var errNetworks error
	watcher := Watcher{Node: Node{Files: files(nil)}, Networks: func() ([]Network, error) { return networks, errNetworks }}
	check := func(want ...string) {
		t.Helper()
		findings, err := watcher.Check()
		if !errors.Is(err, errNetworks) {
			t.Errorf("got %v, want %v", err, errNetworks)
		}
		if got := reasons(findings); !slices.Equal(got, want) {
			t.Errorf("findings %q, want %q", got, want)
		}
	}
	check()
	apply(t, "table inet fw { chain in { type filter hook input priority 0; udp dport 4789 drop; } }")
	check("TunnelDropped true")
	checkedAt := watcher.checkedAt
	check("TunnelDropped true")
	if watcher.checkedAt != checkedAt {
		t.Error("the rules were read again without a change")
	}
	networks, errNetworks = nil, errors.New("no networks")
	check("TunnelDropped true")
	networks, errNetworks = watcher.Node.Networks, nil
	networks = slices.Clone(networks)
	networks[0].Port = 4790
	check()
}

// BenchmarkFilters reads and evaluates 1,000 rules.
func BenchmarkFilters(b *testing.B) {
	topology.EnterTestNamespace(b, "node")
	var rules strings.Builder
	rules.WriteString("table inet fw { chain in { type filter hook input priority 0; policy drop;\n")
	for i := range 1000 {
		fmt.Fprintf(&rules, "ip saddr 198.51.100.%d udp dport %d accept\n", i%250, 1000+i)
	}
	if err := nft(rules.String() + "}\n}"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		findings, err := here().Filters()
		if err != nil || len(findings) != 1 {
			b.Fatal(findings, err)
		}
	}
}
