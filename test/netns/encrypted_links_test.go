// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/podnetworks"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const linkMTU = 1500 - 50 - 37

// linkNode is a node of its own cluster, with ktsnd and the end of a link that requires encryption.
type linkNode struct {
	*topology.Namespace
	lab            *encryptedLinkLab
	name, cluster  string
	address, inPod netip.Addr
	pod            *topology.Namespace
	options        *attachment.LinkOptions
	client         *control.Client
	key            *clusterkey.Private
	agent          *encryption.Reconciler
	podInterface   string
	socket         string
	withheld       bool
	plugged        *attachment.Plugged
}

// encryptedLinkLab is two such nodes with a capture on the wire between them.
type encryptedLinkLab struct {
	*encryptedLab
	ends []*linkNode
}

func newEncryptedLinkLab(t *testing.T) *encryptedLinkLab {
	t.Helper()
	id, err := topology.NewID()
	must(t, err)
	l := &encryptedLinkLab{encryptedLab: &encryptedLab{t: t, now: time.Now()}}
	l.wire = l.namespace(id.String() + "-wire")
	must(t, l.wire.Do(func() error { return addBridge("wire") }))
	for i, name := range []string{"a", "b"} {
		n := &linkNode{Namespace: l.namespace(id.String() + "-" + name), lab: l, name: name, cluster: "of-" + name, pod: l.namespace(id.String() + "-pod-" + name),
			address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), inPod: netip.AddrFrom4([4]byte{10, 200, 0, byte(i)}), podInterface: "up" + name}
		must(t, l.wire.Do(func() error { return plugNode(name, n.Path()) }))
		must(t, n.Do(func() error { return errors.Join(up("lo"), giveAddress("phys0", n.address.String()+"/24", 1500)) }))
		dir := t.TempDir()
		n.options = &attachment.LinkOptions{StateDir: dir, ControlSocket: filepath.Join(dir, "control.sock"), Uplink: "phys0", Patience: patience}
		daemon := start(t, n.Namespace, "ktsnd", exec.Command(program(t, "ktsnd"), "--interface", "phys0", "--local-address", n.address.String(),
			"--control", n.options.ControlSocket))
		// An emulated CPU is slow while others are busy.
		testlab.Eventually(t, 3*time.Minute, 100*time.Millisecond, func() error {
			_, err := os.Stat(n.options.ControlSocket)
			return err
		})
		n.client = connect(t, daemon, n.options.ControlSocket)
		n.key, err = clusterkey.New()
		must(t, err)
		n.start(dir)
		n.openSocket(dir)
		l.ends = append(l.ends, n)
	}
	return l
}

// openSocket makes ktsnd's socket accessible to the pod's applications.
func (n *linkNode) openSocket(dir string) {
	n.socket = filepath.Join(dir, "app.sock")
	must(n.lab.t, n.client.SocketAdd(n.lab.t.Context(), n.identity(), n.socket))
}

func (n *linkNode) identity() string { return "uid-" + n.name }

func (n *linkNode) other() *linkNode {
	if n.lab.ends[0] == n {
		return n.lab.ends[1]
	}
	return n.lab.ends[0]
}

// start starts the agent's part for encryption.
func (n *linkNode) start(dir string) {
	witness := n.lab.t.TempDir()
	n.agent = encryption.New(encryption.Config{
		Judge: &encryption.Judge{Node: n.name}, State: n.state, Links: n.links, Now: n.lab.time, Linger: keysLinger, Settle: time.Second, Changed: func() {},
		Own: func(context.Context) (netip.Addr, error) { return n.address, nil }, Try: xfrm.Try,
		OpenKernel: func() (encryption.Kernel, error) { return xfrm.Open(overlay.EncryptedPort) },
		OpenKeys: func() (*security.Keyring, string, error) {
			return security.Open(filepath.Join(dir, "keys"), witness, security.DefaultTimes, n.lab.time)
		},
		RemoveKeys: func() error { return security.Remove(filepath.Join(dir, "keys"), witness) },
		Do: func(ctx context.Context, ask func(context.Context, encryption.Ktsnd) error) error {
			return ask(ctx, n.client)
		},
		Retune: func(context.Context, []encryption.Tunnel) error { return nil },
		MTU:    func(*network.Joined) int { return 0 }, Log: slog.New(slog.DiscardHandler),
	})
}

// state returns the operator's state for the node: the keys to trust.
func (n *linkNode) state() network.Cluster {
	other := n.other()
	return network.Cluster{Node: &v1alpha1.TSNNode{Spec: v1alpha1.TSNNodeSpec{ClusterKeys: []v1alpha1.ClusterKey{
		{PublicKey: n.key.Public().String()}, {Cluster: other.cluster, PublicKey: other.key.Public().String()},
	}}}}
}

// end returns the node's end of the link as the hub has written it.
func (n *linkNode) end() v1alpha1.LinkEnd {
	end := v1alpha1.LinkEnd{Cluster: n.cluster, Node: n.name, NodeAddress: n.address.String()}
	if announced := n.agent.Judge.Announced(); len(announced.Keys) > 0 && !n.withheld {
		end.NodeKeys = &v1alpha1.LinkNodeKeys{Keys: announced.Keys, Sender: announced.Sender}
		n.key.SignLinkNode(n.name, n.address.String(), end.NodeKeys)
	}
	return end
}

// links returns the link as the hub created it and the cluster's operator admitted it.
func (n *linkNode) links() ([]*v1alpha1.TSNLink, bool) {
	return []*v1alpha1.TSNLink{{Spec: v1alpha1.TSNLinkSpec{
		Encryption: v1alpha1.EncryptionRequired, Client: n.lab.ends[0].end(), Endpoint: n.lab.ends[1].end(),
	}, Status: v1alpha1.TSNLinkStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}}}}}, true
}

// linkState returns the encryption state of the link on the node.
func (n *linkNode) linkState() encryption.LinkState {
	here, there := n.end(), n.other().end()
	return n.agent.Judge.Link(encryption.LinkRequired, &here, &there)
}

// plug plugs the node's end like the agent.
func (n *linkNode) plug() {
	n.lab.t.Helper()
	other := n.other()
	clientMAC, endpointMAC := attachment.LinkMACs(uint32(v1alpha1.FirstLinkVNI))
	if n.lab.ends[0] != n {
		clientMAC, endpointMAC = endpointMAC, clientMAC
	}
	sandbox := attachment.Sandbox{ContainerID: n.name, Identity: n.identity(), Netns: n.pod.Path()}
	plan := &attachment.LinkPlan{Sandbox: sandbox, Interface: n.podInterface, VNI: uint32(v1alpha1.FirstLinkVNI), MTU: linkMTU, Port: overlay.EncryptedPort, Encrypted: true,
		Link: attachment.Link{Addresses: []netip.Prefix{netip.PrefixFrom(n.inPod, 31)}, MAC: clientMAC.String(),
			Peer: attachment.LinkPeer{Addresses: []netip.Addr{other.inPod}, MAC: endpointMAC.String(), Node: other.address}}}
	must(n.lab.t, n.Do(func() error { return attachment.PlugLink(n.lab.t.Context(), n.options, plan) }))
	n.plugged = &attachment.Plugged{Sandbox: sandbox, Interface: n.podInterface, VNI: plan.VNI}
}

// reconcile runs the agents once, each in its node.
func (l *encryptedLinkLab) reconcile() {
	l.t.Helper()
	l.advance(time.Second)
	for _, n := range l.ends {
		reconcileIn(l.t, n, n.agent)
	}
}

// isSending reports whether kernel and ktsnd have keys for the other node.
func (n *linkNode) isSending() bool {
	hasState := false
	must(n.lab.t, n.Do(func() error {
		kernel, err := xfrm.Open(overlay.EncryptedPort)
		if err != nil {
			return err
		}
		defer kernel.Close()
		states, err := kernel.States()
		for i := range states {
			hasState = hasState || states[i].To == n.other().address
		}
		return err
	}))
	associations, err := n.client.SecurityAssociations(n.lab.t.Context())
	must(n.lab.t, err)
	return hasState && len(associations) == 1 && associations[0].Generation > 0
}

func (n *linkNode) ping(count int) error {
	command := exec.Command("ping", "-n", "-c", strconv.Itoa(count), "-i", "0.2", "-W", "2", "-M", "do", "-s", strconv.Itoa(linkMTU-28), n.other().inPod.String())
	return n.pod.Do(func() error {
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("ping: %w: %s", err, output)
		}
		return nil
	})
}

// onWire counts ESP packets since the last call and returns all other packets.
func (p *wireEnd) onWire() (sealed int, others []string) { return p.onWireFrom(netip.Addr{}) }

// onWireFrom is onWire that counts only the ESP packets of a node, if the address is valid.
func (p *wireEnd) onWireFrom(node netip.Addr) (sealed int, others []string) {
	for _, frame := range p.frames() {
		switch {
		case isIPv4(frame, protocolESP):
			if source, _ := netip.AddrFromSlice(frame[ethernetBytes+12 : ethernetBytes+16]); !node.IsValid() || source == node {
				sealed++
			}
		case isIPv4(frame, protocolUDP) || bytes.Contains(frame, []byte("kubernetsn")):
			others = append(others, fmt.Sprintf("%x", frame[:min(len(frame), 64)]))
		}
	}
	return sealed, others
}

// TestKernelEncryptsLinks plugs a link between clusters that requires encryption like the agent: ktsnd, tunnel and keys
// together.
func TestKernelEncryptsLinks(t *testing.T) {
	l := newEncryptedLinkLab(t)
	a, b := l.ends[0], l.ends[1]
	wire := l.tap("b")
	l.reconcile()
	if state := a.linkState(); !strings.Contains(state.Silent, "node of-b/b has not announced keys yet") {
		t.Errorf("before there are keys, node a reports %+v", state)
	}
	a.plug()
	b.plug()
	if err := a.ping(1); err == nil {
		t.Error("before there are keys, the ends reach each other")
	}
	a.exchange(t, 5)
	if sealed, others := wire.onWire(); sealed != 0 || len(others) != 0 {
		t.Errorf("before there are keys, the wire carries %d packets of ESP and %q", sealed, others)
	}
	testlab.Eventually(t, 20*time.Second, 50*time.Millisecond, func() error {
		if a.isSending() && b.isSending() {
			return nil
		}
		l.reconcile()
		return fmt.Errorf("node a reports %+v, node b %+v", a.linkState(), b.linkState())
	})
	if a.linkState() != (encryption.LinkState{}) || b.linkState() != (encryption.LinkState{}) {
		t.Errorf("node a reports %+v, node b %+v", a.linkState(), b.linkState())
	}
	t.Run("pings of the link's MTU and timed messages pass, and the wire carries ESP only", func(t *testing.T) {
		const pings, messages = 5, 20
		wire.onWire()
		must(t, a.ping(pings))
		file := filepath.Join(t.TempDir(), "listener.csv")
		listener := startListener(t, b.pod, netip.AddrPortFrom(b.inPod, talkPort), messages, file)
		a.exchange(t, messages)
		must(t, finish(t, listener))
		lines, err := os.ReadFile(file)
		must(t, err)
		if got := strings.Count(string(lines), "\n") - 1; got != messages {
			t.Errorf("of %d timed messages %d arrived", messages, got)
		}
		status, err := a.client.Status(t.Context())
		must(t, err)
		if sealed, others := wire.onWire(); sealed < 2*pings+messages || len(others) != 0 || status.Counters.Sealed < messages {
			t.Errorf("the wire carries %d packets of ESP, of which ktsnd has sealed %d, and %q", sealed, status.Counters.Sealed, others)
		}
	})
	t.Run("each node receives announcements of the other", func(t *testing.T) {
		for _, n := range l.ends {
			testlab.Eventually(t, time.Minute, 100*time.Millisecond, func() error {
				peers, err := n.client.Peers(t.Context())
				must(t, err)
				if len(peers) == 1 && peers[0].Health != nil && peers[0].Health.Encrypted && peers[0].Health.TunnelAgoMs >= 0 && peers[0].Health.Announced > 0 {
					return nil
				}
				return fmt.Errorf("ktsnd of node %s has %+v", n.name, peers)
			})
		}
		if _, others := wire.onWire(); len(others) != 0 {
			t.Errorf("the wire carries %q", others)
		}
	})
	t.Run("a node without keys is rejected, and nothing leaves unencrypted", func(t *testing.T) {
		a.withheld = true
		for range int(keysLinger/time.Second) + 3 {
			l.reconcile()
		}
		if state := b.linkState(); state.Silent == "" || state.Clear != "" {
			t.Errorf("node b reports %+v", state)
		}
		wire.onWire()
		if err := b.ping(1); err == nil {
			t.Error("the ends still reach each other")
		}
		b.exchange(t, 5)
		// Node a, which still has keys of node b, may announce itself.
		if sealed, others := wire.onWireFrom(b.address); sealed != 0 || len(others) != 0 {
			t.Errorf("the wire carries %d packets of ESP from node b, and %q", sealed, others)
		}
		status, err := b.client.Status(t.Context())
		must(t, err)
		if status.Counters.DropNoAssociation == 0 {
			t.Error("ktsnd of node b has dropped nothing")
		}
	})
	t.Run("ktsnd forgets the number of an unplugged link", func(t *testing.T) {
		for _, n := range l.ends {
			must(t, n.Do(func() error {
				return errors.Join(attachment.UnplugLinks(t.Context(), n.options, []*attachment.Plugged{n.plugged})...)
			}))
			left, err := n.client.NetworkEncryptions(t.Context())
			must(t, err)
			if len(left) != 0 {
				t.Errorf("ktsnd of node %s still encrypts %v", n.name, left)
			}
		}
	})
}

// exchange sends timed messages to the other end's pod.
func (n *linkNode) exchange(t *testing.T, count int) {
	t.Helper()
	talker := exec.Command(program(t, "tsnperf"), "talker", "--quiet", "--count", strconv.Itoa(count), "--cycle", "20ms", "--lead", "10ms",
		"--to", netip.AddrPortFrom(n.other().inPod, talkPort).String())
	talker.Env = append(os.Environ(), "LD_PRELOAD="+program(t, "libktsn.so"), "KTSN_SOCKET="+n.socket)
	_ = start(t, n.pod, "talker", talker).Wait() // the receiver checks the messages
}

// TestKernelSCTPOverLinks runs an SCTP association of two pods' kernels over a link, whose receiver sees the sender's
// address.
func TestKernelSCTPOverLinks(t *testing.T) {
	if output, err := exec.Command("modprobe", "sctp").CombinedOutput(); err != nil {
		t.Fatalf("modprobe sctp: %v: %s", err, output)
	}
	n, err := podnetworks.Create(t.Context(), podnetworks.Wanted{Networks: []string{podnetworks.Link}, LinkMTU: 1500, Pods: 1,
		Programs: filepath.Dir(program(t, "ktsnd"))})
	must(t, err)
	t.Cleanup(func() {
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	near, far := n.Near(podnetworks.Link), n.Far(podnetworks.Link, 1)[0]
	listener := sctpSocket(t, far)
	must(t, unix.Listen(int(listener.Fd()), 1))
	sender := sctpSocket(t, near)
	address, err := unix.Getsockname(int(listener.Fd()))
	if err == nil {
		err = unix.Connect(int(sender.Fd()), address)
	}
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	fd, from, err := unix.Accept(int(listener.Fd()))
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	accepted := os.NewFile(uintptr(fd), "association")
	defer accepted.Close()
	if seen, ok := from.(*unix.SockaddrInet4); !ok || netip.AddrFrom4(seen.Addr) != near.Address {
		t.Errorf("the association is from %v", from)
	}
	checkAssociation(t, sender, accepted)
}

// sctpSocket returns a socket of an end, bound to its address.
func sctpSocket(t *testing.T, end *podnetworks.End) *os.File {
	t.Helper()
	var socket *os.File
	must(t, end.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
		if err != nil {
			return fmt.Errorf("make a socket of SCTP: %w", err)
		}
		socket = os.NewFile(uintptr(fd), "socket")
		timeout := unix.Timeval{Sec: 60}
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
			unix.Bind(fd, &unix.SockaddrInet4{Addr: end.Address.As4()}))
	}))
	t.Cleanup(func() { socket.Close() })
	return socket
}

// checkAssociation sends 100 messages that are larger than a packet.
func checkAssociation(t *testing.T, sender, receiver *os.File) {
	t.Helper()
	const messages, size = 100, 10_000
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := range messages {
			_, writeErr := sender.Write(bytes.Repeat([]byte{byte(i)}, size))
			err = errors.Join(err, writeErr)
		}
		sent <- err
	}()
	got := make([]byte, messages*size)
	if _, err := io.ReadFull(receiver, got); err != nil {
		t.Fatalf("receive: %v", err)
	}
	for i := range messages {
		if !bytes.Equal(got[i*size:(i+1)*size], bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("message %d arrived changed", i)
		}
	}
	if err := <-sent; err != nil {
		t.Errorf("send: %v", err)
	}
}
