// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// aged is a node with an InternalIP, "" for none, and an annotation, "" for none.
func aged(name string, age time.Duration, internal, given string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e6, 0).Add(-age))}}
	if internal != "" {
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "192.0.2.99"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"},
			{Type: corev1.NodeInternalIP, Address: internal},
		}
	}
	if given != "" {
		node.Annotations = map[string]string{v1alpha1.TunnelAddressAnnotation: given}
	}
	return node
}

func TestTunnelAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		nodes     []corev1.Node
		holders   string
		addresses string
		sentence  string
	}{
		"at the InternalIP":         {[]corev1.Node{aged("a", 0, "192.0.2.1", "")}, "", "map[a:192.0.2.1]", ""},
		"at that of the annotation": {[]corev1.Node{aged("a", 0, "192.0.2.1", "198.51.100.1")}, "", "map[a:198.51.100.1]", ""},
		"nowhere without either":    {[]corev1.Node{aged("a", 0, "", "")}, "", "map[]", "a: it has no IPv4 InternalIP; annotate it with kubernetsn.io/tunnel-address"},
		"nowhere by a wrong annotation, whatever the InternalIP": {[]corev1.Node{aged("a", 0, "192.0.2.1", "fd00::2")}, "", "map[]",
			`a: annotation kubernetsn.io/tunnel-address: "fd00::2" is not an IPv4 address`},
		"on the oldest of those that name one address": {[]corev1.Node{aged("a", 1, "", "192.0.2.1"), aged("b", 2, "", "192.0.2.1")}, "", "map[b:192.0.2.1]",
			"a: its tunnel address 192.0.2.1 belongs to node b"},
		"on the node of which it is the InternalIP, not on an older one that names it": {
			[]corev1.Node{aged("a", 1, "192.0.2.1", ""), aged("b", 2, "192.0.2.2", "192.0.2.1")}, "", "map[a:192.0.2.1]",
			"b: annotation kubernetsn.io/tunnel-address: 192.0.2.1 is the InternalIP of node a; give it an address of this node"},
		"nowhere for a node that names the InternalIP of one with another": {
			[]corev1.Node{aged("a", 1, "192.0.2.1", "198.51.100.1"), aged("b", 2, "192.0.2.2", "192.0.2.1")}, "", "map[a:198.51.100.1]",
			"b: annotation kubernetsn.io/tunnel-address: 192.0.2.1 is the InternalIP of node a"},
		"on its holder, not on an older node that reports it": {[]corev1.Node{aged("a", 1, "192.0.2.1", ""), aged("b", 2, "192.0.2.1", "")}, "a=192.0.2.1",
			"map[a:192.0.2.1]", "b: its tunnel address 192.0.2.1 belongs to node a"},
		"on its holder, which names what another node reports": {[]corev1.Node{aged("a", 1, "192.0.2.1", "198.51.100.1"), aged("b", 2, "198.51.100.1", "")},
			"a=198.51.100.1", "map[a:198.51.100.1]", "b: its tunnel address 198.51.100.1 belongs to node a"},
		"elsewhere once the holder gives it up": {[]corev1.Node{aged("a", 2, "192.0.2.3", ""), aged("b", 1, "192.0.2.1", "")}, "a=192.0.2.1",
			"map[a:192.0.2.3 b:192.0.2.1]", ""},
		"on the first by name of two of one age": {[]corev1.Node{aged("b", 1, "192.0.2.1", ""), aged("a", 1, "192.0.2.1", "")}, "", "map[a:192.0.2.1]",
			"b: its tunnel address 192.0.2.1 belongs to node a"},
	} {
		t.Run(name, func(t *testing.T) {
			holders := map[string]netip.Addr{}
			if name, address, ok := strings.Cut(test.holders, "="); ok {
				holders[name] = netip.MustParseAddr(address)
			}
			addresses, faults := TunnelAddresses(test.nodes, holders)
			var reported []string
			for node, err := range faults {
				reported = append(reported, fmt.Sprintf("%s: %v", node, err))
			}
			if got := fmt.Sprint(addresses); got != test.addresses || !strings.Contains(strings.Join(reported, "\n"), test.sentence) ||
				len(reported) != len(test.nodes)-len(addresses) {
				t.Errorf("got %s, %q, want %s, %q", got, reported, test.addresses, test.sentence)
			}
		})
	}
}
