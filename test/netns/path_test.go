// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// checkAllArrived checks that each message arrived once, intact, from pod a.
func checkAllArrived(t *testing.T, seen *observed, count int) {
	t.Helper()
	for _, sent := range seen.sent {
		if sent.Errno != 0 {
			t.Errorf("send call %d failed with errno %d", sent.Sequence, sent.Errno)
		}
	}
	arrived := map[uint32]bool{}
	for _, received := range seen.received {
		switch {
		case !received.Valid:
			t.Errorf("message %d arrived changed", received.Sequence)
		case arrived[received.Sequence]:
			t.Errorf("message %d arrived twice", received.Sequence)
		case received.Source.Addr() != topology.PodAddressA:
			t.Errorf("message %d arrived from %s", received.Sequence, received.Source)
		}
		arrived[received.Sequence] = true
	}
	if len(arrived) != count {
		t.Errorf("%d of %d messages arrived", len(arrived), count)
	}
}

func TestMessagesArriveUnchangedFromPodAddresses(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	source := netip.AddrPortFrom(topology.PodAddressA, 6001)
	for name, payloadBytes := range map[string]int{
		"the smallest payload":            40,
		"64 bytes":                        64,
		"an odd number of bytes":          65,
		"1024 bytes":                      1024,
		"the largest odd payload":         1421,
		"the largest that fits the frame": 1422,
	} {
		t.Run(name, func(t *testing.T) {
			const count = 50
			before := counters(t, client)
			seen := lab.run(t, traffic{count: count, payloadBytes: payloadBytes,
				talkerOptions: []string{"--bind", source.String()}, environment: lab.preloaded(t)})
			checkAllArrived(t, seen, count)
			for _, received := range seen.received {
				if received.Source != source || int(received.PayloadBytes) != payloadBytes {
					t.Errorf("message %d has %d bytes and comes from %s", received.Sequence,
						received.PayloadBytes, received.Source)
				}
			}
			if taken := counters(t, client).Taken - before.Taken; taken != count {
				t.Errorf("ktsnd took %d messages, want %d", taken, count)
			}
			checkFrames(t, lab, seen, source, count)
		})
	}
}

// checkFrames checks all headers of what was on the wire.
func checkFrames(t *testing.T, lab *lab, seen *observed, source netip.AddrPort, count int) {
	t.Helper()
	podA, podB := interfaceMAC(t, lab.PodA).String(), interfaceMAC(t, lab.PodB).String()
	if len(seen.packets) != count {
		t.Errorf("%d datagrams on the wire, want %d", len(seen.packets), count)
	}
	for _, packet := range seen.packets {
		got := fmt.Sprintf("%s > %s, VNI %d, %s > %s, %s > %s", packet.OuterSource, packet.OuterDestination, packet.VNI,
			packet.SourceMAC, packet.DestinationMAC, packet.Source, packet.Destination)
		want := fmt.Sprintf("192.0.2.1 > 192.0.2.2, VNI 42, %s > %s, %s > 10.42.2.2:7788", podA, podB, source)
		if got != want {
			t.Fatalf("on the wire is\n%s, want\n%s", got, want)
		}
	}
}

func TestNoMessageLeavesEarly(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	const count = 1000
	seen := lab.run(t, traffic{count: count, payloadBytes: 256, environment: lab.preloaded(t)})
	checkAllArrived(t, seen, count)
	if len(seen.packets) != count {
		t.Fatalf("%d datagrams on the wire, want %d", len(seen.packets), count)
	}
	for i, wire := range seen.wireTAI {
		// On one flow with rising times the order on the wire is that of the calls.
		if txtime := seen.sent[i].Txtime; wire < txtime {
			t.Errorf("message %d was %d ns early", i, txtime-wire)
		}
	}
	awaitSettled(t, client) // a message may arrive before its departure is noted
	departures, overwritten, err := client.Departures(t.Context(), 0)
	if err != nil || overwritten != 0 || len(departures) != count {
		t.Fatalf("%d departures, %d overwritten, %v", len(departures), overwritten, err)
	}
	for i, departure := range departures {
		if departure.DepartedTAI < departure.RequestedTAI || departure.RequestedTAI != seen.sent[i].Txtime {
			t.Errorf("departure %+v of a message for %d", departure, seen.sent[i].Txtime)
		}
	}
}

func TestFirstMessageToNewPeerIsNotLost(t *testing.T) {
	content(t)
	lab := newLab(t) // nothing was sent in it: nobody knows anybody's MAC address
	lab.startDaemon(t)
	checkAllArrived(t, lab.run(t, traffic{count: 5, payloadBytes: 64, environment: lab.preloaded(t)}), 5)

	t.Run("nor when everybody has forgotten the other", func(t *testing.T) {
		for _, namespace := range []*topology.Namespace{lab.PodA, lab.PodB, lab.NodeA, lab.NodeB} {
			if err := finish(t, start(t, namespace, "ip", exec.Command("ip", "neigh", "flush", "all"))); err != nil {
				t.Fatal(err)
			}
		}
		checkAllArrived(t, lab.run(t, traffic{count: 5, payloadBytes: 64, environment: lab.preloaded(t)}), 5)
	})
}

func TestPermanentNeighborsStay(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t) // DPDK sets the interface's own MAC address again, for which the kernel forgets all it knows
	for _, neighbor := range []struct {
		in, of *topology.Namespace
		name   string
		at     netip.Addr
	}{
		{lab.PodA, lab.PodB, topology.PodInterface, topology.PodAddressB},
		{lab.NodeA, lab.NodeB, topology.PhysicalInterface, topology.NodeAddressB},
	} {
		mac := interfaceMACOf(t, neighbor.of, neighbor.name)
		ip(t, neighbor.in, "neighbour", "replace", neighbor.at.String(), "lladdr", mac.String(), "dev", neighbor.name,
			"nud", "permanent")
		defer func() {
			shown, err := exec.Command("ip", "-n", neighbor.in.Name(), "neighbour", "show", "dev", neighbor.name).Output()
			if err != nil || !strings.Contains(string(shown), "lladdr "+mac.String()+" PERMANENT") {
				t.Errorf("in %s the neighbour is now %q, %v", neighbor.in.Name(), shown, err)
			}
		}()
	}
	checkAllArrived(t, lab.run(t, traffic{count: 5, payloadBytes: 64, environment: lab.preloaded(t)}), 5)
}
