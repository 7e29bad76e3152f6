// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// aNetwork has ranges of both families, and uplinks for racks.
func newNetwork() *v1alpha1.TSNNetwork {
	return &v1alpha1.TSNNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: "tsn"},
		Spec: v1alpha1.TSNNetworkSpec{
			VNI: 42, MTU: 1400, Port: 8472, Capture: v1alpha1.CaptureAll, Clock: &v1alpha1.ClockRequirement{},
			Receive: &v1alpha1.Receive{Path: v1alpha1.ReceiveRedirect, Rings: v1alpha1.RingsAllowed}, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24},
			IPv6:  &v1alpha1.Range6{CIDR: "fd42::/48", NodePrefixLength: 64},
			Cards: []string{"0000:02:00.0"}, CardNamespaces: []string{"control"},
			Uplinks: []v1alpha1.Uplink{{Interface: "eno2", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}}},
		},
	}
}

func TestJoinedNetwork(t *testing.T) {
	n, err := (&Joined{Object: newNetwork()}).Network()
	if got := fmt.Sprintf("%+v", n); err != nil || got != "{Name:tsn VNI:42 MTU:1400 Uplink: Port:8472 Capture:All Redirect:true Rings:true Cards:[0000:02:00.0] CardNamespaces:[control] Overhead:0 Encrypted:false Refused: Clock:true Routes:[] Ranges:"+
		"[{Prefix:10.42.0.0/16 NodeBits:24} {Prefix:fd42::/48 NodeBits:64}] Static:[] AddressOwners:[]}" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestJoinedAddressOwners(t *testing.T) {
	object := newNetwork()
	object.Spec.IPv4.Static = "10.42.255.0/24"
	members, faults := MembersOf(&v1alpha1.TSNPeers{Spec: v1alpha1.TSNPeersSpec{Nodes: []v1alpha1.PeerNode{
		{Name: "a", Address: "192.0.2.1", IPv4: "10.42.1.0/24", Addresses: []v1alpha1.PodAddress{{Address: "10.42.255.7", Pod: "line/plc-0", UID: "first"}}},
	}}})
	if faults != nil {
		t.Fatal(faults)
	}
	for name, test := range map[string]struct {
		shards [][]Member
		want   string
	}{
		"before all nodes are known": {nil, "[]attachment.AddressOwner(nil)"},
		"of no pod":                  {[][]Member{{}}, "[]attachment.AddressOwner{}"},
		"of a pod":                   {[][]Member{members}, `Node:"a", Pod:"line/plc-0", UID:"first"}}`},
	} {
		network, err := (&Joined{Object: object, Shards: test.shards}).Network()
		if got := fmt.Sprintf("%#v", network.AddressOwners); err != nil || !strings.HasSuffix(got, test.want) || fmt.Sprint(network.Static) != "[10.42.255.0/24]" {
			t.Errorf("%s: got %s, %v, %v, want %s", name, got, network.Static, err, test.want)
		}
	}
}

// TestJoinedPort has a network that did not get the API server's default.
func TestJoinedPort(t *testing.T) {
	object := newNetwork()
	object.Spec.Port = 0
	if n, err := (&Joined{Object: object}).Network(); err != nil || n.Port != DefaultPort {
		t.Errorf("got port %d, %v", n.Port, err)
	}
}

func TestJoinedSubnets(t *testing.T) {
	for name, test := range map[string]struct {
		ipv4, ipv6, parts, sentence string
	}{
		"both":          {"10.42.5.0/24", "fd42:0:0:5::/64", "[10.42.5.0/24 fd42:0:0:5::/64]", ""},
		"one":           {"10.42.5.0/24", "", "[]", ""},
		"none":          {"", "", "[]", ""},
		"what are none": {"10.42.5.0", "fd42:0:0:5::/64", "[]", "the node's subnets of network tsn: "},
	} {
		t.Run(name, func(t *testing.T) {
			joined := &Joined{Part: v1alpha1.NodeNetwork{Name: "tsn", IPv4: test.ipv4, IPv6: test.ipv6}, Object: newNetwork()}
			parts, err := joined.Subnets()
			if got := fmt.Sprint(parts); got != test.parts || (err != nil) != (test.sentence != "") ||
				err != nil && !strings.HasPrefix(err.Error(), test.sentence) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	single := newNetwork()
	single.Spec.IPv6 = nil
	joined := &Joined{Part: v1alpha1.NodeNetwork{IPv4: "10.42.5.0/24", IPv6: "fd42:0:0:5::/64"}, Object: single}
	if parts, err := joined.Subnets(); err != nil || len(parts) != 1 {
		t.Errorf("of a network with one range it has %v, %v", parts, err)
	}
}

func TestMembersOf(t *testing.T) {
	shard := &v1alpha1.TSNPeers{ObjectMeta: metav1.ObjectMeta{Name: "tsn-0"}, Spec: v1alpha1.TSNPeersSpec{Network: "tsn", Nodes: []v1alpha1.PeerNode{
		{Name: "a", Address: "192.0.2.1", IPv4: "10.42.1.0/24", IPv6: "fd42:0:0:1::/64"},
		{Name: "wrong", Address: "192.0.2", IPv4: "10.42.3.0/24"}, {Name: "half", Address: "192.0.2.3"},
		{Name: "b", Address: "192.0.2.2", IPv4: "10.42.2.0/24", Addresses: []v1alpha1.PodAddress{{Address: "10.42.255.7"}, {Address: "fd42:0:0:ffff::7"}}},
	}}}
	for cluster, want := range map[string]string{
		"":      "[a  192.0.2.1 [10.42.1.0/24 fd42:0:0:1::/64] b  192.0.2.2 [10.42.2.0/24 10.42.255.7/32 fd42:0:0:ffff::7/128]]",
		"other": "[a other 192.0.2.1 [10.42.1.0/24 fd42:0:0:1::/64] b other 192.0.2.2 [10.42.2.0/24]]",
	} {
		shard.Spec.Cluster = cluster
		members, faults := MembersOf(shard)
		var got []string
		for _, m := range members {
			got = append(got, fmt.Sprint(m.Node, " ", m.Cluster, " ", m.Address, " ", m.Subnets))
			if peerNode := m.Statement; peerNode == nil || peerNode.Name != m.Node {
				t.Errorf("of node %s its cluster says %v", m.Node, peerNode)
			}
		}
		if got := fmt.Sprint(got); got != want || len(faults) != 2 || !strings.HasPrefix(faults[0].Error(), "TSNPeers tsn-0: node wrong: ") {
			t.Errorf("cluster %q: got %s, %v", cluster, got, faults)
		}
	}
}

func TestUplinkOf(t *testing.T) {
	wrong := newNetwork()
	wrong.Spec.Uplinks[0].NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Is"}}
	free := newNetwork()
	free.Spec.Uplinks = nil
	for name, test := range map[string]struct {
		object *v1alpha1.TSNNetwork
		rack   string
		uplink string
		fails  bool
	}{
		"in its rack":                     {newNetwork(), "1", "eno2", false},
		"none in another":                 {newNetwork(), "2", "", true},
		"any where none is asked for":     {free, "2", "", false},
		"none by a selector that is none": {wrong, "1", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			uplink, err := UplinkOf(test.object, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": test.rack}}})
			if uplink.Interface != test.uplink || (err != nil) != test.fails || test.rack == "2" && test.fails && !errors.Is(err, ErrNoUplink) {
				t.Errorf("got %+v, %v", uplink, err)
			}
		})
	}
}
