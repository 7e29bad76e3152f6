// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	ethernetBytes, ipv4Bytes = 14, 20
	protocolESP, protocolUDP = 50, 17
)

// isIPv4 reports whether a frame is a packet of a protocol.
func isIPv4(frame []byte, protocol byte) bool {
	return len(frame) > ethernetBytes+ipv4Bytes && binary.BigEndian.Uint16(frame[12:]) == 0x0800 && frame[ethernetBytes+9] == protocol
}

// quiet is the time without a packet that a machine with emulated CPUs needs as proof.
const quiet = 700 * time.Millisecond

func TestKernelEncryptsNetworks(t *testing.T) {
	l := newSecretLab(t)
	a, b := l.nodes[0], l.nodes[1]
	toB := l.tap("b")
	listener := b.listen(secretVNI)

	early := a.dial(secretVNI, b)
	_, _ = early.Write([]byte("before there are keys"))
	if got := readDatagrams(listener, quiet); len(got) != 0 {
		t.Errorf("before there are keys, the pod receives %q", got)
	}
	for _, frame := range toB.frames() {
		if isIPv4(frame, protocolUDP) {
			t.Errorf("before there are keys, the wire carries %x", frame)
		}
	}
	l.awaitCondition("encrypted", func() bool {
		return l.condition(a) == "True AsAsked " && l.condition(b) == "True AsAsked " && a.sendsTo(t, b) && b.sendsTo(t, a)
	})

	// ARP still has failed entries from the time without keys.
	l.awaitCondition("they talk", func() bool {
		_, _ = early.Write([]byte("now"))
		return len(readDatagrams(listener, quiet)) > 0
	})

	t.Run("TCP and large datagrams pass, and the wire carries ESP only", func(t *testing.T) { carriesESP(t, l, toB, listener) })
	t.Run("strangers are rejected", func(t *testing.T) { checkStrangers(t, l, toB, listener) })
	t.Run("keys roll without loss", func(t *testing.T) { checkKeyRollover(t, l, toB, listener) })
	t.Run("a revoked node is rejected", func(t *testing.T) { checkRevocation(t, l, toB, listener) })
	t.Run("removal leaves nothing", func(t *testing.T) { checkRemoval(t, l) })
}

// sendsTo reports whether the kernel has a key for a node.
func (n *encryptedNode) sendsTo(t *testing.T, to *encryptedNode) bool {
	t.Helper()
	for _, state := range n.states(t) {
		if state.To == to.address {
			return true
		}
	}
	return false
}

func (n *encryptedNode) states(t *testing.T) (all []xfrm.Found) {
	t.Helper()
	must(t, n.Do(func() error {
		kernel, err := xfrm.Open(overlay.EncryptedPort)
		if err != nil {
			return err
		}
		defer kernel.Close()
		all, err = kernel.States()
		return err
	}))
	return all
}

func carriesESP(t *testing.T, l *encryptedLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	toB.frames()
	talker := a.dial(secretVNI, b)
	largest := bytes.Repeat([]byte("x"), 1413-28)
	if _, err := talker.Write(largest); err != nil {
		t.Fatal(err)
	}
	if got := readDatagrams(listener, quiet); len(got) != 1 || got[0] != string(largest) {
		t.Fatalf("of one large datagram the pod receives %d", len(got))
	}
	server := within(t, b.pods[secretVNI], func() (net.Listener, error) {
		return net.Listen("tcp4", netip.AddrPortFrom(b.pod(secretVNI), talkPort).String())
	})
	defer server.Close()
	go func() {
		if conn, err := server.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	client := within(t, a.pods[secretVNI], func() (net.Conn, error) { return net.DialTimeout("tcp4", server.Addr().String(), 10*time.Second) })
	defer client.Close()
	sent := bytes.Repeat([]byte("kubernetsn"), 30_000)
	go func() { _, _ = client.Write(sent) }()
	received := make([]byte, len(sent))
	_ = client.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(client, received); err != nil || !bytes.Equal(received, sent) {
		t.Fatalf("TCP: %v", err)
	}
	count, most := 0, 0
	for _, frame := range toB.frames() {
		switch {
		case isIPv4(frame, protocolESP):
			count, most = count+1, max(most, len(frame)-ethernetBytes)
			if bytes.Contains(frame, []byte("kubernetsn")) || bytes.Contains(frame, largest[:64]) {
				t.Error("what pods say is on the wire")
			}
		case binary.BigEndian.Uint16(frame[12:]) == 0x0800:
			t.Errorf("the wire carries protocol %d", frame[ethernetBytes+9])
		}
	}
	// The largest fills the pods' MTU.
	if count < 10 || most > 1500 || most < 1500-3 {
		t.Errorf("%d packets of ESP, the largest with %d bytes", count, most)
	}
}

// forgedFrame returns an unencrypted VXLAN frame from a pod of node a to one of node b.
func forgedFrame(t *testing.T, l *encryptedLab, vni uint32, port uint16, text string) []byte {
	t.Helper()
	a, b := l.nodes[0], l.nodes[1]
	inner := udp(a.pod(vni), b.pod(vni), 6000, talkPort, []byte(text))
	inner = append(ethernet(overlay.HardwareAddress(b.pod(vni)), overlay.HardwareAddress(a.pod(vni))), inner...)
	vxlan := make([]byte, 8)
	vxlan[0] = 8
	binary.BigEndian.PutUint32(vxlan[4:], vni<<8)
	return append(ethernet(interfaceMACOf(t, b.Namespace, "phys0"), interfaceMACOf(t, a.Namespace, "phys0")), udp(a.address, b.address, 50000, port, append(vxlan, inner...))...)
}

func ethernet(to, from net.HardwareAddr) []byte {
	return append(append(append([]byte{}, to...), from...), 0x08, 0x00)
}

// udp returns a UDP packet without a checksum.
func udp(from, to netip.Addr, fromPort, toPort uint16, payload []byte) []byte {
	packet := make([]byte, ipv4Bytes+8, ipv4Bytes+8+len(payload))
	packet[0], packet[8], packet[9] = 0x45, 64, protocolUDP
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)+len(payload)))
	copy(packet[12:], from.AsSlice())
	copy(packet[16:], to.AsSlice())
	var sum uint32
	for i := 0; i < ipv4Bytes; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum+sum>>16))
	for at, value := range map[int]uint16{20: fromPort, 22: toPort, 24: uint16(8 + len(payload))} {
		binary.BigEndian.PutUint16(packet[at:], value)
	}
	return append(packet, payload...)
}

func checkStrangers(t *testing.T, l *encryptedLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	// The unencrypted network shows that such a frame is valid.
	clear := b.listen(clearVNI)
	toB.send(t, forgedFrame(t, l, clearVNI, 4789, "forged"))
	if got := readDatagrams(clear, quiet); fmt.Sprint(got) != "[forged]" {
		t.Fatalf("the network that is not encrypted receives %q", got)
	}
	for _, port := range []uint16{overlay.EncryptedPort, 4789} {
		toB.send(t, forgedFrame(t, l, secretVNI, port, "forged"))
		if got := readDatagrams(listener, quiet); len(got) != 0 {
			t.Errorf("in clear to port %d: the pod receives %q", port, got)
		}
	}
	toB.frames()
	talker := a.dial(secretVNI, b)
	_, err := talker.Write([]byte("once"))
	must(t, err)
	if got := readDatagrams(listener, quiet); fmt.Sprint(got) != "[once]" {
		t.Fatalf("the pod receives %q", got)
	}
	var recorded []byte
	for _, frame := range toB.frames() {
		if isIPv4(frame, protocolESP) {
			recorded = frame
		}
	}
	if recorded == nil {
		t.Fatal("the wire has carried no ESP")
	}
	changed := bytes.Clone(recorded)
	changed[len(changed)-20] ^= 1
	binary.BigEndian.PutUint32(changed[ethernetBytes+ipv4Bytes+4:], binary.BigEndian.Uint32(changed[ethernetBytes+ipv4Bytes+4:])+1)
	elsewhere := bytes.Clone(recorded)
	binary.BigEndian.PutUint32(elsewhere[ethernetBytes+ipv4Bytes:], 0x12345678)
	for what, frame := range map[string][]byte{"once more": recorded, "changed": changed, "by another SPI": elsewhere} {
		toB.send(t, frame)
		if got := readDatagrams(listener, quiet); len(got) != 0 {
			t.Errorf("%s: the pod receives %q", what, got)
		}
	}
}

func checkKeyRollover(t *testing.T, l *encryptedLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	toB.frames()
	talker := a.dial(secretVNI, b)
	end, stopped := make(chan struct{}), make(chan int)
	go func() {
		sent := 0
		for tick := time.Tick(5 * time.Millisecond); ; {
			select {
			case <-end:
				stopped <- sent
				return
			case <-tick:
				if _, err := fmt.Fprint(talker, sent); err == nil {
					sent++
				}
			}
		}
	}()
	received := make(chan int)
	go func() { received <- len(readDatagrams(listener, 3*time.Second)) }()
	spis, keys := map[uint32]int{}, map[string]bool{}
	note := func() {
		for _, frame := range toB.frames() {
			if isIPv4(frame, protocolESP) {
				spis[binary.BigEndian.Uint32(frame[ethernetBytes+ipv4Bytes:])]++
			}
		}
		keys[a.agent.Judge.Announced().Keys[0].ID] = true
	}
	const hours, step = 3, 2 * time.Minute
	for range hours * time.Hour / step {
		l.reconcileAfter(step)
		note()
		time.Sleep(20 * time.Millisecond)
	}
	close(end)
	sent, got := <-stopped, <-received
	note()
	t.Logf("%d datagrams, %d keys of node a in use, %d SPIs", sent, len(keys), len(spis))
	if got != sent || sent < 100 || len(keys) < hours || len(spis) < hours {
		t.Errorf("%d of %d datagrams arrived, by %d keys of node a and %d SPIs", got, sent, len(keys), len(spis))
	}
	var sums []string
	for spi, count := range spis {
		sums = append(sums, fmt.Sprintf("%#x: %d", spi, count))
	}
	t.Log(strings.Join(sums, ", "))
}

func checkRevocation(t *testing.T, l *encryptedLab, toB *wireEnd, listener *net.UDPConn) {
	a, b := l.nodes[0], l.nodes[1]
	talker := a.dial(secretVNI, b)
	l.awaitCondition("they talk", func() bool {
		_, _ = talker.Write([]byte("before"))
		return len(readDatagrams(listener, 100*time.Millisecond)) > 0
	})
	l.mu.Lock()
	l.announced["a"] = false
	l.mu.Unlock()
	reconcileIn(t, b, b.agent)
	l.advance(keysLinger)
	reconcileIn(t, b, b.agent)
	toB.frames()
	_, _ = talker.Write([]byte("after"))
	if got := readDatagrams(listener, quiet); len(got) != 0 {
		t.Errorf("the pod receives %q", got)
	}
	sent := 0
	for _, frame := range toB.frames() {
		if isIPv4(frame, protocolESP) {
			sent++
		}
	}
	if sent == 0 {
		t.Error("node a has sent nothing, so that nothing was dropped")
	}
	for _, state := range b.states(t) {
		t.Errorf("node b still has the key %v", state.Name)
	}
}

// checkRemoval removes encryption from both nodes.
func checkRemoval(t *testing.T, l *encryptedLab) {
	for _, n := range l.nodes {
		must(t, n.Do(func() error {
			kernel, err := xfrm.Open(overlay.EncryptedPort)
			if err != nil {
				return err
			}
			defer kernel.Close()
			if err := kernel.Clear(); err != nil {
				return err
			}
			policies, err := netlink.XfrmPolicyList(netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			for _, policy := range policies {
				if policy.Dir <= netlink.XFRM_DIR_FWD {
					t.Errorf("node %s still has the policy %v", n.name, policy)
				}
			}
			return nil
		}))
		if left := n.states(t); len(left) > 0 {
			t.Errorf("node %s still has %v", n.name, left)
		}
	}
}

// reconcileIn runs the agent's part for encryption once in its node.
func reconcileIn(t *testing.T, node testlab.Namespace, agent *encryption.Reconciler) {
	t.Helper()
	must(t, node.Do(func() error {
		_, err := agent.Reconcile(t.Context(), reconcile.Request{})
		return err
	}))
}

const (
	secretVNI, clearVNI = 42, 43
	keysLinger          = 10 * time.Second
)

// encryptedLab is two nodes with a capture on the wire between them. Each has a pod on an encrypted network and one on
// another network.
type encryptedLab struct {
	t     *testing.T
	wire  *topology.Namespace
	nodes []*encryptedNode
	key   *clusterkey.Private
	mu    sync.Mutex
	// now is the agents' time, which advances by hours.
	now time.Time
	// announced are the nodes that the operator announces.
	announced map[string]bool
}

// encryptedNode is a node with the part of its agent under test.
type encryptedNode struct {
	*topology.Namespace
	lab     *encryptedLab
	name    string
	address netip.Addr
	part    netip.Prefix
	// pods are the pods by VNI.
	pods map[uint32]*topology.Namespace
	// dir is the state directory of tsn-cni.
	dir   string
	agent *encryption.Reconciler
}

func newSecretLab(t *testing.T) *encryptedLab {
	t.Helper()
	id, err := topology.NewID()
	must(t, err)
	key, err := clusterkey.New()
	must(t, err)
	l := &encryptedLab{t: t, key: key, announced: map[string]bool{"a": true, "b": true}, now: time.Now()}
	l.wire = l.namespace(id.String() + "-wire")
	must(t, l.wire.Do(func() error { return addBridge("wire") }))
	for i, name := range []string{"a", "b"} {
		n := &encryptedNode{Namespace: l.namespace(id.String() + "-" + name), lab: l, name: name, address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}),
			part: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 42, byte(i + 1), 0}), 24), pods: map[uint32]*topology.Namespace{}, dir: t.TempDir()}
		must(t, l.wire.Do(func() error { return plugNode(name, n.Path()) }))
		must(t, n.Do(func() error { return giveAddress("phys0", n.address.String()+"/24", 1500) }))
		for _, vni := range []uint32{secretVNI, clearVNI} {
			n.pods[vni] = l.namespace(fmt.Sprint(id, "-", name, vni))
		}
		l.nodes = append(l.nodes, n)
	}
	for _, n := range l.nodes {
		n.start()
		for vni := range n.pods {
			n.plug(vni)
		}
	}
	return l
}

func (l *encryptedLab) namespace(name string) *topology.Namespace {
	l.t.Helper()
	namespace := newNamespace(l.t, name)
	must(l.t, namespace.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}))
	return namespace
}

func addBridge(name string) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return err
	}
	return up(name)
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// plugNode gives a node its interface to the wire.
func plugNode(name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: "phys0", PeerNamespace: netlink.NsFd(int(file.Fd()))}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	wire, err := netlink.LinkByName("wire")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMaster(pair, wire), up(name))
}

func giveAddress(name, address string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetMTU(link, mtu), netlink.LinkSetUp(link), netlink.AddrAdd(link, parsed))
}

// pod returns the address of the node's pod.
func (n *encryptedNode) pod(vni uint32) netip.Addr {
	raw := n.part.Addr().As4()
	raw[1], raw[3] = byte(vni), 2
	return netip.AddrFrom4(raw)
}

// plug attaches the pod like tsn-cni.
func (n *encryptedNode) plug(vni uint32) {
	n.lab.t.Helper()
	file, err := os.Open(n.pods[vni].Path())
	must(n.lab.t, err)
	defer file.Close()
	joined := &overlay.Network{VNI: vni, Bridge: overlay.BridgeName(vni), Tunnel: overlay.TunnelName(vni), Port: network.DefaultPort, Uplink: "phys0", LocalAddress: n.address}
	if vni == secretVNI {
		joined.Port, joined.Encrypted, joined.Overhead = overlay.EncryptedPort, true, xfrm.OverheadBytes
	}
	port := &overlay.Port{Attachment: overlay.Attachment{Network: fmt.Sprint("n", vni), ContainerID: n.name, Interface: "tsn0", Identity: fmt.Sprint(vni)},
		HardwareAddress: overlay.HardwareAddress(n.pod(vni)), Netns: int(file.Fd())}
	must(n.lab.t, n.Do(func() error {
		node, err := overlay.Open(n.dir, time.Second)
		if err != nil {
			return err
		}
		defer node.Close()
		for _, other := range n.lab.nodes {
			raw := other.part.Addr().As4()
			raw[1] = byte(vni)
			peer := control.Peer{VNI: vni, Address: other.address, Subnets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(raw), 24)}}
			if other != n {
				err = errors.Join(err, node.PeerAdd(n.lab.t.Context(), peer, nil))
			}
		}
		_, errPlug := node.Plug(n.lab.t.Context(), joined, port, nil)
		return errors.Join(err, errPlug)
	}))
	must(n.lab.t, n.pods[vni].Do(func() error {
		link, err := netlink.LinkByName("tsn0")
		if err != nil {
			return err
		}
		return errors.Join(up("lo"), giveAddress("tsn0", n.pod(vni).String()+"/16", link.Attrs().MTU))
	}))
}

// start starts the agent's part.
func (n *encryptedNode) start() {
	dir, witness := n.lab.t.TempDir(), n.lab.t.TempDir()
	n.agent = encryption.New(encryption.Config{
		Judge: &encryption.Judge{Node: n.name}, State: n.state, Now: n.lab.time, Linger: keysLinger, Settle: time.Second, Changed: func() {},
		Own: func(context.Context) (netip.Addr, error) { return n.address, nil }, Try: xfrm.Try,
		OpenKernel: func() (encryption.Kernel, error) { return xfrm.Open(overlay.EncryptedPort) },
		OpenKeys: func() (*security.Keyring, string, error) {
			return security.Open(dir, witness, security.DefaultTimes, n.lab.time)
		},
		RemoveKeys: func() error { return security.Remove(dir, witness) },
		Do: func(ctx context.Context, ask func(context.Context, encryption.Ktsnd) error) error {
			return ask(ctx, withoutKtsnd{})
		},
		Retune: func(context.Context, []encryption.Tunnel) error { return nil },
		MTU:    func(*network.Joined) int { return 1413 }, Log: slog.New(slog.DiscardHandler),
	})
}

// state returns the state from operator and API server for the node.
func (n *encryptedNode) state() network.Cluster {
	n.lab.mu.Lock()
	defer n.lab.mu.Unlock()
	public := n.lab.key.Public().String()
	object := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Spec: v1alpha1.TSNNetworkSpec{
		VNI: secretVNI, Encryption: v1alpha1.EncryptionRequired, IPv4: v1alpha1.Range4{CIDR: "10.42.0.0/16", NodePrefixLength: 24},
	}, Status: v1alpha1.TSNNetworkStatus{ClusterKeys: []v1alpha1.ClusterKey{{PublicKey: public}}}}
	peers := &v1alpha1.TSNPeers{Spec: v1alpha1.TSNPeersSpec{Network: "secret", ClusterKey: public}}
	for _, other := range n.lab.nodes {
		announced := other.agent.Judge.Announced()
		if !n.lab.announced[other.name] {
			continue
		}
		entry := v1alpha1.PeerNode{Name: other.name, Address: other.address.String(), IPv4: other.part.String(), Keys: announced.Keys, Sender: announced.Sender}
		n.lab.key.Sign("secret", &entry)
		peers.Spec.Nodes = append(peers.Spec.Nodes, entry)
	}
	members, _ := network.MembersOf(peers)
	return network.Cluster{Node: &v1alpha1.TSNNode{}, Networks: []network.Joined{{
		Part: v1alpha1.NodeNetwork{Name: "secret"}, Object: object, Shards: [][]network.Member{members},
	}}}
}

// time returns the agents' time.
func (l *encryptedLab) time() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// advance advances the agents' time.
func (l *encryptedLab) advance(time time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(time)
}

// reconcileAfter advances the time and runs the agents, each in its node.
func (l *encryptedLab) reconcileAfter(after time.Duration) {
	l.t.Helper()
	l.advance(after)
	for _, n := range l.nodes {
		reconcileIn(l.t, n, n.agent)
	}
}

func (l *encryptedLab) condition(n *encryptedNode) string {
	state := n.state()
	condition, _ := n.agent.Judge.Condition(&state.Networks[0])
	return fmt.Sprint(condition.Status, " ", condition.Reason, " ", condition.Message)
}

// awaitCondition runs the agents until a condition holds.
func (l *encryptedLab) awaitCondition(what string, holds func() bool) {
	l.t.Helper()
	testlab.Eventually(l.t, 20*time.Second, 50*time.Millisecond, func() error {
		if holds() {
			return nil
		}
		l.reconcileAfter(time.Second)
		return fmt.Errorf("%s: node a reports %s, node b %s", what, l.condition(l.nodes[0]), l.condition(l.nodes[1]))
	})
}

// listen receives datagrams in a pod.
func (n *encryptedNode) listen(vni uint32) *net.UDPConn {
	n.lab.t.Helper()
	conn := within(n.lab.t, n.pods[vni], func() (*net.UDPConn, error) {
		return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.pod(vni), talkPort)))
	})
	n.lab.t.Cleanup(func() { conn.Close() })
	return conn
}

const talkPort = 7000

// dial opens a socket from a pod to the pod of another node.
func (n *encryptedNode) dial(vni uint32, to *encryptedNode) *net.UDPConn {
	n.lab.t.Helper()
	conn := within(n.lab.t, n.pods[vni], func() (*net.UDPConn, error) {
		return net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.pod(vni), talkPort)))
	})
	n.lab.t.Cleanup(func() { conn.Close() })
	return conn
}

// readDatagrams reads datagrams until none has arrived for a while.
func readDatagrams(conn *net.UDPConn, patience time.Duration) (all []string) {
	buffer := make([]byte, 65536)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		count, err := conn.Read(buffer)
		if err != nil {
			return all
		}
		all = append(all, string(buffer[:count]))
	}
}

// wireEnd is a packet socket at the wire's end of a node's interface.
type wireEnd struct {
	socket int
	index  int
}

func (l *encryptedLab) tap(name string) *wireEnd {
	l.t.Helper()
	end := &wireEnd{}
	must(l.t, l.wire.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		end.index = link.Attrs().Index
		protocol := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
		if end.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(protocol)); err != nil {
			return err
		}
		return unix.Bind(end.socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: end.index})
	}))
	l.t.Cleanup(func() { unix.Close(end.socket) })
	return end
}

// frames returns the frames since the last call.
func (p *wireEnd) frames() (all [][]byte) {
	for {
		buffer := make([]byte, 65536)
		count, _, err := unix.Recvfrom(p.socket, buffer, 0)
		if err != nil {
			return all
		}
		all = append(all, buffer[:count])
	}
}

// send sends a frame over the wire to the node.
func (p *wireEnd) send(t *testing.T, frame []byte) {
	t.Helper()
	must(t, unix.Sendto(p.socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: p.index}))
}
