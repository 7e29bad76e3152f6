// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestSubnetLedgerLoad(t *testing.T) {
	network := deleted()
	wrong := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "ten"}}}}
	other := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.8.0/24"}}}}
	moved := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{
		{Name: "gone", IPv4: "10.43.0.0/24"}, {Name: "old", IPv4: "10.42.9.0/24", IPv6: "fd42::/64"}}}}
	r := inCluster(t, network, moved, other, wrong)
	must(t, r.shared.waitReady(t.Context()))
	if got := given(r); got != "map[a:10.42.9.0/24 b:10.42.8.0/24]" {
		t.Errorf("the nodes have %s", got)
	}
	if has := r.shared.subnets.forNode("a"); len(has) != 1 || has["old"].ipv6.String() != "fd42::/64" {
		t.Errorf("node a has %+v, also of a network that is gone", has)
	}
	// After loading, the ledger counts and not the objects.
	r.shared.subnets.set("old", map[string]subnet{"a": {ipv4: netip.MustParsePrefix("10.42.1.0/24")}})
	must(t, r.shared.waitReady(t.Context()))
	r.shared.subnets.drop("none")
	if got := given(r); got != "map[a:10.42.1.0/24]" {
		t.Errorf("read again, the nodes have %s", got)
	}
}

func TestSubnetLedgerPreviousOwners(t *testing.T) {
	newPart := func(ipv4, ipv6 string) subnet {
		createdPart, _ := parseSubnet(ipv4, ipv6)
		return createdPart
	}
	first, second, third := newPart("10.42.1.0/24", "fd42:0:0:1::/64"), newPart("10.42.2.0/24", "fd42:0:0:2::/64"), newPart("10.42.2.0/24", "fd42:0:0:1::/64")
	l := &subnetLedger{subnets: map[string]map[string]subnet{}, previousOwners: map[string]map[string][]string{}}
	for _, step := range []struct {
		what    string
		parts   map[string]subnet
		network string
		want    string
	}{
		{"what is new was nobody's", map[string]subnet{"a": first}, "a", "[]"},
		{"what is kept is nobody else's", map[string]subnet{"a": first, "b": second}, "a", "[]"},
		{"one gets another's", map[string]subnet{"b": second, "c": first}, "c", "[a]"},
		{"it keeps it", map[string]subnet{"b": second, "c": first}, "c", "[a]"},
		{"a third gets it, and the first may have it still", map[string]subnet{"b": second, "d": first}, "d", "[c a]"},
		{"it has none any more", map[string]subnet{"b": second}, "d", "[]"},
		{"one gets ranges of two", map[string]subnet{"e": third}, "e", "[b]"},
	} {
		l.set("x", step.parts)
		if got := fmt.Sprint(l.previousOwnersOf("x", step.network)); got != step.want {
			t.Errorf("%s: node %s has that of %s, want %s", step.what, step.network, got, step.want)
		}
	}
	l.clearPreviousOwners("x", "e", second) // it had another when somebody looked
	if got := l.previousOwnersOf("x", "e"); len(got) != 1 {
		t.Errorf("it is forgotten that it may be another's: %v", got)
	}
	l.clearPreviousOwners("x", "e", third)
	if got := l.previousOwnersOf("x", "e"); len(got) != 0 {
		t.Errorf("it is still said to be of %v", got)
	}
	l.drop("x")
	if len(l.subnets)+len(l.previousOwners) > 0 {
		t.Errorf("of a network that is gone there are %v, %v", l.subnets, l.previousOwners)
	}
}
