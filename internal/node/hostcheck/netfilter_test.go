// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const patience = 20 * time.Second

var (
	peerAddress  = netip.MustParseAddr("192.0.2.2")
	localAddress = netip.MustParseAddr("192.0.2.1")
)

// probe counts what arrives before all other rules.
const probe = "table inet probe { chain c { type filter hook prerouting priority -500; udp dport 4789 counter comment \"arrived\"; } }"

// run runs a command in the thread's network namespace.
func run(t *testing.T, command ...string) string {
	t.Helper()
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, output)
	}
	return string(output)
}

func nft(rules string) error {
	command := exec.Command("nft", "-f", "-")
	command.Stdin = strings.NewReader(rules)
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, output)
	}
	return nil
}

// apply applies lines that begin with iptables, iptables-legacy or ipset, or a file of nft.
func apply(t *testing.T, rules string) {
	t.Helper()
	if !strings.HasPrefix(rules, "iptables") {
		testlab.Must(t, nft(strings.ReplaceAll(rules, "; }", "; }\n")))
		return
	}
	for line := range strings.Lines(rules) {
		run(t, strings.Fields(line)...)
	}
}

func here() *Node {
	return &Node{Files: os.DirFS("/"), Networks: []Network{{
		Bridge: "tsnbr42", Tunnel: "tsnvx42", Uplink: "up", Local: localAddress, Port: 4789, Pod: netip.MustParseAddr("10.142.1.2"),
		Peers: []Peer{{Address: peerAddress, Pod: netip.MustParseAddr("10.142.2.1")}},
	}}}
}

// TestTunnelRules compares the verdict with what the kernel does to a datagram.
func TestTunnelRules(t *testing.T) {
	node, other := topology.EnterTestNamespace(t, "node"), topology.NewTestNamespace(t, "peer")
	testlab.Must(t, cable(node, other))
	for name, test := range map[string]struct {
		rules, reason, text, remedy string
	}{
		"no rules":      {"table inet fw {}", "", "", ""},
		"drop the port": {"table inet fw { chain in { type filter hook input priority 0; udp dport 4789 drop; } }", ReasonTunnelDropped, "chain in of table inet fw", "UDP port 4789"},
		"drop a range, by a rule with a comment": {"table inet fw { chain in { type filter hook input priority 0; udp dport 4000-5000 drop comment \"no tunnels\"; } }",
			ReasonTunnelDropped, `("no tunnels")`, ""},
		"policy drop":            {"table inet fw { chain in { type filter hook input priority 0; policy drop; } }", ReasonTunnelDropped, "the policy of chain in", ""},
		"policy drop, with hole": {"table inet fw { chain in { type filter hook input priority 0; policy drop; ip saddr 192.0.2.0/24 udp dport { 53, 4789 } accept; } }", "", "", ""},
		"another peer's hole":    {"table inet fw { chain in { type filter hook input priority 0; policy drop; ip saddr 192.0.2.3 udp dport 4789 accept; } }", ReasonTunnelDropped, "", ""},
		"established only": {"table inet fw { chain in { type filter hook input priority 0; policy drop; ct state vmap { established : accept, related : accept, invalid : drop }; } }",
			ReasonTunnelDropped, "", ""},
		"invalid only": {"table inet fw { chain in { type filter hook input priority 0; ct state invalid drop; } }", "", "", ""},
		"like firewalld": {`table inet firewalld {
			chain filter_INPUT { type filter hook input priority filter + 10; policy accept; ct state { established, related } accept; iifname "lo" accept;
				iifname vmap { "up" : goto filter_IN_public, "x*" : drop }; ct state invalid drop; reject with icmpx admin-prohibited; }
			chain filter_IN_public { jump filter_IN_public_allow; meta l4proto { icmp, ipv6-icmp } accept; reject with icmpx admin-prohibited; }
			chain filter_IN_public_allow { tcp dport 22 ct state { new, untracked } accept; } }`, ReasonTunnelDropped, "filter_IN_public", "firewall-cmd --permanent --add-port=4789/udp"},
		"like firewalld, with the port": {`table inet firewalld {
			chain filter_INPUT { type filter hook input priority filter + 10; policy accept; iifname vmap { "up" : goto filter_IN_public }; reject with icmpx admin-prohibited; }
			chain filter_IN_public { jump filter_IN_public_allow; reject with icmpx admin-prohibited; }
			chain filter_IN_public_allow { udp dport 4789 ct state { new, untracked } accept; } }`, "", "", ""},
		"a return before the drop": {"table ip fw { chain a { ip saddr 192.0.2.2 return; drop; } chain in { type filter hook input priority 0; jump a; } }", "", "", ""},
		"a goto":                   {"table ip fw { chain a { ip saddr 198.51.100.0/24 drop; } chain in { type filter hook input priority 0; policy drop; goto a; accept; } }", ReasonTunnelDropped, "policy", ""},
		"a set of ranges": {"table ip fw { set s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.0/28 }; } chain in { type filter hook input priority 0; ip saddr @s drop; } }",
			ReasonTunnelDropped, "", ""},
		"outside a set of ranges": {"table ip fw { set s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.64/28 }; } chain in { type filter hook input priority 0; ip saddr @s drop; } }",
			"", "", ""},
		"a concatenation":                      {"table ip fw { chain in { type filter hook input priority 0; ip saddr . udp dport { 192.0.2.2 . 4789 } drop; } }", ReasonTunnelDropped, "", ""},
		"dropped before":                       {"table ip raw2 { chain p { type filter hook prerouting priority -300; udp dport 4789 drop; } }", ReasonTunnelDropped, "chain p", ""},
		"addressed to host":                    {"table ip fw { chain in { type filter hook input priority 0; fib daddr type local udp dport 4789 drop; } }", ReasonTunnelDropped, "", ""},
		"a mark":                               {"table ip fw { chain in { type filter hook input priority 0; meta mark and 0xff == 1 accept; udp dport 4789 drop; } }", ReasonTunnelDropped, "", ""},
		"not this interface":                   {`table ip fw { chain in { type filter hook input priority 0; iifname != "up" udp dport 4789 drop; } }`, "", "", ""},
		"prefix of names":                      {`table ip fw { chain in { type filter hook input priority 0; iifname "u*" udp dport 4789 drop; } }`, ReasonTunnelDropped, "", ""},
		"limited":                              {"table ip fw { chain in { type filter hook input priority 0; udp dport 4789 limit rate over 1000000/second drop; } }", ReasonTunnelMayBeDropped, "may be dropped", ""},
		"by its length":                        {"table ip fw { chain in { type filter hook input priority 0; udp length > 1400 drop; } }", ReasonTunnelMayBeDropped, "", ""},
		"iptables, port":                       {"iptables -A INPUT -p udp --dport 4789 -j DROP", ReasonTunnelDropped, "chain INPUT of table ip filter", ""},
		"iptables, multiport and address type": {"iptables -A INPUT -p udp -m multiport --dports 53,4000:5000 -m addrtype --dst-type LOCAL -m comment --comment tunnels -j REJECT", ReasonTunnelDropped, "", ""},
		"iptables, other ports":                {"iptables -A INPUT -p udp -m multiport ! --dports 53,4789 -m addrtype --dst-type LOCAL -j DROP", "", "", ""},
		"iptables, states": {"iptables -P INPUT DROP\niptables -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\niptables -A INPUT -m mark --mark 0x10/0xf0 -j ACCEPT",
			ReasonTunnelDropped, "the policy of chain INPUT", ""},
		"iptables, new ones accepted": {"iptables -P INPUT DROP\niptables -A INPUT -m conntrack --ctstate NEW,UNTRACKED -j ACCEPT", "", "", ""},
		"iptables, untracked ones":    {"iptables -t raw -A PREROUTING -j CT --notrack\niptables -P INPUT DROP\niptables -A INPUT -m conntrack --ctstate UNTRACKED -j ACCEPT", "", "", ""},
		"ufw": {"iptables -N ufw-user-input\niptables -N ufw-reject-input\niptables -P INPUT DROP\niptables -A INPUT -j ufw-user-input\niptables -A INPUT -j ufw-reject-input\n" +
			"iptables -A ufw-user-input -p tcp --dport 22 -j ACCEPT\niptables -A ufw-reject-input -j REJECT", ReasonTunnelDropped, "ufw-reject-input", "ufw allow 4789/udp"},
	} {
		for _, rules := range variants(test.rules) {
			apply(t, rules)
			findings, err := here().Filters()
			testlab.Must(t, err)
			checkFinding(t, rules, findings, test.reason, test.text, test.remedy)
			if got := arrives(t, node, other); test.reason != ReasonTunnelMayBeDropped && got != (test.reason == "") {
				t.Errorf("%s, %s: the kernel delivers a datagram: %v", name, rules, got)
			}
		}
	}
}

// variants returns rules of iptables also as those of iptables-legacy.
func variants(rules string) []string {
	if !strings.HasPrefix(rules, "iptables ") {
		return []string{rules}
	}
	return []string{rules, strings.ReplaceAll(rules, "iptables ", "iptables-legacy ")}
}

const legacyNames = "proc/thread-self/net/ip_tables_names"

// legacyTableNames returns the names of tables of iptables-legacy: none before the kernel has its first one.
func legacyTableNames(t *testing.T) []byte {
	t.Helper()
	names, err := os.ReadFile("/" + legacyNames)
	if !errors.Is(err, fs.ErrNotExist) {
		testlab.Must(t, err)
	}
	return names
}

// flush removes all rules. Tables of iptables-legacy stay.
func flush(t *testing.T) {
	t.Helper()
	run(t, "nft", "flush ruleset")
	names := legacyTableNames(t)
	for _, name := range strings.Fields(string(names)) {
		run(t, "iptables-legacy", "-t", name, "-F")
		run(t, "iptables-legacy", "-t", name, "-X")
		if name == "filter" {
			run(t, "iptables-legacy", "-P", "INPUT", "ACCEPT")
			run(t, "iptables-legacy", "-P", "FORWARD", "ACCEPT")
		}
	}
}

func cable(node, other *topology.Namespace) error {
	return node.Do(func() error {
		file, err := os.Open(other.Path())
		if err != nil {
			return err
		}
		defer file.Close()
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "up"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "up", PeerNamespace: netlink.NsFd(int(file.Fd()))}); err != nil {
			return err
		}
		if err := topology.AddAddress("up", netip.PrefixFrom(localAddress, 24)); err != nil {
			return err
		}
		if err := topology.SetUp("up"); err != nil {
			return err
		}
		return other.Do(func() error {
			if err := topology.AddAddress("up", netip.PrefixFrom(peerAddress, 24)); err != nil {
				return err
			}
			return topology.SetUp("up")
		})
	})
}

func checkFinding(t *testing.T, name string, findings []Finding, reason, text, remedy string) {
	t.Helper()
	if reason == "" {
		if len(findings) > 0 {
			t.Errorf("%s: findings %+v, want none", name, findings)
		}
		return
	}
	if len(findings) != 1 || findings[0].Reason != reason || !strings.Contains(findings[0].Text, text) || !strings.Contains(findings[0].Remedy, remedy) {
		t.Errorf("%s: findings %+v, want %s with %q and %q", name, findings, reason, text, remedy)
		return
	}
	if breaks := !strings.Contains(reason, "May"); findings[0].Breaks != breaks {
		t.Errorf("%s: it breaks traffic: %v", name, findings[0].Breaks)
	}
}

// arrives reports whether the kernel delivers a datagram under the present rules, which it removes. It needs no time limit: a second
// datagram follows the first one, after the rules are gone.
func arrives(t *testing.T, node, other *topology.Namespace) bool {
	t.Helper()
	apply(t, probe)
	talker, listener := testlab.UDP4(t, other, node, netip.AddrPortFrom(localAddress, 4789))
	defer listener.Close()
	if _, err := talker.Write([]byte("before")); err != nil {
		t.Fatal(err)
	}
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if listed := run(t, "nft", "list table inet probe"); strings.Contains(listed, "counter packets 0 ") {
			return fmt.Errorf("no datagram has arrived: %s", listed)
		}
		return nil
	})
	flush(t)
	_, _ = talker.Write([]byte("after"))
	_, _ = talker.Write([]byte("after")) // the first one may have reported the ICMP error of a rejection instead
	buffer := make([]byte, 16)
	_ = listener.SetReadDeadline(time.Now().Add(patience))
	length, err := listener.Read(buffer)
	testlab.Must(t, err)
	return string(buffer[:length]) == "before"
}

// The rules of Calico accept the port from the nodes of an ipset only.
func TestCalicosRules(t *testing.T) {
	topology.EnterTestNamespace(t, "node")
	for name, member := range map[string]string{"a peer of the set": "192.0.2.0", "none of them": "198.51.100.0"} {
		testlab.Must(t, netlink.IpsetCreate("cali40all-vxlan-net", "hash:net", netlink.IpsetCreateOptions{}))
		testlab.Must(t, netlink.IpsetAdd("cali40all-vxlan-net", &netlink.IPSetEntry{IP: netip.MustParseAddr(member).AsSlice(), CIDR: 24}))
		for _, rules := range variants(`iptables -N cali-INPUT
iptables -A INPUT -j cali-INPUT
iptables -A cali-INPUT -p udp -m comment --comment cali:a -m multiport --dports 4789 -m set --match-set cali40all-vxlan-net src -m addrtype --dst-type LOCAL -j ACCEPT
iptables -A cali-INPUT -p udp -m comment --comment cali:b -m multiport --dports 4789 -m addrtype --dst-type LOCAL -j DROP`) {
			apply(t, rules)
			findings, err := here().Filters()
			testlab.Must(t, err)
			reason := ReasonTunnelDropped
			if name == "a peer of the set" {
				reason = ""
			}
			checkFinding(t, name, findings, reason, "cali-INPUT", "Calico")
			if isLegacy := strings.Contains(rules, "legacy"); isLegacy && reason != "" && !strings.Contains(findings[0].Text, `"cali:b"`) {
				t.Errorf("the finding does not name the rule by its comment: %+v", findings)
			}
			flush(t)
		}
		testlab.Must(t, netlink.IpsetDestroy("cali40all-vxlan-net"))
	}
}

func TestBridgedRules(t *testing.T) {
	topology.EnterTestNamespace(t, "node")
	for name, test := range map[string]struct{ rules, reason string }{
		"accepted":           {"iptables -P FORWARD ACCEPT", ""},
		"policy":             {"iptables -P FORWARD DROP", ReasonBridgedDropped},
		"with our exception": {"iptables -P FORWARD DROP\niptables -I FORWARD -m physdev --physdev-is-bridged -i tsnbr+ -j ACCEPT", ""},
		"invalid ones":       {"iptables -A FORWARD -m conntrack --ctstate INVALID -j DROP", ""},
		"first network's rules": {"iptables -P FORWARD DROP\niptables -A FORWARD -s 10.244.0.0/16 -j ACCEPT\niptables -A FORWARD -d 10.244.0.0/16 -j ACCEPT\n" +
			"iptables -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\niptables -A FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT", ReasonBridgedDropped},
		"a time of the day": {"iptables -P FORWARD DROP\niptables -A FORWARD -m time --timestart 00:00 --timestop 12:00 -j ACCEPT", ReasonBridgedMayBeDropped},
	} {
		for _, rules := range variants(test.rules) {
			apply(t, rules)
			names := legacyTableNames(t)
			for _, shown := range []string{"1", "0"} {
				n := here()
				n.Files = fstest.MapFS{"proc/sys/net/bridge/bridge-nf-call-iptables": {Data: []byte(shown + "\n")}, legacyNames: {Data: names}}
				findings, err := n.Filters()
				testlab.Must(t, err)
				if shown == "0" {
					checkFinding(t, name, findings, "", "", "")
				} else {
					checkFinding(t, rules, findings, test.reason, "tsnbr42", "")
				}
			}
			run(t, "iptables", "-P", "FORWARD", "ACCEPT")
			flush(t)
		}
	}
}

// TestLegacyRules has rules that iptables-nft writes in another way, and damaged tables.
func TestLegacyRules(t *testing.T) {
	node, other := topology.EnterTestNamespace(t, "node"), topology.NewTestNamespace(t, "peer")
	testlab.Must(t, cable(node, other))
	for rules, reason := range map[string]string{
		"": "",
		"-t raw -A PREROUTING -s 192.0.2.0/24 ! -d 192.0.2.9 -i u+ -p udp -j DROP":     ReasonTunnelDropped,
		"-t raw -A PREROUTING ! -s 192.0.2.0/24 -j DROP":                               "",
		"-t mangle -A INPUT ! -i up -j DROP":                                           "",
		"-A INPUT ! -p udp -j DROP":                                                    "",
		"-A INPUT -f -j DROP":                                                          "",
		"-A INPUT -p udp\n-A INPUT -p udp -j DROP":                                     ReasonTunnelDropped,
		"-A INPUT -j RETURN\n-A INPUT -j DROP":                                         "",
		"-N a\n-A a -j RETURN\n-A INPUT -j a\n-A INPUT -p udp -j DROP":                 ReasonTunnelDropped,
		"-N a\n-A a -s 198.51.100.1 -j ACCEPT\n-A INPUT -g a\n-A INPUT -p udp -j DROP": "",
		"-P INPUT DROP\n-N a\n-N b\n-A a -p udp -j b\n-A b -j ACCEPT\n-A INPUT -j a":   "",
		"-A INPUT -p udp -m u32 --u32 0>>22&0x3C@8>>24=1 -j DROP":                      ReasonTunnelMayBeDropped,
	} {
		for line := range strings.Lines(rules) {
			run(t, append([]string{"iptables-legacy"}, strings.Fields(line)...)...)
		}
		n := here()
		names := legacyTableNames(t)
		n.Files = fstest.MapFS{legacyNames: {Data: names}} // without bridged frames
		findings, err := n.Filters()
		testlab.Must(t, err)
		checkFinding(t, rules, findings, reason, "(iptables-legacy)", "")
		if got := arrives(t, node, other); reason != ReasonTunnelMayBeDropped && got != (reason == "") {
			t.Errorf("%s: the kernel delivers a datagram: %v", rules, got)
		}
	}
	apply(t, "iptables-legacy -N a\niptables-legacy -A a -p udp --dport 4789 -m comment --comment c -j DROP\niptables-legacy -A INPUT -j a")
	info, entries, err := readLegacyTable("filter")
	testlab.Must(t, err)
	for length := range entries {
		s := &ruleset{tables: map[table]map[string]*chain{}}
		cut := slices.Clone(entries[:length]) // so that nothing follows
		if err := s.addLegacy(table{unix.NFPROTO_IPV4, "filter"}, 0, info, cut); err != nil && len(s.tables) > 0 {
			t.Errorf("%d bytes: chains of a table that could not be read are used", length)
		}
	}
}
