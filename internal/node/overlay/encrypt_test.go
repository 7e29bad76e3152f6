// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const tuned = 4242

// enterNamespace has the rest of the test run in a network namespace of its own with an uplink: its thread, which ends with the test.
func enterNamespace(t *testing.T) {
	t.Helper()
	topology.EnterTestNamespace(t, "tunnel")
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = "up0", 1500
	testlab.Must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "up1"}))
	for _, name := range []string{"up0", "up1"} {
		link, err := netlink.LinkByName(name)
		testlab.Must(t, err)
		testlab.Must(t, netlink.LinkSetUp(link))
		if name == "up0" {
			address, err := netlink.ParseAddr("192.0.2.1/24")
			testlab.Must(t, err)
			testlab.Must(t, netlink.AddrAdd(link, address))
		}
	}
}

// tunnelNow says what the network's tunnel is.
func tunnelNow(t *testing.T, node *Node) string {
	t.Helper()
	network := &Network{Bridge: BridgeName(tuned), Tunnel: TunnelName(tuned)}
	have, err := node.find(network)
	testlab.Must(t, err)
	if have.tunnel == nil {
		return "none"
	}
	floods, err := node.floods(have.tunnel)
	testlab.Must(t, err)
	return fmt.Sprint(have.tunnel.Port, " ", have.tunnel.MTU, " ", encrypted(have.tunnel), " ", isUp(have.tunnel), " ", have.tunnel.MasterIndex == have.bridge.Index, " ",
		have.bridge.MTU, " ", len(floods))
}

func TestRetune(t *testing.T) {
	enterNamespace(t)
	node := openNode(t, t.TempDir(), time.Second)
	protected := 0
	node.protect = func(port uint16) error { // before there is a tunnel that could send
		if protected++; port != EncryptedPort || protected == 1 && strings.HasPrefix(tunnelNow(t, node), strconv.Itoa(EncryptedPort)) {
			t.Errorf("port %d is protected, and the tunnel is %s", port, tunnelNow(t, node))
		}
		return nil
	}
	testlab.Must(t, node.PeerAdd(t.Context(), control.Peer{VNI: tuned, Address: netip.MustParseAddr("192.0.2.2"), Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.2.0/24")}}, nil))
	plain := &Network{VNI: tuned, Bridge: BridgeName(tuned), Tunnel: TunnelName(tuned), Port: 4789, Uplink: "up0"}
	_, err := node.ensure(t.Context(), plain, nil)
	testlab.Must(t, err)
	step := func(what string, want Tuning, tunnel string, changes int) {
		t.Helper()
		want.VNI = tuned
		for _, count := range []int{changes, 0} {
			changed, err := node.Retune(t.Context(), []Tuning{want, {VNI: tuned + 1, Port: 1}}, nil)
			if err != nil || len(changed) != count {
				t.Errorf("%s: changed %v, %v", what, changed, err)
			}
		}
		if got := tunnelNow(t, node); got != tunnel {
			t.Errorf("%s: the tunnel is %s, want %s", what, got, tunnel)
		}
	}
	step("as it is", Tuning{Port: 4789}, "4789 1450 false true true 1450 1", 0)
	step("encrypted", Tuning{Port: EncryptedPort, Encrypted: true, MTU: 1413}, "4793 1413 true true true 1413 1", 1)
	if all, err := node.Egresses(); err != nil || fmt.Sprint(all) != "[{tsnvx4242 true 4242}]" || protected != 1 {
		t.Errorf("there are %v, %v; protected %d times", all, err, protected)
	}
	step("a smaller path", Tuning{Port: EncryptedPort, Encrypted: true, MTU: 1363}, "4793 1363 true true true 1363 1", 1)
	tunnel, err := netlink.LinkByName(TunnelName(tuned))
	testlab.Must(t, err)
	testlab.Must(t, netlink.LinkDel(tunnel)) // a program was killed before it made another one
	node.protect = func(uint16) error { return nil }
	_, err = node.Retune(t.Context(), []Tuning{{VNI: tuned, Port: EncryptedPort, Encrypted: true}}, atUplink{&fakeKtsnd{}})
	testlab.Must(t, err)
	if got := tunnelNow(t, node); got != "4793 1363 true true true 1363 1" {
		t.Errorf("made again, the tunnel is %s", got)
	}
	step("in clear", Tuning{Port: 4789}, "4789 1363 false true true 1363 1", 1)
	tunnel, err = netlink.LinkByName(TunnelName(tuned))
	testlab.Must(t, err)
	for up, want := range map[bool]string{false: "[]", true: "[{tsnvx4242 false 0}]"} { // a program was killed before it had marked the tunnel, or not
		testlab.Must(t, map[bool]func(netlink.Link) error{false: netlink.LinkSetDown, true: netlink.LinkSetUp}[up](tunnel))
		if all, err := node.Egresses(); err != nil || fmt.Sprint(all) != want {
			t.Errorf("there are %v, %v; want %s", all, err, want)
		}
	}
	testlab.Must(t, netlink.LinkSetUp(tunnel))
	node.protect = func(uint16) error { return xfrm.ErrUnavailable }
	if _, err := node.Retune(t.Context(), []Tuning{{VNI: tuned, Port: EncryptedPort, Encrypted: true}}, nil); !errors.Is(err, xfrm.ErrUnavailable) {
		t.Errorf("without a kernel that can: %v", err)
	}
	if got := tunnelNow(t, node); got != "4789 1363 false true true 1363 1" {
		t.Errorf("the tunnel is %s", got)
	}
}

// atUplink is a ktsnd that sends by the test's uplink.
type atUplink struct{ *fakeKtsnd }

func (atUplink) Status(context.Context) (*control.Status, error) {
	return &control.Status{Interface: "up0", LocalAddress: netip.MustParseAddr("192.0.2.1")}, nil
}

// TestRetuneDropsClear has the encrypted tunnel of a network not be made.
func TestRetuneDropsClear(t *testing.T) {
	enterNamespace(t)
	root := t.TempDir()
	if err := unix.Mount("test", root, "bpf", 0, ""); err != nil {
		testlab.Missing(t, fmt.Sprintf("no BPF filesystem: %v", err))
	}
	t.Cleanup(func() { testlab.Must(t, unix.Unmount(root, unix.MNT_DETACH)) })
	node := openNode(t, t.TempDir(), time.Second)
	node.receiveDir, node.protect = filepath.Join(root, "receive"), func(uint16) error { return nil }
	if _, err := receive.Attach(node.receiveDir, "up0"); err != nil {
		testlab.Missing(t, fmt.Sprintf("the program for receive rings cannot be attached; run `make build`: %v", err))
	}
	defer func() {
		_, err := receive.Detach(node.receiveDir)
		testlab.Must(t, err)
	}()
	nodeDir, err := receive.NodeDir(node.receiveDir)
	testlab.Must(t, err)
	peers, err := ebpf.LoadPinnedMap(filepath.Join(nodeDir, "peers"), nil)
	testlab.Must(t, err)
	defer peers.Close()
	plain := &Network{VNI: tuned, Bridge: BridgeName(tuned), Tunnel: TunnelName(tuned), Port: 4789, Uplink: "up0"}
	_, err = node.ensure(t.Context(), plain, nil)
	testlab.Must(t, err)
	peer := control.Peer{VNI: tuned, Address: netip.MustParseAddr("192.0.2.2"), Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.2.0/24")}}
	testlab.Must(t, node.PeerAdd(t.Context(), peer, nil))
	count := func(want int) {
		t.Helper()
		got, key, value, entries := 0, [36]byte{}, byte(0), peers.Iterate()
		for entries.Next(&key, &value) {
			got++
		}
		if err := entries.Err(); err != nil || got != want {
			t.Errorf("the program takes datagrams of %d sources, want %d: %v", got, want, err)
		}
	}
	count(2) // the subnet, and all of IPv6
	other := netlink.NewLinkAttrs()
	other.Name = "other"
	testlab.Must(t, netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: other, VxlanId: tuned, Port: EncryptedPort}))
	if _, err := node.Retune(t.Context(), []Tuning{{VNI: tuned, Port: EncryptedPort, Encrypted: true}}, nil); kindOf(err) != Foreign {
		t.Errorf("another device has the network's number and port: %v", err)
	}
	if got := tunnelNow(t, node); got != "none" {
		t.Errorf("the tunnel is %s", got)
	}
	count(0)
}

func TestEncryptedMTU(t *testing.T) {
	enterNamespace(t)
	node := openNode(t, t.TempDir(), time.Second)
	node.protect = func(uint16) error { return nil }
	network := &Network{VNI: tuned, Bridge: BridgeName(tuned), Tunnel: TunnelName(tuned), Port: EncryptedPort, Uplink: "up0", Overhead: xfrm.OverheadBytes, Encrypted: true}
	larger := *network
	larger.MTU = 1414
	if _, err := node.ensure(t.Context(), &larger, nil); err == nil || !strings.Contains(err.Error(), "the tunnel takes 87 of them; give at most 1413") {
		t.Error(err)
	}
	_, err := node.ensure(t.Context(), network, nil)
	testlab.Must(t, err)
	if got := tunnelNow(t, node); got != "4793 1413 true true true 1413 0" {
		t.Errorf("the tunnel is %s", got)
	}
	other := *network
	other.VNI, other.Bridge, other.Tunnel = tuned+1, BridgeName(tuned+1), TunnelName(tuned+1)
	node.protect = func(uint16) error { return xfrm.ErrUnavailable }
	if _, err := node.ensure(t.Context(), &other, nil); kindOf(err) != NoEncryption {
		t.Error(err)
	}
	if have, err := node.find(&other); err != nil || have.tunnel != nil || have.bridge != nil {
		t.Errorf("left: %v, %v", have, err)
	}
}
