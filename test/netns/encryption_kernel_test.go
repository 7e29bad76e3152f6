// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	encryptedTunnel = "esp42"
	// encryptedMTU leaves room for the tunnel and ESP on a link of 1500 bytes.
	encryptedMTU = 1500 - 50 - 37
	// kernelGeneration is that of the first key of the kernels themselves; ktsnd's begin at 1.
	kernelGeneration = 100
)

// addState has the kernel of a node know a key.
func addState(t *testing.T, where *topology.Namespace, from, to netip.Addr, association control.SecurityAssociation) {
	t.Helper()
	arguments := strings.Fields(fmt.Sprintf("xfrm state add src %s dst %s proto esp spi %d mode transport reqid 42 replay-window 32 aead", from, to, association.SPI))
	ip(t, where, append(arguments, "rfc4106(gcm(aes))", "0x"+hex.EncodeToString(association.Key[:]), "128")...)
}

// encryptNode gives a node a tunnel whose packets have to come by ESP, and leave by it. The one in clear is taken off the bridge.
func encryptNode(t *testing.T, where *topology.Namespace, local, remote netip.Addr) {
	t.Helper()
	ip(t, where, strings.Fields("link set "+topology.TunnelName+" nomaster")...)
	ip(t, where, strings.Fields(fmt.Sprintf("link add %s type vxlan id %d local %s remote %s dstport %d", encryptedTunnel, topology.VNI, local, remote, encryptedPort))...)
	ip(t, where, strings.Fields(fmt.Sprintf("link set %s master %s up", encryptedTunnel, topology.BridgeName))...)
	ip(t, where, strings.Fields(fmt.Sprintf("xfrm policy add src %s/32 dst %s/32 proto 17 dport %d dir out tmpl src %s dst %s proto esp reqid 42 mode transport",
		local, remote, encryptedPort, local, remote))...)
	ip(t, where, strings.Fields(incomingPolicy("add", local))...)
}

func incomingPolicy(verb string, local netip.Addr) string {
	policy := fmt.Sprintf("xfrm policy %s dst %s/32 proto 17 dport %d dir in", verb, local, encryptedPort)
	if verb == "add" {
		policy += " tmpl proto esp reqid 42 mode transport"
	}
	return policy
}

// newEncryptedLab has two nodes whose kernels encrypt, each by a key of its own, and know that of node a's ktsnd.
func newEncryptedLab(t *testing.T) *lab {
	t.Helper()
	for _, module := range []string{"xfrm_user", "esp4", "gcm", "seqiv"} {
		if output, err := exec.Command("modprobe", module).CombinedOutput(); err != nil {
			t.Fatalf("modprobe %s: %v: %s", module, err, output)
		}
	}
	lab := newLab(t)
	a, b := topology.NodeAddressA, topology.NodeAddressB
	encryptNode(t, lab.NodeA, a, b)
	encryptNode(t, lab.NodeB, b, a)
	for _, node := range []*topology.Namespace{lab.NodeA, lab.NodeB} {
		addState(t, node, a, b, association(kernelGeneration))
		addState(t, node, b, a, association(kernelGeneration+1))
	}
	addState(t, lab.NodeB, a, b, association(1))
	for _, pod := range []*topology.Namespace{lab.PodA, lab.PodB} {
		ip(t, pod, strings.Fields(fmt.Sprintf("link set %s mtu %d", topology.PodInterface, encryptedMTU))...)
	}
	return lab
}

// refusals is a counter of what the kernel of a node did not take.
func refusals(t *testing.T, where *topology.Namespace, name string) (count int) {
	t.Helper()
	err := where.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/xfrm_stat")
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); err == nil && len(fields) == 2 && fields[0] == name {
				count, err = strconv.Atoi(fields[1])
				return err
			}
		}
		return errors.Join(err, errors.New("no counter "+name))
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// One after the other, because each needs what is before it.
func TestKernelDecryptsKtsndFrames(t *testing.T) {
	lab := newEncryptedLab(t)
	wire := lab.openWire(t)
	_, client := lab.startEncrypting(t, associations(1, 1))
	const count = 100
	running := lab.startFlow(t, "--cycle", "20ms", "--lead", "10ms", "--size", "64", "--count", strconv.Itoa(count))
	awaitSent(t, client, count)
	var total sum
	total.add(awaitSettled(t, client))
	if err := finish(t, running.talker); err != nil {
		t.Error(err)
	}
	running.drain(t)
	running.checkNoneLost(t, total)
	sealed, inClear := lab.forge(t)
	t.Run("a packet comes once, and is dropped when it comes again", func(t *testing.T) {
		if !lab.comes(t, wire, sealed) {
			t.Error("it does not come")
		}
		lab.expectNothing(t, wire, sealed, "XfrmInStateSeqError")
	})
	t.Run("a stranger's packet in clear is dropped before the bridge", func(t *testing.T) {
		lab.expectNothing(t, wire, inClear, "XfrmInTmplMismatch")
	})
	t.Run("which would have come without the policy", func(t *testing.T) {
		ip(t, lab.NodeB, strings.Fields(incomingPolicy("delete", topology.NodeAddressB))...)
		if !lab.comes(t, wire, inClear) {
			t.Error("it does not come")
		}
		ip(t, lab.NodeB, strings.Fields(incomingPolicy("add", topology.NodeAddressB))...)
	})
	t.Run("what the kernels send comes both ways", func(t *testing.T) {
		err := lab.PodA.Do(func() error {
			output, err := exec.Command("ping", "-c", "3", "-i", "0.2", "-W", "5", topology.PodAddressB.String()).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		lab.carryStream(t, 64<<10)
	})
	if sent := wire.clearMessages(t); sent != 0 {
		t.Errorf("%d datagrams of the network went over the wire in clear", sent)
	}
}

// wire is a packet socket at each end of the link of the nodes.
type wire struct{ near, far int }

func (l *lab) openWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{}
	for _, end := range []struct {
		node *topology.Namespace
		fd   *int
	}{{l.NodeA, &w.near}, {l.NodeB, &w.far}} {
		err := end.node.Do(func() error {
			link, err := net.InterfaceByName(topology.PhysicalInterface)
			if err != nil {
				return err
			}
			*end.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			return errors.Join(unix.SetsockoptInt(*end.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
				unix.SetsockoptInt(*end.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
				unix.Bind(*end.fd, &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: link.Index}))
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(*end.fd) })
	}
	return w
}

// frames are those that have come to node b since the last call.
func (w *wire) frames() (all [][]byte) {
	for {
		frame := make([]byte, 2048)
		n, _, err := unix.Recvfrom(w.far, frame, 0)
		if err != nil {
			return all
		}
		all = append(all, frame[:n])
	}
}

// clearMessages counts datagrams of VXLAN that were not encrypted since the last look.
func (w *wire) clearMessages(t *testing.T) (count int) {
	t.Helper()
	for _, frame := range w.frames() {
		if len(frame) < etherAt+ipBytes+4 {
			continue
		}
		port := binary.BigEndian.Uint16(frame[etherAt+ipBytes+2:])
		if frame[etherAt+9] == unix.IPPROTO_UDP && (port == encryptedPort || port == topology.VXLANPort) {
			count++
		}
	}
	return count
}

// forge makes two frames for node b with a datagram from pod a to pod b inside: one by ktsnd's key, with a number that ktsnd has not
// come to, and one in clear.
func (l *lab) forge(t *testing.T) (sealed, inClear []byte) {
	t.Helper()
	inner := serialize(t,
		&layers.Ethernet{SrcMAC: interfaceMACOf(t, l.PodA, topology.PodInterface), DstMAC: interfaceMACOf(t, l.PodB, topology.PodInterface),
			EthernetType: layers.EthernetTypeIPv4},
		ipHeader(topology.PodAddressA, topology.PodAddressB, layers.IPProtocolUDP), &layers.UDP{SrcPort: 40000, DstPort: listenPort}, gopacket.Payload("forged"))
	datagram := serialize(t, &layers.UDP{SrcPort: 50000, DstPort: encryptedPort}, &layers.VXLAN{ValidIDFlag: true, VNI: topology.VNI}, gopacket.Payload(inner))
	outer := &layers.Ethernet{SrcMAC: interfaceMACOf(t, l.NodeA, topology.PhysicalInterface), DstMAC: interfaceMACOf(t, l.NodeB, topology.PhysicalInterface),
		EthernetType: layers.EthernetTypeIPv4}
	sealed = serialize(t, outer, ipHeader(topology.NodeAddressA, topology.NodeAddressB, layers.IPProtocolESP),
		gopacket.Payload(seal(t, association(1), 1000, datagram)))
	inClear = serialize(t, outer, ipHeader(topology.NodeAddressA, topology.NodeAddressB, layers.IPProtocolUDP), gopacket.Payload(datagram))
	return sealed, inClear
}

func ipHeader(from, to netip.Addr, protocol layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
}

// serialize writes layers, of which UDP has no checksum.
func serialize(t *testing.T, all ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	for i := len(all) - 1; i >= 0; i-- {
		_, isUDP := all[i].(*layers.UDP)
		if err := all[i].SerializeTo(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: !isUDP}); err != nil {
			t.Fatal(err)
		}
	}
	return buffer.Bytes()
}

// seal puts ESP around a datagram of UDP.
func seal(t *testing.T, by control.SecurityAssociation, number uint32, datagram []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(by.Key[:16])
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	text := append([]byte{}, datagram...)
	for padding := byte(1); (len(text)+2)%4 != 0; padding++ {
		text = append(text, padding)
	}
	text = append(text, byte(len(text)-len(datagram)), unix.IPPROTO_UDP)
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, by.SPI), number)
	iv := binary.BigEndian.AppendUint64(nil, uint64(number))
	return gcm.Seal(append(append([]byte{}, head...), iv...), append(append([]byte{}, by.Key[16:]...), iv...), text, head)
}

// comes tells whether a frame at the wire's near end brings a datagram to pod b's listening port.
func (l *lab) comes(t *testing.T, w *wire, frame []byte) bool {
	t.Helper()
	conn := listen(t, l.PodB, "udp4", atPodB)
	defer conn.Close()
	var index int
	if err := l.NodeA.Do(func() error {
		link, err := net.InterfaceByName(topology.PhysicalInterface)
		if err == nil {
			index = link.Index
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(w.near, frame, 0, &unix.SockaddrLinklayer{Ifindex: index}); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _, err := conn.ReadFromUDPAddrPort(make([]byte, 2048))
	_ = w.frames()
	return err == nil
}

// expectNothing says that it does not, and which counter of node b's kernel says why.
func (l *lab) expectNothing(t *testing.T, w *wire, frame []byte, counter string) {
	t.Helper()
	before := refusals(t, l.NodeB, counter)
	if l.comes(t, w, frame) {
		t.Error("it comes")
	}
	if after := refusals(t, l.NodeB, counter); after != before+1 {
		t.Errorf("%s went from %d to %d", counter, before, after)
	}
}

// carryStream sends so many bytes from pod b to pod a by TCP.
func (l *lab) carryStream(t *testing.T, count int64) {
	t.Helper()
	var listener net.Listener
	if err := l.PodA.Do(func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(topology.PodAddressA, 7000).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sent := make(chan error, 1)
	go func() {
		sent <- l.PodB.Do(func() error {
			conn, err := net.DialTimeout("tcp4", listener.Addr().String(), patience)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = io.CopyN(conn, zeros{}, count)
			return err
		})
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got, err := io.Copy(io.Discard, conn)
	if err := errors.Join(err, <-sent); err != nil || got != count {
		t.Errorf("%d of %d bytes came: %v", got, count, err)
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
