// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/receive"
)

// Node is the node that is checked.
type Node struct {
	// Files is the root folder with /proc and /sys of the node's network namespace. Missing files are unknown settings.
	Files fs.FS
	// Host is the root folder of the node itself; nil if it is not accessible.
	Host     fs.FS
	Networks []Network
	// PluginDir is the node's folder of network plugins; "" if it is not accessible.
	PluginDir string

	// fulls is how often the neighbour table was full at the last check; nil before the first one.
	fulls *int64
}

// text returns a file's content, "" if it cannot be read.
func (n *Node) text(name string) string {
	content, _ := fs.ReadFile(n.Files, name)
	return strings.TrimSpace(string(content))
}

func (n *Node) flag(name string) bool {
	return n.text(name) == "1"
}

func (n *Node) number(name string) int64 {
	number, _ := strconv.ParseInt(n.text(name), 10, 64)
	return number
}

// uplinks returns the interfaces of the node by which tunnels lead.
func (n *Node) uplinks() (names []string) {
	for i := range n.Networks {
		if name := n.Networks[i].Uplink; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Settings returns the findings about everything but the packet filter.
func (n *Node) Settings() (all []Finding) {
	for _, check := range []func() *Finding{n.neighbors, n.reversePath, n.pluginFolder, n.checksums, n.managers, n.programs, n.qdisc, n.selinux} {
		if finding := check(); finding != nil {
			all = append(all, *finding)
		}
	}
	return all
}

// scarcePercent of the neighbour table is reported.
const scarcePercent = 80

// neighbors checks the table of all neighbours of the machine: the kernel counts those of all network namespaces together. The entries
// include permanent and learned ones, which do not count towards the limit, so that only a refused entry shows that it is full.
func (n *Node) neighbors() *Finding {
	most := n.number("proc/sys/net/ipv4/neigh/default/gc_thresh3")
	entries, fulls := n.neighborStatistics()
	const remedy = "set net.ipv4.neigh.default.gc_thresh3 to at least 2 x nodes + pods of the node x destinations of each pod, and gc_thresh2 to half of it"
	before := n.fulls
	n.fulls = &fulls
	switch {
	case most == 0:
		return nil // a network namespace that is not the machine's own does not show it
	case before != nil && fulls > *before:
		return &Finding{
			ReasonNeighborsFull, true,
			fmt.Sprintf("the neighbour table was full %d times since the check before (%d entries, limit %d)", fulls-*before, entries, most), remedy,
		}
	case fulls > 0 || entries*100 >= most*scarcePercent:
		return &Finding{ReasonNeighborsScarce, false, fmt.Sprintf("the neighbour table has %d of %d entries, and was full %d times", entries, most, fulls), remedy}
	}
	return nil
}

// neighborStatistics sums up the processors' lines; each has the entries of all.
func (n *Node) neighborStatistics() (entries, fulls int64) {
	statistics := n.text("proc/net/stat/arp_cache")
	lines := strings.Split(statistics, "\n")
	column := slices.Index(strings.Fields(lines[0]), "table_fulls")
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if column > 0 && column < len(fields) {
			entries, _ = strconv.ParseInt(fields[0], 16, 64)
			count, _ := strconv.ParseInt(fields[column], 16, 64)
			fulls += count
		}
	}
	return entries, fulls
}

// reversePath checks that packets of peers arrive at the interface by which the node sends to them, where rp_filter is strict.
func (n *Node) reversePath() *Finding {
	const strict = 1
	for i := range n.Networks {
		network := &n.Networks[i]
		mode := max(n.number("proc/sys/net/ipv4/conf/all/rp_filter"), n.number("proc/sys/net/ipv4/conf/"+network.Uplink+"/rp_filter"))
		if mode != strict || network.Uplink == "" {
			continue
		}
		uplink, err := netlink.LinkByName(network.Uplink)
		if err != nil {
			continue
		}
		for _, peer := range network.Peers[:min(len(network.Peers), maxPeers)] {
			routes, err := netlink.RouteGetWithOptions(peer.Address.AsSlice(), &netlink.RouteGetOptions{SrcAddr: net.IP(network.Local.AsSlice())})
			if err != nil || len(routes) == 0 || len(routes[0].MultiPath) > 0 || routes[0].LinkIndex == uplink.Attrs().Index {
				continue
			}
			return &Finding{
				ReasonReversePath, true,
				fmt.Sprintf("rp_filter of %s is strict, and the route to peer %s leads by another interface, so its packets are dropped", network.Uplink, peer.Address),
				fmt.Sprintf("`sysctl net.ipv4.conf.%s.rp_filter=2` (and conf.all, if it is 1), or a route to the peer by %s", network.Uplink, network.Uplink),
			}
		}
	}
	return nil
}

// checksums names drivers that are known for packets of tunnels with wrong checksums.
func (n *Node) checksums() *Finding {
	for i := range n.Networks {
		network := &n.Networks[i]
		driver := driverOf(network.Uplink)
		if driver != "vmxnet3" && driver != "virtio_net" || !netdev.OffloadsChecksums(network.Tunnel) {
			continue
		}
		return &Finding{
			ReasonTunnelChecksum, false,
			fmt.Sprintf("with the driver %s of %s some hosts send packets of tunnels with wrong checksums: ping and timed messages arrive, TCP and other UDP do not", driver, network.Uplink),
			"if so, set tunnelChecksumOffload=Disable of the chart; without the chart `ethtool -K " + network.Tunnel + " tx-checksum-ip-generic off`, for each tunnel",
		}
	}
	return nil
}

// Words of linux/ethtool.h: drvinfo has the name of the driver from its second word on.
const (
	driverInfoWords = 49
	driverNameBytes = 32
)

// driverOf returns the driver of an interface, "" if it does not say.
func driverOf(name string) string {
	info := make([]uint32, driverInfoWords)
	info[0] = unix.ETHTOOL_GDRVINFO
	if name == "" || netdev.Ethtool(name, info) != nil {
		return ""
	}
	var driver []byte
	for _, word := range info[1 : 1+driverNameBytes/4] {
		driver = binary.NativeEndian.AppendUint32(driver, word)
	}
	known, _, _ := strings.Cut(string(driver), "\x00")
	return known
}

// programs names tcx programs at the uplink that get frames before the program for receive rings, and may end the matter.
func (n *Node) programs() *Finding {
	for _, uplink := range n.uplinks() {
		link, err := netlink.LinkByName(uplink)
		if err != nil {
			continue
		}
		before, err := receive.ProgramsBefore(link)
		if err != nil || len(before) == 0 {
			continue
		}
		return &Finding{
			ReasonProgramsBefore, false,
			fmt.Sprintf("tcx programs at %s get frames first: %s; receive rings and spec.receive.path Redirect get only those that they pass on (TCX_NEXT)", uplink, strings.Join(before, ", ")),
			"`ktsn node receive attach " + uplink + "` puts the program of KuberneTSN first, unless another insists on that place",
		}
	}
	return nil
}

// qdisc checks the default queueing discipline, which taps of virtual machines get.
func (n *Node) qdisc() *Finding {
	if discipline := n.text("proc/sys/net/core/default_qdisc"); discipline != "fq" {
		return nil
	}
	return &Finding{
		ReasonQdisc, false, "net.core.default_qdisc is fq: interfaces of virtual machines can lose received frames that have time stamps (horizon_drop in `tc -s qdisc`)",
		"`sysctl net.core.default_qdisc=fq_codel` on nodes with virtual machines",
	}
}

func (n *Node) selinux() *Finding {
	if !n.flag("sys/fs/selinux/enforce") {
		return nil
	}
	return &Finding{
		ReasonSELinux, false, "SELinux is enforced: pods must be allowed to connect to ktsnd's sockets and to use its maps",
		"docs/guide/install.md has the rights; `ausearch -m avc -ts recent` shows what was refused",
	}
}

// runtimeConfigs are configuration files of container runtimes, and the keys with their folders of network plugins.
var runtimeConfigs = []struct{ path, runtime string }{
	{"var/lib/rancher/k3s/agent/etc/containerd/config.toml", "containerd of k3s"},
	{"var/lib/rancher/rke2/agent/etc/containerd/config.toml", "containerd of RKE2"},
	{"var/snap/microk8s/current/args/containerd.toml", "containerd of MicroK8s"},
	{"etc/k0s/containerd.toml", "containerd of k0s"},
	{"etc/containerd/config.toml", "containerd"},
	{"etc/crio/crio.conf", "CRI-O"},
}

// pluginFolder checks that the folder of network plugins is a runtime's.
func (n *Node) pluginFolder() *Finding {
	if n.PluginDir == "" {
		return nil
	}
	if _, err := fs.Stat(n.Files, path.Join(strings.TrimPrefix(n.PluginDir, "/"), "host-local")); errors.Is(err, fs.ErrNotExist) {
		return &Finding{
			ReasonPluginFolder, true, fmt.Sprintf("there is no host-local in %s, so pods get no addresses", n.PluginDir),
			"install the reference plugins of CNI there, or set pluginDir of the chart to the runtime's folder; docs/guide/install.md has those of distributions",
		}
	}
	for _, config := range runtimeConfigs {
		if n.Host == nil {
			break
		}
		content, err := fs.ReadFile(n.Host, config.path)
		if folders := pluginFolders(string(content)); err == nil && len(folders) > 0 && !slices.Contains(folders, n.PluginDir) {
			return &Finding{
				ReasonPluginFolder, false, fmt.Sprintf("%s looks for network plugins in %s (/%s), and pluginDir of the chart is %s", config.runtime, strings.Join(folders, ", "), config.path, n.PluginDir),
				"set pluginDir of the chart to the folder in which Multus finds plugins (binDir of its configuration)",
			}
		} else if err == nil {
			break // the runtime's own defaults
		}
	}
	return nil
}

// pluginFolders returns the values of bin_dir, bin_dirs and plugin_dirs in a configuration of containerd or CRI-O.
func pluginFolders(config string) (folders []string) {
	inList := false
	for line := range strings.Lines(config) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		key, value, isPair := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); {
		case isPair && (key == "bin_dir" || key == "bin_dirs" || key == "plugin_dirs"):
			line = value
		case !inList:
			continue
		}
		inList = strings.Contains(line, "[") && !strings.Contains(line, "]") || inList && !strings.Contains(line, "]")
		for i, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' || r == '\'' }) {
			if folder := strings.TrimSpace(part); strings.HasPrefix(folder, "/") && i < 64 {
				folders = append(folders, path.Clean(folder))
			}
		}
	}
	return folders
}
