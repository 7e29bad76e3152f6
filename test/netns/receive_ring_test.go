// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// atPodA is where pod a listens.
var atPodA = netip.AddrPortFrom(topology.PodAddressA, listenPort)

// receivingSide is a node whose pod receives, and its peer.
type receivingSide struct {
	node, pod             *topology.Namespace
	tunnel, address, peer netip.Addr
	behind                netip.Prefix // the peer's pods
}

// sideA returns pod a on node a.
func (l *lab) sideA() *receivingSide {
	return &receivingSide{l.NodeA, l.PodA, topology.NodeAddressA, topology.PodAddressA, topology.NodeAddressB, topology.PodSubnetB}
}

// attach is join for the first receiving node of this machine.
func (s *receivingSide) attach(t *testing.T, pod rings.Endpoint) {
	t.Helper()
	if _, err := os.Stat(rings.DefaultDir); err == nil {
		t.Fatalf("another test left %s", rings.DefaultDir)
	}
	s.join(t, pod)
}

// join attaches the program to the node's uplink and adds the other node and the pod, with Rings and Redirect of the
// caller.
func (s *receivingSide) join(t *testing.T, pod rings.Endpoint) {
	t.Helper()
	t.Cleanup(func() {
		err := s.node.Do(func() error {
			_, err := rings.Detach(rings.DefaultDir)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	must(t, s.node.Do(func() error {
		_, err := rings.Attach(rings.DefaultDir, topology.PhysicalInterface)
		return err
	}))
	s.tell(t, pod)
}

// tell changes the pod's entry in the program.
func (s *receivingSide) tell(t *testing.T, pod rings.Endpoint) {
	t.Helper()
	err := s.pod.Do(func() error {
		link, err := netlink.LinkByName(topology.PodInterface)
		if err == nil {
			pod.MAC, pod.Interface, pod.Port = link.Attrs().HardwareAddr, link.Attrs().Index, link.Attrs().ParentIndex
		}
		return err
	})
	if err == nil {
		err = s.node.Do(func() error { return s.put(&pod) })
	}
	must(t, err)
}

func (s *receivingSide) put(pod *rings.Endpoint) error {
	maps, err := rings.Open(rings.DefaultDir)
	if err != nil {
		return err
	}
	defer maps.Close()
	netns, err := ns.GetNS(s.pod.Path())
	if err != nil {
		return err
	}
	defer netns.Close()
	if pod.Netns, err = rings.NetnsOf(netns); err != nil {
		return err
	}
	uplink, err := net.InterfaceByName(topology.PhysicalInterface)
	if err != nil {
		return err
	}
	pod.VNI, pod.Uplink, pod.IPv4 = topology.VNI, uplink.Index, s.address
	pod.Tunnel = netip.AddrPortFrom(s.tunnel, topology.VXLANPort)
	if err := maps.PutEndpoint(pod); err != nil {
		return err
	}
	return maps.SetPeers(topology.VNI, s.tunnel, []control.Peer{{VNI: topology.VNI, Address: s.peer, Subnets: []netip.Prefix{s.behind}}})
}

// receiving enables receive rings for pod a's sockets in ktsnd.
func (l *lab) receiving(t *testing.T, client *control.Client) {
	t.Helper()
	endpoint := l.endpoint()
	endpoint.Receive = true
	must(t, client.EndpointAdd(t.Context(), endpoint))
}

// startRingListener starts a listener in pod a that reads from a ring.
func (l *lab) startRingListener(t *testing.T, file string) *process.Process {
	t.Helper()
	return startListenerIn(t, l.PodA, atPodA, unlimited, file, append(l.preloaded(t), "KTSN_RECEIVE=ring"))
}

// startKernelTalker sends messages from pod b through the kernel, one a millisecond.
func (l *lab) startKernelTalker(t *testing.T, file string, count int) *process.Process {
	t.Helper()
	return start(t, l.PodB, "talker", exec.Command(program(t, "tsnperf"), "talker", "--no-txtime", "--quiet", "--csv", file,
		"--to", atPodA.String(), "--count", strconv.Itoa(count)))
}

// receivedOf returns ktsnd's receive status of its only pod.
func receivedOf(t *testing.T, client *control.Client) control.PodReceive {
	t.Helper()
	pods, err := client.Pods(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods: %v", len(pods), err)
	}
	return pods[0].Receive
}

// counts returns the counters of the program at the uplink.
func (s *receivingSide) counts(t *testing.T) *rings.Counts {
	t.Helper()
	return within(t, s.node, func() (*rings.Counts, error) {
		maps, err := rings.Open(rings.DefaultDir)
		if err != nil {
			return nil, err
		}
		defer maps.Close()
		return maps.Counts()
	})
}

func TestReceiveRingSurvivesKtsnd(t *testing.T) {
	timing(t)
	for name, change := range map[string]func(*testing.T, *lab, *process.Process, *control.Client) *control.Client{
		"nothing": func(_ *testing.T, _ *lab, _ *process.Process, client *control.Client) *control.Client { return client },
		"replaced in place": func(t *testing.T, l *lab, daemon *process.Process, _ *control.Client) *control.Client {
			_, client := l.takeOver(t, daemon)
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.sideA().attach(t, rings.Endpoint{Rings: true})
			daemon, client := lab.startDaemon(t)
			lab.receiving(t, client)
			sent, came := filepath.Join(t.TempDir(), "talker.csv"), filepath.Join(t.TempDir(), "listener.csv")
			listener := lab.startRingListener(t, came)
			talker := lab.startKernelTalker(t, sent, unlimited)
			time.Sleep(time.Second)
			client = change(t, lab, daemon, client)
			time.Sleep(time.Second)
			interrupt(t, talker)
			got := receivedOf(t, client)
			drain(t, listener)
			count := onlyOnce(t, sent, came)
			if got.Sockets != 1 || got.Dropped != 0 || got.Received == 0 || lab.sideA().counts(t).Received < uint64(count)*9/10 {
				t.Errorf("ktsnd reports %+v, the program %+v", got, lab.sideA().counts(t))
			}
		})
	}
}

// endByTCX attaches a tcx program to the uplink that ends the matter, as Cilium's do, so that no filter gets a frame, and moves the program
// for receive rings to the front.
func (s *receivingSide) endByTCX(t *testing.T) {
	t.Helper()
	must(t, s.node.Do(func() error {
		uplink, err := netlink.LinkByName(topology.PhysicalInterface)
		if err != nil {
			return err
		}
		theirs, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0 /* TCX_PASS */), asm.Return()},
		})
		if err != nil {
			return err
		}
		t.Cleanup(func() { theirs.Close() })
		attached, err := bpflink.AttachTCX(bpflink.TCXOptions{Interface: uplink.Attrs().Index, Program: theirs, Attach: ebpf.AttachTCXIngress})
		if errors.Is(err, ebpf.ErrNotSupported) {
			testlab.Missing(t, "the kernel has no tcx (Linux 6.6)")
		}
		if err != nil {
			return err
		}
		t.Cleanup(func() { attached.Close() })
		moved, err := rings.KeepReached(rings.DefaultDir)
		if len(moved) != 1 {
			t.Errorf("the program was moved at %q", moved)
		}
		return err
	}))
}

func TestRedirectedDatagramsReachKernelListeners(t *testing.T) {
	timing(t)
	t.Run("by a filter", func(t *testing.T) { redirectToRing(t, func(*receivingSide) {}) })
	t.Run("by tcx", func(t *testing.T) { redirectToRing(t, func(side *receivingSide) { side.endByTCX(t) }) })
}

func redirectToRing(t *testing.T, prepare func(*receivingSide)) {
	t.Helper()
	lab := newLab(t)
	lab.sideA().attach(t, rings.Endpoint{Redirect: true})
	prepare(lab.sideA())
	sent, came := filepath.Join(t.TempDir(), "talker.csv"), filepath.Join(t.TempDir(), "listener.csv")
	listener := lab.startRingListener(t, came) // without ktsnd it gets no ring
	const messages = 1000
	must(t, finish(t, lab.startKernelTalker(t, sent, messages)))
	drain(t, listener)
	count := onlyOnce(t, sent, came)
	if counts := lab.sideA().counts(t); count != messages || counts.Redirected != messages {
		t.Errorf("%d of %d messages arrived; the program reports %+v", count, messages, counts)
	}
}
