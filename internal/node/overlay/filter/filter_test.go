// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func peer(address string, subnets ...string) control.Peer {
	result := control.Peer{VNI: 42, Address: netip.MustParseAddr(address)}
	for _, subnet := range subnets {
		result.Subnets = append(result.Subnets, netip.MustParsePrefix(subnet))
	}
	return result
}

func TestSources(t *testing.T) {
	for name, test := range map[string]struct {
		subnets    []string
		ipv4, ipv6 string
	}{
		"one of each family":                      {[]string{"10.42.2.0/24", "fd00:42:2::/64"}, "10.42.2.0-10.42.2.255", "fd00:42:2::-fd00:42:2:0:ffff:ffff:ffff:ffff"},
		"a family without one is not looked at":   {[]string{"10.42.2.0/25"}, "10.42.2.0-10.42.2.127", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		"one within another, told first":          {[]string{"10.42.2.16/28", "10.42.2.0/24", "fd00::/64"}, "10.42.2.0-10.42.2.255", "fd00::-fd00::ffff:ffff:ffff:ffff"},
		"the same twice, and one beside":          {[]string{"10.42.2.0/24", "10.42.2.0/24", "10.42.4.1/32", "fd00::1/128"}, "10.42.2.0-10.42.2.255 10.42.4.1-10.42.4.1", "fd00::1-fd00::1"},
		"an IPv6 subnet that begins like an IPv4": {[]string{"::/96", "0.0.0.0/0"}, "0.0.0.0-255.255.255.255", "::-::ffff:ffff"},
	} {
		wanted := Wanted{Peers: []control.Peer{peer("192.0.2.2", test.subnets...)}}
		for ipv4, want := range map[bool]string{true: test.ipv4, false: test.ipv6} {
			var got []string
			for _, source := range wanted.sources(ipv4) {
				got = append(got, source.first.String()+"-"+source.last.String())
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

// TestApplyWithoutNftables by what such kernels answer, Debian's 6.1 without its modules among them.
func TestNetworksOfPeers(t *testing.T) {
	plain, ported := peer("192.0.2.2", "10.42.2.0/24"), peer("192.0.2.2", "10.43.2.0/24")
	plain.VNI, ported.VNI, ported.Port = 42, 43, 8472
	for name, test := range map[string]struct {
		tunnels []Tunnel
		want    string
	}{
		"no tunnel":                           {nil, "[{4789 42} {4789 43} {8472 43}]"},
		"a tunnel of the network with a port": {[]Tunnel{{VNI: 43, Port: 8472}}, "[{4789 42} {4789 43} {8472 43}]"},
		"a tunnel of ktsnd's port":            {[]Tunnel{{VNI: 42, Port: 4000}}, "[{4000 42} {4000 43} {8472 43}]"},
		"both":                                {[]Tunnel{{VNI: 42, Port: 4789}, {VNI: 43, Port: 8472}}, "[{4789 42} {4789 43} {8472 43}]"},
		"only an encrypted tunnel": {
			[]Tunnel{{VNI: 42, Port: 4793, Encrypted: true}}, "[{4789 42} {4789 43} {4793 42} {4793 43} {8472 43}]",
		},
		"an encrypted tunnel of the network with a port": {
			[]Tunnel{{VNI: 43, Port: 4793, Encrypted: true}}, "[{4789 42} {4789 43} {4793 42} {4793 43} {8472 43}]",
		},
		"an encrypted tunnel, and a clear one": {
			[]Tunnel{{VNI: 42, Port: 4000}, {VNI: 43, Port: 4793, Encrypted: true}}, "[{4000 42} {4000 43} {4793 42} {4793 43} {8472 43}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			networks := (&Wanted{Tunnels: test.tunnels, Peers: []control.Peer{plain, ported}}).networks()
			slices.SortFunc(networks, func(a, b network) int { return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.vni, b.vni)) })
			if got := fmt.Sprint(slices.Compact(networks)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestApplyWithoutNftables(t *testing.T) {
	for answer, missing := range map[syscall.Errno]bool{unix.EINVAL: true, unix.EPROTONOSUPPORT: true, unix.EOPNOTSUPP: true, unix.EPERM: false} {
		if got := errors.Is(notListed(answer), ErrMissing); got != missing {
			t.Errorf("%v: it is missing: %v, want %v", answer, got, missing)
		}
	}
}

// enterNamespace moves the test to a network namespace of its own, with a bridge.
func enterNamespace(t *testing.T) {
	t.Helper()
	topology.EnterTestNamespace(t, "filter")
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "tsnbr42"
	testlab.Must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}))
}

func wantedOne() *Wanted {
	return &Wanted{
		Tunnels: []Tunnel{{VNI: 42, Port: 4789, Uplink: 7}}, Closed: []string{"tsnbr42"},
		Peers: []control.Peer{peer("192.0.2.2", "10.42.2.0/24"), peer("192.0.2.3", "10.42.3.0/24", "fd00:42:3::/64")},
	}
}

// mustApply applies, and expects that something, or nothing, differed; then nothing must differ any more.
func mustApply(t *testing.T, wanted *Wanted, differs string) {
	t.Helper()
	changed, err := Apply(wanted)
	testlab.Must(t, err)
	if message := strings.Join(changed, "; "); (differs == "") != (message == "") || !strings.Contains(message, differs) {
		t.Errorf("it says %q, want %q", message, differs)
	}
	if err := Check(wanted); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestApply(t *testing.T) {
	enterNamespace(t)
	mustApply(t, &Wanted{}, "")
	mustApply(t, wantedOne(), "it is missing; pods can reach the node by bridge tsnbr42")
	mustApply(t, wantedOne(), "")
	more := wantedOne()
	more.Peers = append(more.Peers[:1], peer("192.0.2.4", "10.42.4.0/23", "10.42.5.0/24"))
	mustApply(t, more, "its set peers lacks 1 elements and has 1 too many")
	wider := wantedOne()
	wider.Peers[0] = peer("192.0.2.2", "10.42.2.0/23") // overlaps what was there
	mustApply(t, wider, "its set sources4 lacks")
	wider.Closed = nil
	mustApply(t, wider, "bridge tsnbr42 is closed and shall not be")
	mustApply(t, &Wanted{Peers: wider.Peers}, "its set tunnels lacks 0 elements and has 1 too many")
	mustApply(t, &Wanted{}, "it is not needed any more")
	if tables := tables(t); len(tables) != 0 {
		t.Errorf("left: %v", tables)
	}
}

func TestApplyRepairs(t *testing.T) {
	enterNamespace(t)
	conn, err := nftables.New()
	testlab.Must(t, err)
	foreign := conn.AddTable(&nftables.Table{Name: "theirs", Family: nftables.TableFamilyINet})
	conn.AddChain(&nftables.Chain{Name: "input", Table: foreign})
	testlab.Must(t, conn.Flush())
	mustApply(t, wantedOne(), "it is missing")
	for name, test := range map[string]struct {
		do   func()
		says string
	}{
		"all removed":       {conn.FlushRuleset, "it is missing"},
		"a table":           {func() { conn.DelTable(tableInet) }, "it is missing"},
		"the bridge's":      {func() { conn.DelTable(tableNetdev) }, "pods can reach the node by bridge tsnbr42"},
		"a chain's rules":   {func() { conn.FlushChain(&nftables.Chain{Name: chainInput, Table: tableInet}) }, "somebody changed them"},
		"the bridge's rule": {func() { conn.FlushChain(&nftables.Chain{Name: "tsnbr42", Table: tableNetdev}) }, "pods can reach the node by bridge tsnbr42"},
		"a set's elements":  {func() { conn.FlushSet(&nftables.Set{Name: setPeers, Table: tableInet}) }, "its set peers lacks 2"},
		"another chain":     {func() { conn.AddChain(&nftables.Chain{Name: "more", Table: tableInet}) }, "somebody changed them"},
		"one element more": {func() {
			testlab.Must(t, conn.SetAddElements(forms[3].set(tableInet), []nftables.SetElement{{Key: append(vniKey(42), 10, 9, 9, 9)}}))
		}, "its set peers lacks 0 elements and has 1 too many"},
	} {
		test.do()
		testlab.Must(t, conn.Flush())
		if err := Check(wantedOne()); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: CHECK says %v", name, err)
		}
		if name == "all removed" {
			conn.AddTable(foreign)
			testlab.Must(t, conn.Flush())
		}
		mustApply(t, wantedOne(), test.says)
	}
	mustApply(t, &Wanted{}, "it is not needed")
	if left := tables(t); !slices.Equal(left, []string{"theirs"}) {
		t.Errorf("left: %v", left)
	}
}

func TestExplain(t *testing.T) {
	for _, errno := range []error{unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, os.NewSyscallError("sendmsg", unix.EOPNOTSUPP)} {
		if err := explain(errno); !errors.Is(err, ErrMissing) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := explain(unix.EPERM); errors.Is(err, ErrMissing) {
		t.Errorf("another error: %v", err)
	}
}

func tables(t *testing.T) []string {
	t.Helper()
	conn, err := nftables.New()
	testlab.Must(t, err)
	listed, err := conn.ListTables()
	testlab.Must(t, err)
	var names []string
	for _, table := range listed {
		names = append(names, table.Name)
	}
	return names
}
