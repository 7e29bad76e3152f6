// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeKtsnd records peers, and rejects them if refuse is set.
type fakeKtsnd struct {
	peers  map[netip.Addr]control.Peer
	refuse error
	// only is the peer that is refused, invalid: all.
	only netip.Addr
}

func (f *fakeKtsnd) Status(context.Context) (*control.Status, error) { return &control.Status{}, nil }

func (f *fakeKtsnd) PeerAdd(_ context.Context, peer control.Peer) error {
	if f.refuse != nil && (!f.only.IsValid() || f.only == peer.Address) {
		return f.refuse
	}
	f.peers[peer.Address] = peer
	return nil
}

func (f *fakeKtsnd) PeerDel(_ context.Context, _ uint32, address netip.Addr) error {
	delete(f.peers, address)
	return nil
}

func peer(address string, subnets ...string) control.Peer {
	created := control.Peer{VNI: 16777001, Address: netip.MustParseAddr(address)} // a network that no test machine has
	for _, subnet := range subnets {
		created.Subnets = append(created.Subnets, netip.MustParsePrefix(subnet))
	}
	return created
}

func TestPeerAdd(t *testing.T) {
	dir := t.TempDir()
	node, ktsnd := openNode(t, dir, time.Second), &fakeKtsnd{peers: map[netip.Addr]control.Peer{}}
	first, second := peer("192.0.2.2", "10.42.2.0/24"), peer("192.0.2.3", "10.42.3.0/24")
	replaced := peer("192.0.2.2", "10.42.4.0/24", "fd00:42:5::/64")
	for _, step := range []struct {
		does string
		do   func() error
		want []control.Peer
	}{
		{"one is added", func() error { return node.PeerAdd(t.Context(), first, ktsnd) }, []control.Peer{first}},
		{"it is added again", func() error { return node.PeerAdd(t.Context(), first, ktsnd) }, []control.Peer{first}},
		{"another is added", func() error { return node.PeerAdd(t.Context(), second, ktsnd) }, []control.Peer{first, second}},
		{"the first gets other subnets", func() error { return node.PeerAdd(t.Context(), replaced, ktsnd) }, []control.Peer{second, replaced}},
		{"the second goes", func() error { return node.PeerDel(t.Context(), second.VNI, second.Address, ktsnd) }, []control.Peer{replaced}},
		{"one that is not there goes", func() error { return node.PeerDel(t.Context(), second.VNI, second.Address, ktsnd) }, []control.Peer{replaced}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.does, err)
		}
		// As another process reads it.
		if got, err := openNode(t, dir, time.Second).Peers(); err != nil || !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: remembered are %+v, %v", step.does, got, err)
		}
		if len(ktsnd.peers) != len(step.want) {
			t.Errorf("%s: ktsnd knows %+v", step.does, ktsnd.peers)
		}
	}
}

func TestPeerAddRefused(t *testing.T) {
	dir := t.TempDir()
	node, ktsnd := openNode(t, dir, time.Second), &fakeKtsnd{peers: map[netip.Addr]control.Peer{}}
	kept := peer("192.0.2.2", "10.42.2.0/24")
	testlab.Must(t, node.PeerAdd(t.Context(), kept, ktsnd))
	ktsnd.refuse = errors.New("no")
	if err := node.PeerAdd(t.Context(), peer("192.0.2.3", "10.42.3.0/24"), ktsnd); !errors.Is(err, ktsnd.refuse) {
		t.Errorf("got %v", err)
	}
	if err := node.PeerAdd(t.Context(), peer("192.0.2.2", "10.42.9.0/24"), ktsnd); !errors.Is(err, ktsnd.refuse) {
		t.Errorf("got %v", err)
	}
	if got, err := node.Peers(); err != nil || !reflect.DeepEqual(got, []control.Peer{kept}) {
		t.Errorf("remembered are %+v, %v", got, err)
	}
}

func TestChangePeersSomeRefused(t *testing.T) {
	first, second, third := peer("192.0.2.2", "10.42.2.0/24"), peer("192.0.2.3", "10.42.3.0/24"), peer("192.0.2.4", "10.42.4.0/24")
	moved := peer("192.0.2.3", "10.42.9.0/24")
	changes := []Change{{Peer: moved}, {Peer: third}, {Peer: control.Peer{VNI: first.VNI, Address: first.Address}, Gone: true}}
	refusal := &control.Error{Field: "subnets", Message: "no"}
	for name, test := range map[string]struct {
		changes []Change
		refuse  error
		want    []control.Peer
		message string
	}{
		"all":                        {changes, nil, []control.Peer{moved, third}, ""},
		"none":                       {nil, nil, []control.Peer{first, second}, ""},
		"all but what ktsnd refuses": {changes, refusal, []control.Peer{second, third}, "peer 192.0.2.3 of network 16777001: " + refusal.Error()},
		"all but what cannot be": {append([]Change{{Peer: peer("224.0.0.1", "10.42.5.0/24")}}, changes...), nil, []control.Peer{moved, third},
			"peer 224.0.0.1 of network 16777001: address 224.0.0.1: give the IPv4 address of the other node"},
		"no more when ktsnd has gone": {changes, errors.New("gone"), []control.Peer{first, second}, "peer 192.0.2.3 of network 16777001: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			node, ktsnd := openNode(t, t.TempDir(), time.Second), &fakeKtsnd{peers: map[netip.Addr]control.Peer{}, only: moved.Address}
			testlab.Must(t, node.ChangePeers(t.Context(), []Change{{Peer: first}, {Peer: second}}, ktsnd))
			ktsnd.refuse = test.refuse
			err := node.ChangePeers(t.Context(), test.changes, ktsnd)
			if message := fmt.Sprint(err); (err != nil || test.message != "") && !strings.HasPrefix(message, test.message) {
				t.Errorf("said %s, want %s", message, test.message)
			}
			got, err := node.Peers()
			testlab.Must(t, err)
			known := []control.Peer{}
			for _, peer := range got {
				known = append(known, ktsnd.peers[peer.Address])
			}
			if slices.SortFunc(got, byAddress); !reflect.DeepEqual(got, test.want) {
				t.Errorf("remembered are %+v, want %+v", got, test.want)
			}
			if slices.SortFunc(known, byAddress); !reflect.DeepEqual(known, test.want) || len(ktsnd.peers) != len(test.want) {
				t.Errorf("ktsnd knows %+v, want %+v", ktsnd.peers, test.want)
			}
		})
	}
}

func byAddress(a, b control.Peer) int { return a.Address.Compare(b.Address) }

func TestChangePeersErrorIsShort(t *testing.T) {
	node := openNode(t, t.TempDir(), time.Second)
	var changes []Change
	for range 10 {
		changes = append(changes, Change{Peer: peer("192.0.2.2")})
	}
	err := node.ChangePeers(t.Context(), changes, nil)
	if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) != 4 || lines[3] != "and 7 more peers" {
		t.Errorf("said %v", err)
	}
}

func TestPeerAddUndo(t *testing.T) {
	dir := t.TempDir()
	node, ktsnd := openNode(t, dir, time.Second), &fakeKtsnd{peers: map[netip.Addr]control.Peer{}}
	kept := peer("192.0.2.2", "10.42.2.0/24")
	testlab.Must(t, node.PeerAdd(t.Context(), kept, ktsnd))
	// A folder stands where the new file is to be written.
	testlab.Must(t, os.Mkdir(filepath.Join(dir, "peers.json"+Unfinished), 0o700))
	testlab.Must(t, os.WriteFile(filepath.Join(dir, "peers.json"+Unfinished, "x"), nil, 0o600))
	if err := node.PeerAdd(t.Context(), peer("192.0.2.2", "10.42.9.0/24"), ktsnd); err == nil {
		t.Fatal("it succeeded")
	}
	if got := ktsnd.peers[kept.Address]; !reflect.DeepEqual(got, kept) {
		t.Errorf("ktsnd knows %+v", got)
	}
}

func TestCheckPeer(t *testing.T) {
	node := openNode(t, t.TempDir(), time.Second)
	bad := func(change func(*control.Peer)) control.Peer {
		created := peer("192.0.2.2", "10.42.2.0/24")
		change(&created)
		return created
	}
	for name, test := range map[string]struct {
		peer control.Peer
		want string
	}{
		"network 0":               {bad(func(p *control.Peer) { p.VNI = 0 }), "vni 0: give 1 to 16777215"},
		"a network too large":     {bad(func(p *control.Peer) { p.VNI = 1 << 24 }), "vni 16777216: give 1 to 16777215"},
		"an IPv6 node":            {peer("2001:db8::2", "10.42.2.0/24"), "address 2001:db8::2: give the IPv4 address of the other node"},
		"a multicast address":     {peer("224.0.0.1", "10.42.2.0/24"), "address 224.0.0.1: give the IPv4 address of the other node"},
		"no subnet":               {peer("192.0.2.2"), "0 subnets: give 1 to 64, those of the pods on the other node"},
		"bits behind the prefix":  {peer("192.0.2.2", "10.42.2.1/24"), "subnet 10.42.2.1/24: bits are set behind the prefix; give 10.42.2.0/24"},
		"bits behind an IPv6 one": {peer("192.0.2.2", "fd00::1/64"), "subnet fd00::1/64: bits are set behind the prefix; give fd00::/64"},
		"a mapped subnet":         {peer("192.0.2.2", "::ffff:10.42.2.0/120"), "subnet ::ffff:10.42.2.0/120: give an IPv4 or IPv6 subnet such as 10.70.2.0/24 or fd42:2::/64"},
		"an address that is none": {bad(func(p *control.Peer) { p.Address = netip.Addr{} }), "address invalid IP: give the IPv4 address of the other node"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := node.PeerAdd(t.Context(), test.peer, nil); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestPeersFileDamaged(t *testing.T) {
	dir := t.TempDir()
	testlab.Must(t, os.WriteFile(filepath.Join(dir, "peers.json"), []byte("{"), 0o600))
	if _, err := openNode(t, dir, time.Second).Peers(); err == nil || !strings.Contains(err.Error(), "remove the file and add them anew") {
		t.Errorf("got %v", err)
	}
}
