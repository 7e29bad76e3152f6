// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

const (
	// manyPeers is more than the copies of a message.
	manyPeers = 1100
	maxCopies = 1024
	// membersEach is the distance between two peers with members.
	membersEach = 100
)

// peerAt returns peer i. All are behind node b's address.
func peerAt(i int) control.Peer {
	return control.Peer{VNI: topology.VNI, Address: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}),
		Subnets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + i>>8), byte(i), 0}), 24)}}
}

// manyNodes is a lab in which ktsnd of node a has many peers.
type manyNodes struct {
	*lab
	client *control.Client
}

func newManyNodes(t *testing.T) *manyNodes {
	t.Helper()
	lab := newLab(t)
	ip(t, lab.NodeA, "route", "add", "198.18.0.0/15", "via", topology.NodeAddressB.String())
	// Node b receives their frames without being one of them.
	_, client := lab.startDaemon(t, "--packets", "8192")
	ip(t, lab.PodA, "route", "add", "239.0.0.0/8", "dev", topology.PodInterface)
	return &manyNodes{lab, client}
}

func (c *manyNodes) addPeers(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	for i := range manyPeers {
		must(t, c.client.PeerAdd(t.Context(), peerAt(i)))
	}
	return time.Since(began)
}

// announce announces in the name of each peer the group membership of its pods, like a ktsnd there.
func (c *manyNodes) announce(t *testing.T, group netip.Addr, isMember func(i int) bool) {
	t.Helper()
	to, from := interfaceMACOf(t, c.NodeA, topology.PhysicalInterface), interfaceMACOf(t, c.NodeB, topology.PhysicalInterface)
	fd := frameSocket(t, c.NodeB, topology.PhysicalInterface, 0)
	defer unix.Close(fd)
	for i := range manyPeers {
		_, err := unix.Write(fd, announcementOf(to, from, peerAt(i).Address, group, isMember(i)))
		must(t, err)
		if i%50 == 0 {
			time.Sleep(time.Millisecond) // the receiving socket's buffer is limited
		}
	}
}

func announcementOf(to, from net.HardwareAddr, node, group netip.Addr, isMember bool) []byte {
	payload := []byte{'K', 'T', 'S', 'G', 1, 0, 0, 100, 0, 0, 0, 0}
	if isMember {
		payload[9] = 1
		payload = append(payload, group.AsSlice()...)
	}
	inner := slices.Concat([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e}, from, []byte{0x88, 0xb5}, payload)
	udp := binary.BigEndian.AppendUint16(nil, 50000)
	udp = binary.BigEndian.AppendUint16(udp, topology.VXLANPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+8+len(inner)))
	udp = append(udp, 0, 0, 8, 0, 0, 0, 0, 0, topology.VNI, 0)
	header := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	binary.BigEndian.PutUint16(header[2:], uint16(20+len(udp)+len(inner)))
	return slices.Concat(to, from, []byte{0x08, 0x00}, header, node.AsSlice(), topology.NodeAddressA.AsSlice(), udp, inner)
}

// known counts the peers that have announced something.
func (c *manyNodes) known(t *testing.T) int {
	t.Helper()
	all, err := c.client.Groups(t.Context())
	must(t, err)
	count := 0
	for _, node := range all {
		if node.Known && node.Address != topology.NodeAddressA {
			count++
		}
	}
	return count
}

// onWire sends a message to the group, waits for count frames on the wire, and returns the time between the first and
// the last.
func (c *manyNodes) onWire(t *testing.T, group, text string, frames int) time.Duration {
	t.Helper()
	holds := func(frame wiretap.Packet) bool { return bytes.Contains(frame.Head, []byte(text)) }
	tap := c.openTap(t, frames)
	c.sendTo(t, "--to", group, "--port", "7788", "--multicast-interface", topology.PodInterface, "50000:"+text)
	awaitWire(t, tap, frames, holds)
	var stamps []int64
	for _, frame := range stopTap(t, tap) {
		if holds(frame) {
			stamps = append(stamps, frame.TAI)
		}
	}
	if len(stamps) != frames {
		t.Fatalf("%d frames of %q are on the wire, want %d", len(stamps), text, frames)
	}
	return time.Duration(slices.Max(stamps) - slices.Min(stamps))
}

func TestGroupOfThousandNodesCostsOnlyMembers(t *testing.T) {
	content(t)
	many := newManyNodes(t)
	const group = "239.1.2.3"
	// The group exists already: its list follows the peers.
	running := many.startTalker(t, os.DevNull, "--to", group+":7789", "--cycle", "50ms")
	awaitOnTime(t, many.client)
	t.Logf("%d peers were added in %v", manyPeers, many.addPeers(t))
	interrupt(t, running)

	// Their groups are unknown: the message goes to the maximum of peers, including node b.
	before := awaitSettled(t, many.client)
	took := many.onWire(t, group, "to all of them", maxCopies)
	after := awaitSettled(t, many.client)
	t.Logf("%d frames in %v", maxCopies, took)
	if after.CopiesSent-before.CopiesSent != maxCopies || after.CopiesLeftOut-before.CopiesLeftOut != manyPeers+1-maxCopies ||
		after.CopiesDropped != before.CopiesDropped || after.CopiesPruned != before.CopiesPruned {
		t.Errorf("to all: counted %+v, before %+v", after, before)
	}

	// Repeated, like each ktsnd does: some may be lost.
	testlab.Eventually(t, membersPatience, 10*time.Millisecond, func() error {
		if many.known(t) < manyPeers {
			many.announce(t, netip.MustParseAddr(group), func(i int) bool { return i%membersEach == 0 })
			return fmt.Errorf("%d of %d announcements arrived", many.known(t), manyPeers)
		}
		return nil
	})
	// And node b, which has no ktsnd.
	const members = manyPeers/membersEach + 1
	before = awaitSettled(t, many.client)
	took = many.onWire(t, group, "to members", members)
	after = awaitSettled(t, many.client)
	t.Logf("%d frames in %v", members, took)
	if after.CopiesSent-before.CopiesSent != members || after.CopiesPruned-before.CopiesPruned != manyPeers+1-members ||
		after.CopiesLeftOut != before.CopiesLeftOut {
		t.Errorf("to members: counted %+v, before %+v", after, before)
	}
}
