// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func words(text string) []string { return strings.Fields(text) }

func TestAllocate(t *testing.T) {
	for name, test := range map[string]struct {
		cidr           string
		bits           int32
		have           map[string]string
		exist, wanted  string
		parts, without string
	}{
		"the first ones, in the order of their names": {"10.42.0.0/16", 24, nil, "c a b", "b a",
			"map[a:10.42.0.0/24 b:10.42.1.0/24]", "[]"},
		"what they had": {"10.42.0.0/16", 24, map[string]string{"b": "10.42.0.0/24"}, "a b", "a b",
			"map[a:10.42.1.0/24 b:10.42.0.0/24]", "[]"},
		"also when they need it no longer": {"10.42.0.0/16", 24, map[string]string{"b": "10.42.0.0/24"}, "a b", "a",
			"map[a:10.42.1.0/24 b:10.42.0.0/24]", "[]"},
		"but not when they are gone": {"10.42.0.0/16", 24, map[string]string{"b": "10.42.0.0/24"}, "a", "a",
			"map[a:10.42.0.0/24]", "[]"},
		"and not when another needs the last one": {"10.42.0.0/23", 24, map[string]string{"a": "10.42.0.0/24", "b": "10.42.1.0/24"},
			"a b c", "b c", "map[b:10.42.1.0/24 c:10.42.0.0/24]", "[]"},
		"none when all are used": {"10.42.0.0/23", 24, map[string]string{"a": "10.42.0.0/24"}, "a b c d", "a b c d",
			"map[a:10.42.0.0/24 b:10.42.1.0/24]", "[c d]"},
		"more when the range has grown": {"10.42.0.0/22", 24, map[string]string{"a": "10.42.0.0/24", "b": "10.42.1.0/24"}, "a b c", "a b c",
			"map[a:10.42.0.0/24 b:10.42.1.0/24 c:10.42.2.0/24]", "[]"},
		"not one that is another's": {"10.42.0.0/16", 24, map[string]string{"a": "10.42.0.0/24", "b": "10.42.0.0/24"}, "a b", "b",
			"map[b:10.42.0.0/24]", "[]"},
		"not one of another size": {"10.42.0.0/16", 24, map[string]string{"a": "10.42.0.0/25"}, "a", "a", "map[a:10.42.0.0/24]", "[]"},
		"of a range of one part":  {"10.42.7.0/24", 24, nil, "a b", "a b", "map[a:10.42.7.0/24]", "[b]"},
		"of IPv6":                 {"fd42::/48", 64, map[string]string{"a": "fd42:0:0:1::/64"}, "a b", "a b", "map[a:fd42:0:0:1::/64 b:fd42::/64]", "[]"},
		"across a byte":           {"10.0.0.0/12", 27, map[string]string{"a": "10.0.0.0/27"}, "a b", "a b", "map[a:10.0.0.0/27 b:10.0.0.32/27]", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewRange(test.cidr, test.bits)
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]netip.Prefix{}
			for node, text := range test.have {
				have[node] = netip.MustParsePrefix(text)
			}
			parts, without := w.Allocate(have, words(test.exist), words(test.wanted))
			if got := fmt.Sprint(parts); got != test.parts {
				t.Errorf("parts %s, want %s", got, test.parts)
			}
			if got := fmt.Sprint(without); got != test.without {
				t.Errorf("without %s, want %s", got, test.without)
			}
		})
	}
}

func TestAllocateWithoutStatic(t *testing.T) {
	w, err := NewRange("10.42.0.0/22", 24)
	if err != nil {
		t.Fatal(err)
	}
	w = w.Without(netip.MustParsePrefix("10.42.0.128/25"))
	have := map[string]netip.Prefix{"idle": netip.MustParsePrefix("10.42.0.0/24")}
	if parts, without := w.Allocate(have, words("a b c d idle"), words("a b c d")); fmt.Sprint(parts, without) != "map[a:10.42.1.0/24 b:10.42.2.0/24 c:10.42.3.0/24] [d]" {
		t.Errorf("got %v, %v", parts, without)
	}
	// A node with pods keeps it, because these have its addresses.
	if parts, _ := w.Allocate(have, words("a idle"), words("a idle")); fmt.Sprint(parts) != "map[a:10.42.1.0/24 idle:10.42.0.0/24]" {
		t.Errorf("got %v", parts)
	}
}

func TestAllocateUnique(t *testing.T) {
	w, err := NewRange("10.0.0.0/12", 28)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i := range 3000 {
		nodes = append(nodes, fmt.Sprintf("node-%04d", i))
	}
	have := map[string]netip.Prefix{}
	for round := range 4 { // each time others
		parts, without := w.Allocate(have, nodes, nodes[round*500:round*500+1500])
		if len(without) > 0 {
			t.Fatalf("%d nodes got none of %d parts", len(without), w.count())
		}
		seen := map[netip.Prefix]bool{}
		for node, part := range parts {
			if seen[part] || w.number(part) < 0 || have[node].IsValid() && have[node] != part {
				t.Fatalf("round %d: node %s has %s, and before %s", round, node, part, have[node])
			}
			seen[part] = true
		}
		have = parts
	}
}

func TestNewRangeInvalid(t *testing.T) {
	for cidr, bits := range map[string]int32{"ten": 24, "10.0.0.0/24": 23, "10.0.0.0/8": 25, "10.1.0.0/24": 33} {
		if _, err := NewRange(cidr, bits); err == nil {
			t.Errorf("%s is divided into parts of /%d", cidr, bits)
		}
	}
}
