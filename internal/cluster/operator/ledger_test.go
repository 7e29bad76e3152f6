// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestLedgerLoad(t *testing.T) {
	network := deleted()
	wrong := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "ten"}}}}
	other := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "old", IPv4: "10.42.8.0/24"}}}}
	moved := &v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{
		{Name: "gone", IPv4: "10.43.0.0/24"}, {Name: "old", IPv4: "10.42.9.0/24", IPv6: "fd42::/64"}}}}
	r := inCluster(t, network, moved, other, wrong)
	if err := r.shared.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := given(r); got != "map[a:10.42.9.0/24 b:10.42.8.0/24]" {
		t.Errorf("the nodes have %s", got)
	}
	if has := r.shared.parts.ofNode("a"); len(has) != 1 || has["old"].ipv6.String() != "fd42::/64" {
		t.Errorf("node a has %+v, also of a network that is gone", has)
	}
	// After loading, the ledger counts and not the objects.
	r.shared.parts.set("old", map[string]part{"a": {ipv4: netip.MustParsePrefix("10.42.1.0/24")}})
	if err := r.shared.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.shared.parts.drop("none")
	if got := given(r); got != "map[a:10.42.1.0/24]" {
		t.Errorf("read again, the nodes have %s", got)
	}
}

func TestWhoHadAPartIsKnownUntilNobodyElseHasIt(t *testing.T) {
	newPart := func(ipv4, ipv6 string) part {
		createdPart, _ := parsePart(ipv4, ipv6)
		return createdPart
	}
	first, second, third := newPart("10.42.1.0/24", "fd42:0:0:1::/64"), newPart("10.42.2.0/24", "fd42:0:0:2::/64"), newPart("10.42.2.0/24", "fd42:0:0:1::/64")
	l := &ledger{parts: map[string]map[string]part{}, givers: map[string]map[string][]string{}}
	for _, step := range []struct {
		what  string
		parts map[string]part
		of    string
		want  string
	}{
		{"what is new was nobody's", map[string]part{"a": first}, "a", "[]"},
		{"what is kept is nobody else's", map[string]part{"a": first, "b": second}, "a", "[]"},
		{"one gets another's", map[string]part{"b": second, "c": first}, "c", "[a]"},
		{"it keeps it", map[string]part{"b": second, "c": first}, "c", "[a]"},
		{"a third gets it, and the first may have it still", map[string]part{"b": second, "d": first}, "d", "[c a]"},
		{"it has none any more", map[string]part{"b": second}, "d", "[]"},
		{"one gets ranges of two", map[string]part{"e": third}, "e", "[b]"},
	} {
		l.set("x", step.parts)
		if got := fmt.Sprint(l.giversOf("x", step.of)); got != step.want {
			t.Errorf("%s: node %s has that of %s, want %s", step.what, step.of, got, step.want)
		}
	}
	l.given("x", "e", second) // it had another when somebody looked
	if got := l.giversOf("x", "e"); len(got) != 1 {
		t.Errorf("it is forgotten that it may be another's: %v", got)
	}
	l.given("x", "e", third)
	if got := l.giversOf("x", "e"); len(got) != 0 {
		t.Errorf("it is still said to be of %v", got)
	}
	l.drop("x")
	if len(l.parts)+len(l.givers) > 0 {
		t.Errorf("of a network that is gone there are %v, %v", l.parts, l.givers)
	}
}
