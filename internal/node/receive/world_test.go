// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	testVNI        = 42
	testTunnelPort = 4789
	testPodPort    = 7000
	uplinkName     = "uplink"
)

var (
	testNode   = netip.MustParseAddr("192.0.2.1")
	testPeer   = netip.MustParseAddr("192.0.2.2")
	testPod4   = netip.MustParseAddr("10.42.1.2")
	testPod6   = netip.MustParseAddr("fd42:1::2")
	testOther4 = netip.MustParseAddr("10.42.2.7")
	testOther6 = netip.MustParseAddr("fd42:2::7")
	testBehind = []netip.Prefix{netip.MustParsePrefix("10.42.2.0/24"), netip.MustParsePrefix("fd42:2::/64")}
)

// world is a node with the program at its uplink and one pod with receive rings.
type world struct {
	dir       string
	node, pod *topology.Namespace
	uplink    int
	uplinkMAC [6]byte
	podMAC    [6]byte
	endpoint  Endpoint
	maps      *Maps
	program   *ebpf.Program
	ring      *ebpf.Map
	control   *ebpf.Map
}

// folder returns a folder in a new BPF filesystem.
func folder(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("test", root, "bpf", 0, ""); err != nil {
		testlab.Missing(t, fmt.Sprintf("no BPF filesystem: %v", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(root, "receive")
}

func namespace(t testing.TB, name string) *topology.Namespace {
	t.Helper()
	testlab.Root(t)
	if _, err := object.Open(objectFile); err != nil {
		testlab.Missing(t, "the program is not built; run `make build`")
	}
	return topology.NewTestNamespace(t, name)
}

// ofNode returns the node's folder in dir.
func ofNode(t testing.TB, node *topology.Namespace, dir string) (nodeDir string) {
	t.Helper()
	do(t, node, func() (err error) { nodeDir, err = NodeDir(dir); return err })
	return nodeDir
}

func do(t testing.TB, where *topology.Namespace, work func() error) {
	t.Helper()
	testlab.Must(t, where.Do(work))
}

// nodeWithUplink creates a network namespace with an Ethernet interface.
func nodeWithUplink(t testing.TB) *topology.Namespace {
	t.Helper()
	node := namespace(t, "node")
	do(t, node, func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = uplinkName
		attributes.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 1, 1}
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "wire"})
	})
	return node
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: folder(t), node: nodeWithUplink(t), pod: namespace(t, "pod")}
	do(t, w.node, w.plug)
	do(t, w.pod, w.configurePod)
	do(t, w.node, w.attach)
	t.Cleanup(func() {
		w.maps.Close()
		w.program.Close()
		do(t, w.node, func() error { _, err := Detach(w.dir); return err })
	})
	return w
}

func (w *world) plug() error {
	link, err := netlink.LinkByName(uplinkName)
	if err != nil {
		return err
	}
	w.uplink = link.Attrs().Index
	copy(w.uplinkMAC[:], link.Attrs().HardwareAddr)
	pod, err := ns.GetNS(w.pod.Path())
	if err != nil {
		return err
	}
	defer pod.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "port"
	port := &netlink.Veth{LinkAttrs: attributes, PeerName: "tsn0", PeerNamespace: netlink.NsFd(int(pod.Fd())),
		PeerHardwareAddr: net.HardwareAddr{2, 0, 0, 0, 1, 2}}
	if err := netlink.LinkAdd(port); err != nil {
		return err
	}
	netns, err := NetnsOf(pod)
	if err != nil {
		return err
	}
	created, err := netlink.LinkByName("port")
	if err != nil {
		return err
	}
	w.endpoint = Endpoint{
		VNI: testVNI, Netns: netns, Port: created.Attrs().Index, Uplink: w.uplink,
		Tunnel: netip.AddrPortFrom(testNode, testTunnelPort), IPv4: testPod4, IPv6: testPod6, Rings: true,
	}
	return nil
}

func (w *world) configurePod() error {
	link, err := netlink.LinkByName("tsn0")
	if err != nil {
		return err
	}
	w.endpoint.Interface, w.endpoint.MAC = link.Attrs().Index, link.Attrs().HardwareAddr
	copy(w.podMAC[:], link.Attrs().HardwareAddr)
	for _, text := range []string{testPod4.String() + "/24", testPod6.String() + "/64"} {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, address); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

func (w *world) attach() error {
	if _, err := Attach(w.dir, uplinkName); err != nil {
		return err
	}
	var err error
	if w.maps, err = Open(w.dir); err != nil {
		return err
	}
	if w.program, err = uplinkProgram(); err != nil {
		return err
	}
	return errors.Join(w.maps.PutEndpoint(&w.endpoint), w.maps.SetPeers(testVNI, testNode, []control.Peer{{VNI: testVNI, Address: testPeer, Subnets: testBehind}}))
}

func uplinkProgram() (*ebpf.Program, error) {
	link, err := netlink.LinkByName(uplinkName)
	if err != nil {
		return nil, err
	}
	at, err := find("", link)
	switch {
	case err != nil:
		return nil, err
	case at.tcx != 0:
		return ebpf.NewProgramFromID(at.tcx)
	case at.filter != nil:
		return ebpf.NewProgramFromID(ebpf.ProgramID(at.filter.Id))
	}
	return nil, errors.New("there is no program")
}

// boundSocket listens on both families.
func boundSocket() (int, error) {
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	return socket, unix.Bind(socket, &unix.SockaddrInet6{Port: testPodPort})
}

// openRing opens a socket in the pod with a ring, as ktsnd does.
func (w *world) openRing(t testing.TB, ringBytes int) int {
	t.Helper()
	var socket int
	do(t, w.pod, func() (err error) {
		socket, err = boundSocket()
		return err
	})
	t.Cleanup(func() { unix.Close(socket) })
	w.enterRing(t, socket, ringBytes)
	return socket
}

func (w *world) enterRing(t testing.TB, socket, ringBytes int) {
	t.Helper()
	w.ring = newMap(t, &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(ringBytes)})
	w.control = newMap(t, &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 128, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	id, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_COOKIE)
	testlab.Must(t, err)
	w.put(t, ringsMap, id, uint32(w.ring.FD()))
	w.put(t, controlsMap, id, uint32(w.control.FD()))
	w.put(t, socketsMap, int32(socket), id)
	w.tellControl(t, 0, 1)
}

// tellControl writes the application's fields of the control page: the numbers of sleeping and of all readers.
func (w *world) tellControl(t testing.TB, sleeping, readers byte) {
	t.Helper()
	page := make([]byte, 128)
	page[0], page[12] = sleeping, readers
	testlab.Must(t, w.control.Put(uint32(0), page))
}

func newMap(t testing.TB, spec *ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(spec)
	testlab.Must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func (w *world) put(t testing.TB, name string, key, value any) {
	t.Helper()
	into, err := ebpf.LoadPinnedMap(filepath.Join(ofNode(t, w.node, w.dir), name), nil)
	testlab.Must(t, err)
	defer into.Close()
	if err := into.Put(key, value); err != nil {
		t.Fatalf("put into %s: %v", name, err)
	}
}

// skb is the part of struct __sk_buff that BPF_PROG_TEST_RUN takes.
type skb struct {
	Before  [10]uint32
	Ifindex uint32
	After   [37]uint32
}

// run runs the program on a frame from the uplink.
func (w *world) run(t testing.TB, frame []byte) int32 {
	t.Helper()
	var verdict uint32
	do(t, w.node, func() (err error) {
		verdict, err = w.program.Run(&ebpf.RunOptions{Data: frame, Context: skb{Ifindex: uint32(w.uplink)}})
		return err
	})
	return int32(verdict)
}

// valid returns a frame that the program takes.
func (w *world) valid() frame {
	return frame{
		uplink: w.uplinkMAC, peer: testPeer, node: testNode, port: testTunnelPort, flags: 1 << 27, vni: testVNI,
		podMAC: w.podMAC, sourceMAC: [6]byte{2, 0, 0, 0, 0, 7}, etherType: 0x0800, source: testOther4, pod: testPod4,
		sourcePort: 5000, podPort: testPodPort, protocol: 17, payload: []byte("datagram"),
	}
}

func (w *world) valid6() frame {
	datagram := w.valid()
	datagram.etherType, datagram.source, datagram.pod = 0x86dd, testOther6, testPod6
	return datagram
}

func (w *world) counts(t testing.TB) *Counts {
	t.Helper()
	counts, err := w.maps.Counts()
	testlab.Must(t, err)
	return counts
}

func entriesOf(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
