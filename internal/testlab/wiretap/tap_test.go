// SPDX-License-Identifier: Apache-2.0

package wiretap

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func createTopology(t *testing.T) *topology.Topology {
	t.Helper()
	testlab.Root(t)
	created, err := topology.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := created.Destroy(); err != nil {
			t.Error(err)
		}
	})
	if err := cniruntime.Wire(created, pluginDir(t), "pod").AttachBoth(t.Context()); err != nil {
		t.Fatal(err)
	}
	return created
}

// pluginDir is the folder of built plugins. The test is skipped without it.
func pluginDir(t *testing.T) string {
	t.Helper()
	for _, name := range cniruntime.Plugins {
		testlab.Program(t, name)
	}
	return testlab.BinDir(t)
}

// opened opens a tap with one of the functions that open taps.
func opened(t *testing.T, namespace *topology.Namespace, open func() (*Tap, error)) *Tap {
	t.Helper()
	var tap *Tap
	if err := namespace.Do(func() (err error) { tap, err = open(); return err }); err != nil {
		t.Fatal(err)
	}
	return tap
}

func TestTapWithoutPort(t *testing.T) {
	nodes := createTopology(t)
	for name, test := range map[string]struct {
		port uint16
		want int
	}{"the port of what is sent": {7000, 0}, "another": {7001, 3}} {
		t.Run(name, func(t *testing.T) {
			tap := opened(t, nodes.NodeB, func() (*Tap, error) { return OpenWithout(topology.PhysicalInterface, 100, test.port) })
			send(t, nodes.PodA, nodes.PodB, topology.PodAddressB, 3, 200)
			capture, err := tap.Stop()
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for _, packet := range capture.Packets {
				if datagram, err := Dissect(packet.Head); err == nil && datagram.Destination.Port() == 7000 {
					count++
				}
			}
			if count != test.want {
				t.Errorf("%d of 3 datagrams seen, want %d", count, test.want)
			}
		})
	}
	t.Run("what is in no tunnel is seen", func(t *testing.T) {
		tap := opened(t, nodes.NodeB, func() (*Tap, error) { return OpenWithout(topology.PhysicalInterface, 100, 7000) })
		send(t, nodes.NodeA, nodes.NodeB, topology.NodeAddressB, 3, 200)
		if capture, err := tap.Stop(); err != nil || len(capture.Packets) < 3 {
			t.Errorf("%+v, %v", capture, err)
		}
	})
}

func openTap(t *testing.T, namespace *topology.Namespace, frames int) *Tap {
	t.Helper()
	var tap *Tap
	err := namespace.Do(func() (err error) {
		tap, err = Open(topology.PhysicalInterface, frames)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tap
}

// send sends datagrams with numbered payloads of a length and waits for each to arrive, so that the link never has to
// queue.
func send(t *testing.T, from, to *topology.Namespace, address netip.Addr, count, payloadBytes int) {
	t.Helper()
	talker, listener := testlab.UDP4(t, from, to, netip.AddrPortFrom(address, 7000))
	defer listener.Close() // others use that port
	defer talker.Close()
	buffer := make([]byte, 2000)
	for i := range count {
		payload := append(fmt.Appendf(nil, "message %d ", i), make([]byte, payloadBytes)...)
		if _, err := talker.Write(payload); err != nil {
			t.Fatal(err)
		}
		_ = listener.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := listener.Read(buffer); err != nil {
			t.Fatal(err)
		}
	}
}

// sent returns the datagrams of send: ARP and the bridges' IGMP are in the tunnel as well.
func sent(t *testing.T, capture *Capture) (packets []Packet, datagrams []*Datagram) {
	t.Helper()
	for _, packet := range capture.Packets {
		datagram, err := Dissect(packet.Head)
		if errors.Is(err, ErrOther) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		packets, datagrams = append(packets, packet), append(datagrams, datagram)
	}
	return packets, datagrams
}

func nowTAI(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

func TestTapRecordsDatagramsWithTime(t *testing.T) {
	nodes := createTopology(t)
	for name, test := range map[string]struct {
		from, to     *topology.Namespace
		address      netip.Addr
		vni          uint32
		payloadBytes int
	}{
		"between the nodes":      {nodes.NodeA, nodes.NodeB, topology.NodeAddressB, 0, 10},
		"over the overlay":       {nodes.PodA, nodes.PodB, topology.PodAddressB, topology.VNI, 10},
		"longer than is kept":    {nodes.PodA, nodes.PodB, topology.PodAddressB, topology.VNI, 1024},
		"as long as the link is": {nodes.NodeA, nodes.NodeB, topology.NodeAddressB, 0, 1400},
	} {
		t.Run(name, func(t *testing.T) {
			const count = 50
			send(t, test.from, test.to, test.address, 1, 1)
			tap := openTap(t, nodes.NodeB, 2*count)
			before := nowTAI(t)
			send(t, test.from, test.to, test.address, count, test.payloadBytes)
			after := nowTAI(t)
			capture, err := tap.Stop()
			if err != nil {
				t.Fatal(err)
			}
			packets, datagrams := sent(t, capture)
			if capture.Drops != 0 || len(packets) != count {
				t.Fatalf("%d frames, %d dropped; want %d and 0", len(packets), capture.Drops, count)
			}
			last := before
			for i, packet := range packets {
				if packet.TAI < last || packet.TAI > after {
					t.Errorf("frame %d is stamped %d, before %d or after %d", i, packet.TAI, last, after)
				}
				last = packet.TAI
				if packet.AtTap {
					t.Errorf("frame %d was stamped at the tap and not by the link", i)
				}
				want := fmt.Appendf(nil, "message %d ", i)
				if datagram := datagrams[i]; !bytes.HasPrefix(datagram.Payload, want) || datagram.VNI != test.vni {
					t.Errorf("frame %d carries %.20q in VNI %d", i, datagram.Payload, datagram.VNI)
				}
				if packet.WireBytes < test.payloadBytes {
					t.Errorf("frame %d was %d bytes on the wire", i, packet.WireBytes)
				}
			}
		})
	}
}

func TestTapIgnoresOutgoingFrames(t *testing.T) {
	nodes := createTopology(t)
	send(t, nodes.PodB, nodes.PodA, topology.PodAddressA, 1, 1)
	tap := openTap(t, nodes.NodeB, 100)
	send(t, nodes.PodB, nodes.PodA, topology.PodAddressA, 10, 10)
	capture, err := tap.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if packets, _ := sent(t, capture); len(packets) != 0 {
		t.Errorf("%d outgoing frames were kept", len(packets))
	}
}

func TestTapCountsDrops(t *testing.T) {
	nodes := createTopology(t)
	const ringFrames, extra = blockBytes / frameBytes, 20 // a ring has at least one block
	tap := openTap(t, nodes.NodeB, 1)
	send(t, nodes.NodeA, nodes.NodeB, topology.NodeAddressB, ringFrames+extra, 10)
	capture, err := tap.Stop()
	if err != nil {
		t.Fatal(err)
	}
	// A bridge may have sent something in between.
	if len(capture.Packets) != ringFrames || capture.Drops < extra || capture.Drops > extra+5 {
		t.Errorf("%d kept and %d dropped, want %d and %d", len(capture.Packets), capture.Drops, ringFrames, extra)
	}
}

func TestOpenErrors(t *testing.T) {
	nodes := createTopology(t)
	for name, test := range map[string]struct {
		interfaceName string
		frames        int
	}{
		"an interface that is not there": {"nowhere0", 10},
		"a ring of nothing":              {topology.PhysicalInterface, 0},
		"a ring beyond all bounds":       {topology.PhysicalInterface, MaxFrames + 1},
	} {
		t.Run(name, func(t *testing.T) {
			err := nodes.NodeB.Do(func() error {
				_, err := Open(test.interfaceName, test.frames)
				return err
			})
			if err == nil {
				t.Error("the tap was opened")
			}
		})
	}
}
