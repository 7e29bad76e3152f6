// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	// encryptedPort is the UDP port of VXLAN inside ESP.
	encryptedPort = 4793
	// firstSPI is the SPI of generation 0.
	firstSPI = 0x1000
	protoESP = 50
	ipBytes  = 20
	etherAt  = 14
	espHead  = 16
	// innerTypeAt is the offset of the inner frame's EtherType after the outer IP header.
	innerTypeAt = 8 + 8 + 12
	// announcementType is the EtherType of announcements between nodes.
	announcementType = 0x88b5
)

// makeAssociations returns count associations from a generation on.
func makeAssociations(first, count uint32) (all []control.SecurityAssociation) {
	for generation := first; generation < first+count; generation++ {
		all = append(all, association(generation))
	}
	return all
}

func association(generation uint32) control.SecurityAssociation {
	key := control.SecurityAssociation{SPI: firstSPI + generation, Generation: generation}
	for i := range key.Key {
		key.Key[i] = byte(generation) + byte(i)
	}
	return key
}

// decrypter replaces node b's kernel, which need not support ESP: it decrypts received packets with Go's AES-GCM and
// forwards them to node b's bridge.
type decrypter struct {
	fd, bridge int
	done       chan struct{}
	// tunnel is a packet socket at node a's uplink, by which frames go to node b's tunnel, unencrypted; 0: they go to the bridge.
	tunnel int
	// key returns node b's key of an SPI at the arrival of the packet: on a busy machine packets wait for the decrypter.
	key func(spi uint32, arrived time.Time) (control.AssociationKey, bool)

	mu sync.Mutex
	// last is the last sequence number of each SPI in the order of arrival.
	last          map[uint32]uint32
	opened, clear int
	wrong         []string
}

func (l *lab) startDecrypter(t *testing.T) *decrypter {
	t.Helper()
	return l.startDecrypterBy(t, func(spi uint32, _ time.Time) (control.AssociationKey, bool) {
		return association(spi - firstSPI).Key, true
	})
}

func (l *lab) startDecrypterBy(t *testing.T, key func(spi uint32, arrived time.Time) (control.AssociationKey, bool)) *decrypter {
	t.Helper()
	d := &decrypter{done: make(chan struct{}), last: map[uint32]uint32{}, key: key}
	must(t, l.NodeB.Do(d.open))
	go d.run()
	t.Cleanup(func() {
		d.stop()
		unix.Close(d.fd)
	})
	return d
}

func (d *decrypter) open() error {
	physical, err := net.InterfaceByName(topology.PhysicalInterface)
	if err != nil {
		return err
	}
	bridge, err := net.InterfaceByName(topology.BridgeName)
	if err != nil {
		return err
	}
	d.bridge = bridge.Index
	if d.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	wait := unix.Timeval{Usec: 100_000}
	return errors.Join(
		unix.SetsockoptInt(d.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(d.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
		unix.SetsockoptTimeval(d.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.Bind(d.fd, &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: physical.Index})) // IPv4
}

func (d *decrypter) run() {
	frame, stamps := make([]byte, 2048), make([]byte, 64)
	for {
		n, stamped, _, _, err := unix.Recvmsg(d.fd, frame, stamps, 0)
		if err == nil {
			d.take(frame[:n], arrivedAt(stamps[:stamped]))
			continue
		}
		select {
		case <-d.done:
			return
		default:
		}
	}
}

// arrivedAt returns the kernel's stamp of a packet.
func arrivedAt(stamps []byte) time.Time {
	stamp, err := stampOf(stamps)
	if err != nil {
		return time.Now()
	}
	return time.Unix(0, stamp-testlab.TAIOffset())
}

// inClear returns a frame in an unencrypted tunnel between the nodes of an encrypted packet.
func inClear(encrypted, inner []byte) []byte {
	udp := binary.BigEndian.AppendUint16([]byte{0xc0, 0}, topology.VXLANPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+8+len(inner)))
	udp = append(append(udp, 0, 0, 8, 0, 0, 0, 0, 0, topology.VNI, 0), inner...)
	plain := append(append([]byte{}, encrypted...), udp...)
	header := plain[etherAt : etherAt+ipBytes]
	header[9] = unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(header[2:], uint16(ipBytes+len(udp)))
	header[10], header[11] = 0, 0
	sum := uint32(0)
	for at := 0; at < ipBytes; at += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[at:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(header[10:], ^uint16(sum&0xffff+sum>>16))
	return plain
}

// toTunnel makes the decrypter pass frames to node b's tunnel.
func (d *decrypter) toTunnel(t *testing.T, l *lab) {
	t.Helper()
	must(t, l.NodeA.Do(func() error {
		physical, err := net.InterfaceByName(topology.PhysicalInterface)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(fd) })
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tunnel = fd
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: physical.Index})
	}))
}

func (d *decrypter) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.done:
	default:
		close(d.done)
	}
}

func (d *decrypter) take(frame []byte, arrived time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(frame) < etherAt+ipBytes+espHead {
		return
	}
	content := frame[etherAt+ipBytes:]
	switch frame[etherAt+9] {
	case unix.IPPROTO_UDP:
		// The agent would encrypt the kernel's packets. Here it resolves addresses unencrypted.
		if binary.BigEndian.Uint16(content[2:]) == topology.VXLANPort && len(content) > innerTypeAt+2 &&
			binary.BigEndian.Uint16(content[innerTypeAt:]) != unix.ETH_P_ARP && d.tunnel == 0 {
			d.clear++
		}
	case protoESP:
		inner, err := d.decrypt(content[:int(binary.BigEndian.Uint16(frame[etherAt+2:]))-ipBytes], arrived)
		switch {
		case err != nil:
		case d.tunnel != 0:
			_, err = unix.Write(d.tunnel, inClear(frame[:etherAt+ipBytes], inner))
		default:
			err = unix.Sendto(d.fd, inner, 0, &unix.SockaddrLinklayer{Ifindex: d.bridge})
		}
		if err != nil {
			d.wrong = append(d.wrong, err.Error())
		}
	}
}

// decrypt returns the inner Ethernet frame.
func (d *decrypter) decrypt(esp []byte, arrived time.Time) ([]byte, error) {
	spi, sequence := binary.BigEndian.Uint32(esp), binary.BigEndian.Uint32(esp[4:])
	if sequence <= d.last[spi] {
		return nil, fmt.Errorf("SPI %#x: number %d arrives after %d", spi, sequence, d.last[spi])
	}
	d.last[spi] = sequence
	key, known := d.key(spi, arrived)
	if !known {
		return nil, fmt.Errorf("SPI %#x, number %d: node b has no such key", spi, sequence)
	}
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	nonce := append(append([]byte{}, key[16:]...), esp[8:16]...)
	text, err := gcm.Open(nil, nonce, esp[espHead:], esp[:8])
	if err != nil {
		return nil, fmt.Errorf("SPI %#x, number %d: %w", spi, sequence, err)
	}
	datagram := text[:len(text)-2-int(text[len(text)-2])]
	if text[len(text)-1] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(datagram[2:]) != encryptedPort ||
		binary.BigEndian.Uint32(datagram[12:])>>8 != topology.VNI {
		return nil, fmt.Errorf("SPI %#x, number %d: inside is %x", spi, sequence, datagram[:16])
	}
	if binary.BigEndian.Uint16(datagram[innerTypeAt:]) != announcementType {
		d.opened++
	}
	return datagram[16:], nil
}

// check returns the numbers of decrypted frames and of their SPIs.
func (d *decrypter) check(t *testing.T) (opened, spis int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, what := range d.wrong {
		t.Error(what)
	}
	if d.clear != 0 {
		t.Errorf("%d frames arrived unencrypted", d.clear)
	}
	return d.opened, len(d.last)
}

// startEncrypting is startDaemon for a network that requires encryption, configured in the agent's order. keys may be nil.
func (l *lab) startEncrypting(t *testing.T, keys []control.SecurityAssociation) (*process.Process, *control.Client) {
	t.Helper()
	daemon, client := l.startUnattached(t)
	err := client.SetNetworkEncryption(t.Context(), topology.VNI, control.EncryptionRequired)
	if err == nil && keys != nil {
		err = client.SetSecurityAssociations(t.Context(), topology.NodeAddressB, keys)
	}
	must(t, err)
	l.attach(t, client, daemon)
	return daemon, client
}

func TestEncryptedMessagesArriveOnTime(t *testing.T) {
	timing(t)
	const count = 1000
	lab := newLab(t)
	_, client := lab.startEncrypting(t, makeAssociations(1, 3))
	decrypter := lab.startDecrypter(t)
	running := lab.startFlow(t, "--cycle", "1ms", "--lead", "5ms", "--size", "200", "--count", strconv.Itoa(count))
	awaitSent(t, client, count)
	var total sum
	total.add(awaitSettled(t, client))
	if err := finish(t, running.talker); err != nil {
		t.Error(err)
	}
	running.drain(t)
	running.checkNoneLost(t, total)
	if opened, spis := decrypter.check(t); opened != count || spis != 1 {
		t.Errorf("%d messages were decrypted, by %d associations", opened, spis)
	}
	state, err := client.SecurityAssociations(t.Context())
	if err != nil || len(state) != 1 || state[0].Generation != 1 || state[0].Sequence < count || state[0].AssociationsLeft != 2 {
		t.Errorf("ktsnd seals by %+v, %v", state, err)
	}
	output := lab.ask(t, "status")
	key := association(1).Key
	if !strings.Contains(output, "VNI 42: required") || !strings.Contains(output, "to 192.0.2.2: SPI 0x1001, generation 1, ") ||
		strings.Contains(strings.ToLower(output), hex.EncodeToString(key[:8])) {
		t.Errorf("ktsn status prints:\n%s", output)
	}
}

// TestSequenceNumbersAreUnique gives each ktsnd the same list, like an agent without state.
func TestSequenceNumbersAreUnique(t *testing.T) {
	timing(t)
	lab := newLab(t)
	list := makeAssociations(1, 8)
	daemon, client := lab.startEncrypting(t, list)
	decrypter := lab.startDecrypter(t)
	running := lab.startFlow(t, "--cycle", "500us", "--lead", "20ms")
	var total sum
	for life := range 6 {
		awaitTaken(t, client, 100)
		total.add(counters(t, client))
		if life%2 == 0 {
			kill(t, daemon)
			daemon, client = lab.startEncrypting(t, list)
		} else {
			daemon, client = lab.takeOver(t, daemon)
		}
		state, err := client.SecurityAssociations(t.Context())
		if err != nil || len(state) != 1 || state[0].Generation != uint32(life)+2 {
			t.Errorf("ktsnd number %d seals by %+v, %v", life+2, state, err)
		}
	}
	awaitTaken(t, client, 100)
	total.add(running.end(t, client))
	running.checkConserved(t, total)
	if opened, spis := decrypter.check(t); opened < 700 || spis != 7 {
		t.Errorf("%d messages were decrypted, by %d associations", opened, spis)
	}
}

func TestRequiredEncryptionWithoutKeySendsNothing(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startEncrypting(t, nil)
	decrypter := lab.startDecrypter(t)
	running := lab.startFlow(t, "--cycle", "1ms")
	awaitCounters(t, client, "messages are dropped", func(c control.Counters) bool { return c.DropNoAssociation >= 50 })
	must(t, client.SetSecurityAssociations(t.Context(), topology.NodeAddressB, makeAssociations(1, 1)))
	awaitSent(t, client, 50)
	running.end(t, client)
	if opened, _ := decrypter.check(t); opened < 50 {
		t.Errorf("%d messages were decrypted", opened)
	}
}

// TestInvalidEncryptionRequestsChangeNothing checks the errors that only a running ktsnd detects.
func TestInvalidEncryptionRequestsChangeNothing(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startEncrypting(t, makeAssociations(5, 2))
	for name, test := range map[string]struct {
		peer  netip.Addr
		list  []control.SecurityAssociation
		words string
	}{
		"own address":        {topology.NodeAddressA, makeAssociations(9, 1), "local node's own address"},
		"of old generations": {topology.NodeAddressB, makeAssociations(1, 2), "the newest generation is 2, and 5 is in use"},
		"out of order":       {topology.NodeAddressB, []control.SecurityAssociation{association(8), association(7)}, "ascending order"},
		"of another key": {topology.NodeAddressB, []control.SecurityAssociation{{SPI: firstSPI + 5, Generation: 5}},
			"in use with another spi or key"},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.CheckError(t, client.SetSecurityAssociations(t.Context(), test.peer, test.list), test.words)
		})
	}
	state, err := client.SecurityAssociations(t.Context())
	if err != nil || len(state) != 1 || state[0].Generation != 5 || state[0].AssociationsLeft != 1 {
		t.Errorf("ktsnd seals by %+v, %v", state, err)
	}
}
