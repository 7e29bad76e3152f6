// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// linksKtsnd records requests about links, and rejects peers if refuses is set.
type linksKtsnd struct {
	atUplink
	requests []string
	refuses  error
}

func (l *linksKtsnd) Peers(context.Context) ([]control.Peer, error) { return nil, nil }

func (l *linksKtsnd) PeerAdd(context.Context, control.Peer) error {
	if l.refuses == nil {
		l.requests = append(l.requests, "peer")
	}
	return l.refuses
}

func (l *linksKtsnd) PeerDel(context.Context, uint32, netip.Addr) error {
	l.requests = append(l.requests, "no peer")
	return nil
}

func (l *linksKtsnd) Encrypt(_ context.Context, _ uint32, required bool) error {
	l.requests = append(l.requests, map[bool]string{false: "none", true: "required"}[required])
	return nil
}

// told is what it was told since it was asked last.
func (l *linksKtsnd) told() string {
	defer func() { l.requests = nil }()
	return strings.Join(l.requests, ", ")
}

// encryptedLink is an encrypted link with a peer, and a node with none of its ports.
func encryptedLink(t *testing.T) (*Node, *Network, *control.Peer) {
	t.Helper()
	enterNamespace(t)
	node := openNode(t, t.TempDir(), time.Second)
	node.protect = func(uint16) error { return nil }
	network := &Network{VNI: tuned, Bridge: BridgeName(tuned), Tunnel: TunnelName(tuned), Port: EncryptedPort, Uplink: "up0", PointToPoint: true, Encrypted: true}
	return node, network, &control.Peer{VNI: tuned, Address: netip.MustParseAddr("192.0.2.2"), Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.2.0/24")}}
}

func TestLinkEncryption(t *testing.T) {
	node, network, peer := encryptedLink(t)
	ktsnd := &linksKtsnd{}
	testlab.Must(t, node.SetLinkPeer(t.Context(), network, peer, ktsnd))
	if got := ktsnd.told(); got != "required, peer" {
		t.Errorf("with a peer ktsnd is told %q", got)
	}
	for _, want := range []string{"no peer, none", "none"} { // again after a program was killed
		testlab.Must(t, node.ForgetLink(t.Context(), network, ktsnd))
		if got := ktsnd.told(); got != want {
			t.Errorf("without ports ktsnd is told %q, not %q", got, want)
		}
	}
	ktsnd.refuses = errors.New("no")
	if err := node.SetLinkPeer(t.Context(), network, peer, ktsnd); !errors.Is(err, ktsnd.refuses) {
		t.Error(err)
	}
	if got := ktsnd.told(); got != "required, no peer, none" {
		t.Errorf("when it takes no peer ktsnd is told %q", got)
	}
	network.Encrypted, ktsnd.refuses = false, nil
	testlab.Must(t, node.SetLinkPeer(t.Context(), network, peer, ktsnd))
	testlab.Must(t, node.ForgetLink(t.Context(), network, ktsnd))
	if got := ktsnd.told(); got != "peer, no peer" {
		t.Errorf("of one in clear ktsnd is told %q", got)
	}
}

// A runtime may end a sandbox when the pod's next one has the link already.
func TestLinkEncryptionSecondPort(t *testing.T) {
	node, network, peer := encryptedLink(t)
	ktsnd := &linksKtsnd{}
	testlab.Must(t, node.SetLinkPeer(t.Context(), network, peer, ktsnd))
	_, err := node.ensure(t.Context(), network, ktsnd)
	testlab.Must(t, err)
	ktsnd.told()
	forget := func(what, want string) {
		t.Helper()
		testlab.Must(t, node.ForgetLink(t.Context(), network, ktsnd))
		if got := ktsnd.told(); got != want {
			t.Errorf("%s: ktsnd is told %q, not %q", what, got, want)
		}
	}
	forget("its tunnel is encrypted", "")
	tunnel, err := netlink.LinkByName(network.Tunnel)
	testlab.Must(t, err)
	testlab.Must(t, netlink.LinkSetAlias(tunnel, ""))
	forget("its tunnel is in clear", "none")
	testlab.Must(t, netlink.LinkSetDown(tunnel))
	forget("its tunnel is not finished", "")
	if peers, err := node.LinkPeers(); err != nil || fmt.Sprint(peers) != fmt.Sprint([]control.Peer{*peer}) {
		t.Errorf("it has the peers %v, %v", peers, err)
	}
}
