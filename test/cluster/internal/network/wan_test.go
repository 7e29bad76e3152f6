// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

func TestSiteAddresses(t *testing.T) {
	p, err := plan.New("east", "/nowhere", 1, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[netip.Addr]bool{}
	for number := 1; number <= 254; number++ {
		site, err := NewSite(p, number)
		if err != nil {
			t.Fatal(err)
		}
		if !wanSubnet.Contains(site.Address) || seen[site.Address] {
			t.Errorf("number %d has %s", number, site.Address)
		}
		seen[site.Address] = true
	}
	for _, number := range []int{0, 255} {
		if site, err := NewSite(p, number); err == nil {
			t.Errorf("number %d has %s", number, site.Address)
		}
	}
}

func TestInterfaceNameLength(t *testing.T) {
	const most = 15
	site := Site{ID: "ffffff"}
	port, cable := DelayEnds(site)
	for _, name := range []string{port, cable, cablePort(site)} {
		if len(name) > most {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
}
