// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"net/netip"
	"strings"
	"testing"
)

func TestConfigXML(t *testing.T) {
	a, b := netip.MustParseAddr("10.42.1.2"), netip.MustParseAddr("10.42.2.2")
	for name, test := range map[string]struct {
		config    Config
		has, lack []string
	}{
		"peers": {Config{Address: a, Peers: []netip.Addr{a, b}, OneSampleBytes: 64},
			[]string{`<NetworkInterface address="10.42.1.2"/>`, `<Peer address="10.42.2.2"/>`, "<AllowMulticast>false", "<MaxMessageSize>180B"},
			[]string{"<Security>"}},
		"multicast needs no peers":          {Config{Address: a, Peers: []netip.Addr{a, b}, Multicast: true}, []string{"<AllowMulticast>true"}, []string{"<Peer ", "MaxMessageSize"}},
		"not more than Cyclone DDS's limit": {Config{Address: a, OneSampleBytes: 16384}, []string{"<MaxMessageSize>14720B"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := test.config.XML()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.has {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %s in %s", want, text)
				}
			}
			for _, unwanted := range test.lack {
				if strings.Contains(string(text), unwanted) {
					t.Errorf("%s in %s", unwanted, text)
				}
			}
		})
	}
}

func TestTwoSamplesNeverFitOneMessage(t *testing.T) {
	for _, size := range []int{64, 256, 1024, 4096} {
		config := Config{OneSampleBytes: size}
		// The least that a sample takes besides itself: a header for all, and a submessage's for each.
		if limit := config.MessageBytes(); 20+2*(24+size) <= limit {
			t.Errorf("%d B: two fit into %d", size, limit)
		}
	}
}
