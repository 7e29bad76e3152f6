// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestClustersDoNotConflict(t *testing.T) {
	names := map[string]string{}
	for _, name := range []string{"e2e", "bench", "chaos", "mine", "yours"} {
		plan, err := New(name, "/nowhere", 2, netip.Prefix{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range []string{plan.Namespace("node1"), plan.Switch(), plan.MachineLink(), plan.Cgroup(), plan.Dir} {
			if other, taken := names[object]; taken {
				t.Errorf("%s belongs to %s and %s", object, other, name)
			}
			names[object] = name
		}
	}
}

func TestTheNextSubnetIsAnother(t *testing.T) {
	plan, err := New("e2e", "/nowhere", 2, netip.MustParsePrefix("198.18.255.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	plan.NextSubnet()
	if want := "198.18.0.0/24"; plan.Subnet.String() != want {
		t.Errorf("got %s, want %s", plan.Subnet, want)
	}
	if want := "198.18.0.12"; plan.Nodes[1].Address.String() != want {
		t.Errorf("got %s, want %s", plan.Nodes[1].Address, want)
	}
}

func TestNamesFitIntoTheKernel(t *testing.T) {
	plan, err := New("a-name-of-the-longest-kind-30ch", "/nowhere", 2, netip.Prefix{})
	if err == nil {
		t.Errorf("31 characters were taken: %v", plan)
	}
	plan, err = New("a-name-of-the-longest-kind-30c", "/nowhere", MaxNodes, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.MachineLink()) > 15 {
		t.Errorf("%s is no name of an interface", plan.MachineLink())
	}
	last := plan.Nodes[MaxNodes-1].Address
	if !plan.Subnet.Contains(last) || last == plan.Machine() {
		t.Errorf("%s is not in %s", last, plan.Subnet)
	}
}

func TestWhatIsNoPlanIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		cluster string
		nodes   int
		subnet  string
		want    string
	}{
		"a name with a slash":      {"../x", 2, "", `invalid cluster name "../x"`},
		"no name":                  {"", 2, "", `invalid cluster name ""`},
		"no nodes":                 {"e2e", 0, "", "0 nodes"},
		"too many nodes":           {"e2e", 21, "", "21 nodes"},
		"a subnet too small":       {"e2e", 2, "198.18.0.0/25", "198.18.0.0/25 is no subnet"},
		"a subnet of IPv6":         {"e2e", 2, "fd00::/64", "fd00::/64 is no subnet"},
		"a subnet with a host bit": {"e2e", 2, "198.18.0.1/24", "198.18.0.1/24 is no subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			var subnet netip.Prefix
			if test.subnet != "" {
				subnet = netip.MustParsePrefix(test.subnet)
			}
			_, err := New(test.cluster, "/nowhere", test.nodes, subnet)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestPlanRoundTrip(t *testing.T) {
	root := t.TempDir()
	plan, err := New("e2e", root, 3, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open("e2e", root); !errors.Is(err, ErrNone) {
		t.Errorf("before it was saved: %v", err)
	}
	if err := os.MkdirAll(plan.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := plan.Save(); err != nil {
		t.Fatal(err)
	}
	read, err := Open("e2e", root)
	if err != nil {
		t.Fatal(err)
	}
	if read.Subnet != plan.Subnet || len(read.Nodes) != 3 || read.Nodes[2] != plan.Nodes[2] || read.ID != plan.ID {
		t.Errorf("got %+v, want %+v", read, plan)
	}
}

func TestHubPlan(t *testing.T) {
	hub, err := NewHub("fed", "/nowhere", netip.MustParsePrefix("198.18.7.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	if len(hub.Nodes) != 1 || hub.ControlPlane().Name != HubHost || !hub.Hub {
		t.Errorf("it is %+v", hub)
	}
	addresses := map[netip.Addr]bool{hub.Machine(): true, hub.RouterAddress(): true, hub.ControlPlane().Address: true}
	if len(addresses) != 3 {
		t.Errorf("machine, router and hub have %v", addresses)
	}
	if hub.Router() != RouterOf(hub.ID) {
		t.Errorf("its router is %s, and of its ID %s", hub.Router(), RouterOf(hub.ID))
	}
}
