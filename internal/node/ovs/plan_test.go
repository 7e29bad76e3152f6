// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func validPlan() Plan {
	return Plan{Interface: "eno1", Address: netip.MustParsePrefix("192.0.2.1/24"), Networks: []uint32{42, 43},
		Peers: []netip.Addr{netip.MustParseAddr("192.0.2.2")}, Port: 4789, VhostSocket: DefaultVhostSocket, PMDCPUs: []int{2, 3}}
}

func TestCheckPlan(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"valid":                 {func(*Plan) {}, ""},
		"network card":          {func(p *Plan) { p.Interface, p.Device = "", "0000:01:00.0" }, ""},
		"no network card":       {func(p *Plan) { p.Interface = "" }, "--device or its --interface"},
		"both":                  {func(p *Plan) { p.Device = "0000:01:00.0" }, "--device or its --interface"},
		"no address":            {func(p *Plan) { p.Address = netip.Prefix{} }, "no --address"},
		"IPv6 address":          {func(p *Plan) { p.Address = netip.MustParsePrefix("2001:db8::1/64") }, "no --address"},
		"no network":            {func(p *Plan) { p.Networks = nil }, "no --network"},
		"network above 4094":    {func(p *Plan) { p.Networks = []uint32{4095} }, "--network 4095: Open vSwitch keeps networks apart"},
		"network twice":         {func(p *Plan) { p.Networks = []uint32{7, 7} }, "--network 7 is given twice"},
		"node itself as peer":   {func(p *Plan) { p.Peers = []netip.Addr{p.Address.Addr()} }, "--peer 192.0.2.1: give another node's"},
		"peer twice":            {func(p *Plan) { p.Peers = append(p.Peers, p.Peers[0]) }, "--peer 192.0.2.2 is given twice"},
		"relative socket":       {func(p *Plan) { p.VhostSocket = "v" }, "--vhost-socket v: give an absolute path"},
		"no port":               {func(p *Plan) { p.Port = 0 }, "--vxlan-port 0"},
		"long sleep of polling": {func(p *Plan) { p.PMDMaxSleep = time.Second }, "--pmd-max-sleep 1s: give at most 10ms"},
		"negative memory":       {func(p *Plan) { p.MemoryMB = -1 }, "--memory -1"},
		"negative processor":    {func(p *Plan) { p.PMDCPUs = []int{-1} }, "--pmd-cpus -1"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := validPlan()
			test.change(&plan)
			err := plan.Check()
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCPUMask(t *testing.T) {
	for want, cpus := range map[string][]int{"0x1": {0}, "0xc": {2, 3}, "0x11": {0, 4}, "0x10000000000000000": {64}} {
		if got := cpuMask(cpus); got != want {
			t.Errorf("%v becomes %s, want %s", cpus, got, want)
		}
	}
}

func TestMemoryMB(t *testing.T) {
	if small, large := memoryMB(1500), memoryMB(9000); small != 320 || large <= small || large%64 != 0 {
		t.Errorf("%d MB for 1500 bytes, %d for 9000", small, large)
	}
}

func TestCheckFreeHugepages(t *testing.T) {
	small := Hugepages{SizeKB: 2048, Total: 100, Free: 10}
	err := checkFree([]Hugepages{{SizeKB: 1 << 20}, small}, 256)
	if err == nil {
		t.Fatal("10 pages of 2 MB are taken for 256 MB")
	}
	for _, want := range []string{"needs 256 MB", "128 pages of 2 MB", "10 are free", "vm.nr_hugepages=218"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
	if err := checkFree([]Hugepages{{SizeKB: 1 << 20, Total: 1, Free: 1}, small}, 256); err != nil {
		t.Errorf("one page of 1 GB does not do: %v", err)
	}
}
