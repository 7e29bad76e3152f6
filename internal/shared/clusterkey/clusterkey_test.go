// SPDX-License-Identifier: Apache-2.0

package clusterkey

import (
	"errors"
	"testing"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func node() *v1alpha1.PeerNode {
	return &v1alpha1.PeerNode{Name: "a", Address: "192.0.2.1", IPv4: "10.42.1.0/24", IPv6: "fd42:0:0:1::/64", MTU: 1413,
		Keys:   []v1alpha1.NodeKey{{ID: "one", Algorithm: v1alpha1.KeyAlgorithm, PublicKey: "AAAA"}, {ID: "two", Algorithm: v1alpha1.KeyAlgorithm, PublicKey: "BBBB"}},
		Sender: &v1alpha1.SenderGenerations{Kernel: 3, Ktsnd: 9}}
}

// TestStatementFormat is about nodes of another release, which verify what this one signs.
func TestStatementFormat(t *testing.T) {
	peer := node()
	peer.ClusterIPv4, peer.ClusterIPv6, peer.Sequence, peer.CannotEncrypt = "10.42.0.0/20", "fd42::/52", 7, true
	const want = "kubernetsn peer node v1\x00" + `{"Network":"line","Name":"a","Address":"192.0.2.1","IPv4":"10.42.1.0/24","IPv6":"fd42:0:0:1::/64",` +
		`"ClusterIPv4":"10.42.0.0/20","ClusterIPv6":"fd42::/52","Keys":[{"ID":"one","Algorithm":"` + v1alpha1.KeyAlgorithm + `","PublicKey":"AAAA"},` +
		`{"ID":"two","Algorithm":"` + v1alpha1.KeyAlgorithm + `","PublicKey":"BBBB"}],"Kernel":3,"Ktsnd":9,"Sequence":7,"CannotEncrypt":true}`
	if text := string(statement("line", peer)); text != want {
		t.Errorf("the statement is %q, want %q; nodes of the release before do not verify another: sign what they know, too", text, want)
	}
}

func TestVerifyDetectsChanges(t *testing.T) {
	key, err := New()
	if err != nil {
		t.Fatal(err)
	}
	signed := node()
	key.Sign("line", signed)
	if err := key.Public().Verify("line", signed); err != nil {
		t.Fatal(err)
	}
	signed.MTU = 1280 // what hubs lower
	if err := key.Public().Verify("line", signed); err != nil {
		t.Errorf("with another MTU: %v", err)
	}
	for what, change := range map[string]func(*v1alpha1.PeerNode){
		"name":          func(n *v1alpha1.PeerNode) { n.Name = "b" },
		"address":       func(n *v1alpha1.PeerNode) { n.Address = "192.0.2.66" },
		"range":         func(n *v1alpha1.PeerNode) { n.IPv4 = "10.42.2.0/24" },
		"second range":  func(n *v1alpha1.PeerNode) { n.IPv6 = "" },
		"key":           func(n *v1alpha1.PeerNode) { n.Keys[0].PublicKey = "CCCC" },
		"order of keys": func(n *v1alpha1.PeerNode) { n.Keys[0], n.Keys[1] = n.Keys[1], n.Keys[0] },
		"lack of keys":  func(n *v1alpha1.PeerNode) { n.Keys = nil },
		"generation":    func(n *v1alpha1.PeerNode) { n.Sender.Ktsnd-- },
		"word on it":    func(n *v1alpha1.PeerNode) { n.CannotEncrypt = true },
		"pod's address": func(n *v1alpha1.PeerNode) { n.Addresses[0].Address = "10.42.255.8" },
		"signature":     func(n *v1alpha1.PeerNode) { n.Signature = "" },
	} {
		changed := node()
		changed.Addresses = []v1alpha1.PodAddress{{Address: "10.42.255.7", Pod: "line/plc-0"}}
		key.Sign("line", changed)
		change(changed)
		if err := key.Public().Verify("line", changed); !errors.Is(err, ErrSignature) {
			t.Errorf("with another %s: %v", what, err)
		}
	}
	if err := key.Public().Verify("other", signed); !errors.Is(err, ErrSignature) {
		t.Errorf("of another network: %v", err)
	}
	other, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Public().Verify("line", signed); !errors.Is(err, ErrSignature) {
		t.Errorf("of another cluster: %v", err)
	}
}

func TestFromSeed(t *testing.T) {
	key, err := New()
	if err != nil {
		t.Fatal(err)
	}
	again, err := FromSeed(key.Seed())
	if err != nil || again.Public() != key.Public() {
		t.Fatalf("%v, %v", again, err)
	}
	read, err := Parse(key.Public().String() + "\n")
	if err != nil || read != key.Public() {
		t.Errorf("%v, %v", read, err)
	}
	for _, wrong := range []string{"", "AAAA", "no base64!"} {
		if _, err := Parse(wrong); err == nil {
			t.Errorf("%q is a key", wrong)
		}
	}
	if _, err := FromSeed([]byte("short")); err == nil {
		t.Error("five bytes are a key")
	}
}
