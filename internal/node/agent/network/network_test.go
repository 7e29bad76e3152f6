// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const sample = `networks:
  - {name: tsn, vni: 42, receive: {rings: Allowed}, ranges: [{cidr: 10.42.0.0/16}, {cidr: "fd42::/48"}]}
  - {name: second, vni: 43, mtu: 1400, uplink: eno2, port: 8472, capture: All, ranges: [{cidr: 10.43.0.0/20, nodePrefixLength: 28}]}
`

func TestFileIsReadEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "networks.yaml")
	testlab.Must(t, os.WriteFile(path, []byte(sample), 0o600))
	source := File{path}
	networks, err := source.Networks(context.Background())
	testlab.Must(t, err)
	want := "[{tsn 42 0  4789  false true [] [] 0 false  false [] [{10.42.0.0/16 24} {fd42::/48 64}] [] []} {second 43 1400 eno2 8472 All false false [] [] 0 false  false [] [{10.43.0.0/20 28}] [] []}]"
	if got := fmt.Sprint(networks); got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	testlab.Must(t, os.WriteFile(path, []byte("networks: []\n"), 0o600))
	if networks, err = source.Networks(context.Background()); err != nil || len(networks) != 0 {
		t.Errorf("read %v, %v after the file was emptied", networks, err)
	}
}

func TestFileErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, sentence string }{
		"an unknown field": {"networks: [{name: a, vnii: 1}]", "vnii"},
		"a name with a slash": {"networks: [{name: a/b, vni: 1, ranges: [{cidr: 10.0.0.0/16}]}]",
			`networks[0]: name "a/b": give 1 to 63 small letters`},
		"a vni of 0":       {"networks: [{name: a, ranges: [{cidr: 10.0.0.0/16}]}]", "networks[0]: vni 0: give 1 to 16777215"},
		"an mtu too small": {"networks: [{name: a, vni: 1, mtu: 100, ranges: [{cidr: 10.0.0.0/16}]}]", "mtu 100: give 1280 to 65535"},
		"a capture of nothing known": {"networks: [{name: a, vni: 1, capture: all, ranges: [{cidr: 10.0.0.0/16}]}]",
			`capture "all": give None, Timed or All`},
		"no range":       {"networks: [{name: a, vni: 1}]", "the first one must be IPv4"},
		"two of IPv4":    {"networks: [{name: a, vni: 1, ranges: [{cidr: 10.0.0.0/16}, {cidr: 10.1.0.0/16}]}]", "optionally an IPv6 range after it"},
		"no prefix":      {"networks: [{name: a, vni: 1, ranges: [{cidr: 10.0.0.0}]}]", `range "10.0.0.0" is invalid`},
		"bits behind it": {"networks: [{name: a, vni: 1, ranges: [{cidr: 10.0.1.0/16}]}]", "give 10.0.0.0/16"},
		"no room for two nodes": {"networks: [{name: a, vni: 1, ranges: [{cidr: 10.0.0.0/24}]}]",
			"invalid node prefix length /24; give 25 to 30"},
		"two of one vni": {"networks: [{name: a, vni: 1, ranges: [{cidr: 10.0.0.0/16}]}, {name: b, vni: 1, ranges: [{cidr: 10.1.0.0/16}]}]",
			"networks[1]: networks[0] has the same name or vni"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q in it", err, test.sentence)
			}
		})
	}
}

func testNetwork() *Network {
	return &Network{Name: "tsn", VNI: 42, Ranges: []Range{
		{netip.MustParsePrefix("10.42.0.0/16"), 24}, {netip.MustParsePrefix("fd42::/48"), 64},
	}}
}

func node(name string, age time.Duration, podCIDR, given string) Node {
	written := Node{Name: name, Created: time.Unix(1000000, 0).Add(-age), Assigned: map[string]string{"tsn": given}}
	if podCIDR != "" {
		written.PodCIDR = netip.MustParsePrefix(podCIDR)
	}
	return written
}

func TestAssign(t *testing.T) {
	for name, test := range map[string]struct {
		nodes    []Node
		want     map[string]string
		sentence string
	}{
		"from the pod CIDRs": {
			[]Node{node("a", 2, "10.244.0.0/24", ""), node("b", 1, "10.244.7.0/24", "")},
			map[string]string{"a": "[10.42.0.0/24 fd42::/64]", "b": "[10.42.7.0/24 fd42:0:0:7::/64]"}, "",
		},
		"from pod CIDRs of IPv6": {
			[]Node{node("a", 1, "fd00:10:244:3::/64", "")},
			map[string]string{"a": "[10.42.3.0/24 fd42:0:0:3::/64]"}, "",
		},
		"from small pod CIDRs": {
			[]Node{node("a", 1, "10.244.1.64/26", "")},
			map[string]string{"a": "[10.42.5.0/24 fd42:0:0:5::/64]"}, "",
		},
		"an annotation goes first": {
			[]Node{node("a", 1, "10.244.3.0/24", "10.42.128.0/20, fd42:0:0:ff::/64")},
			map[string]string{"a": "[10.42.128.0/20 fd42:0:0:ff::/64]"}, "",
		},
		"none without either": {
			[]Node{node("a", 1, "", "")}, map[string]string{},
			"a: it has no spec.podCIDR to derive one from; annotate it with range.kubernetsn.io/tsn",
		},
		"an annotation outside the range": {
			[]Node{node("a", 1, "10.244.3.0/24", "10.43.0.0/24,fd42::/64")}, map[string]string{}, `"10.43.0.0/24" is not a subnet of 10.42.0.0/16`,
		},
		"an annotation with too few": {
			[]Node{node("a", 1, "10.244.3.0/24", "10.42.0.0/24")}, map[string]string{}, "has 1 prefixes; give one for each of the network's 2 ranges",
		},
		"the older one keeps what two would have": {
			[]Node{node("a", 1, "10.245.3.0/24", ""), node("b", 2, "10.244.3.0/24", "")},
			map[string]string{"b": "[10.42.3.0/24 fd42:0:0:f403::/64]"}, "a: its 10.42.3.0/24 and 10.42.3.0/24 of node b overlap",
		},
		"one that overlaps many others is the one that goes, however old": {
			[]Node{node("a", 9, "", "10.42.0.0/20, fd42:0:0:ff::/64"), node("b", 2, "10.244.3.0/24", ""), node("c", 1, "10.244.4.0/24", "")},
			map[string]string{"b": "[10.42.3.0/24 fd42:0:0:3::/64]", "c": "[10.42.4.0/24 fd42:0:0:4::/64]"},
			"a: its 10.42.0.0/20 and 10.42.3.0/24 of node b overlap",
		},
		"one without does not keep the others": {
			[]Node{node("a", 1, "10.244.3.0/24", ""), node("b", 2, "", "")},
			map[string]string{"a": "[10.42.3.0/24 fd42:0:0:3::/64]"}, "b: it has no spec.podCIDR",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := testNetwork()
			if name == "the older one keeps what two would have" {
				n.Ranges = n.Ranges[:1]
				test.want = map[string]string{"b": "[10.42.3.0/24]"}
			}
			got, faults := Assign(n, test.nodes)
			var messages []string
			for name, err := range faults {
				messages = append(messages, fmt.Sprintf("%s: %v", name, err))
			}
			if test.sentence == "" && len(messages) > 0 || test.sentence != "" && (len(messages) != 1 || !strings.Contains(messages[0], test.sentence)) {
				t.Errorf("said %q, want %q", messages, test.sentence)
			}
			text := map[string]string{}
			for name, parts := range got {
				text[name] = fmt.Sprint(parts)
			}
			if fmt.Sprint(text) != fmt.Sprint(test.want) {
				t.Errorf("got %v, want %v", text, test.want)
			}
		})
	}
}
