// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestAnInterfaceIsFoundByItsHardwareAddress(t *testing.T) {
	address := func(last byte) net.HardwareAddr { return net.HardwareAddr{0x0a, 0x58, 0x0a, 0x2a, 1, last} }
	all := func() ([]net.Interface, error) {
		return []net.Interface{{Name: "lo"}, {Name: "eth0", HardwareAddr: address(1)}, {Name: "enp2s0", HardwareAddr: address(2)},
			{Name: "br0", HardwareAddr: address(3)}, {Name: "eth1", HardwareAddr: address(3)}}, nil
	}
	for name, test := range map[string]struct {
		names, addresses, want []string
		sentence               string
	}{
		"by name":                    {[]string{"eth0"}, nil, []string{"eth0"}, ""},
		"by address":                 {nil, []string{"0A:58:0a:2a:01:02"}, []string{"enp2s0"}, ""},
		"by both":                    {[]string{"eth0"}, []string{"0a:58:0a:2a:01:02"}, []string{"eth0", "enp2s0"}, ""},
		"twice the same":             {[]string{"enp2s0"}, []string{"0a:58:0a:2a:01:02"}, nil, "twice"},
		"none":                       {nil, nil, nil, "no --interface"},
		"no address":                 {nil, []string{"enp2s0"}, nil, `"enp2s0" is no hardware address`},
		"of nobody":                  {nil, []string{"0a:58:0a:2a:01:09"}, nil, "no interface of this machine has the hardware address 0a:58:0a:2a:01:09"},
		"of a bridge and its member": {nil, []string{"0a:58:0a:2a:01:03"}, nil, `["br0" "eth1"] all have the hardware address`},
	} {
		got, err := (&interfaces{names: test.names, addresses: test.addresses, all: all}).resolve()
		if (err == nil) != (test.sentence == "") || (err != nil && !strings.Contains(err.Error(), test.sentence)) || (err == nil && !slices.Equal(got, test.want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestTheHostsClockIsChosenOrRefused(t *testing.T) {
	for sentence, options := range map[string]runOptions{
		"":                                 {interfaces: interfaces{names: []string{"eth0"}}, hostClock: clockKVM, taiOffset: 37, driftPPM: 200},
		"--host-clock \"ptp0\" is none of": {interfaces: interfaces{names: []string{"eth0"}}, hostClock: "ptp0", driftPPM: 200},
		"--tai-offset -1 is not from 0":    {interfaces: interfaces{names: []string{"eth0"}}, hostClock: clockAuto, taiOffset: -1, driftPPM: 200},
	} {
		if err := options.check(); (err == nil) != (sentence == "") || (err != nil && !strings.Contains(err.Error(), sentence)) {
			t.Errorf("%+v: %v", options, err)
		}
	}
}
