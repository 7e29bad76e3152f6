// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
					t.Errorf("message %d has %d bytes and arrives from %s", received.Sequence,
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

// checkFrames checks all headers of the frames on the wire.
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
		// With rising times the order on the wire is that of the calls.
		if txtime := seen.sent[i].Txtime; wire < txtime {
			t.Errorf("message %d was %d ns early", i, txtime-wire)
		}
	}
	awaitSettled(t, client) // a message may arrive before ktsnd records its departure
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
	lab := newLab(t) // no MAC address is resolved yet
	lab.startDaemon(t)
	checkAllArrived(t, lab.run(t, traffic{count: 5, payloadBytes: 64, environment: lab.preloaded(t)}), 5)

	t.Run("after all neighbours were flushed", func(t *testing.T) {
		for _, namespace := range []*topology.Namespace{lab.PodA, lab.PodB, lab.NodeA, lab.NodeB} {
			must(t, finish(t, start(t, namespace, "ip", exec.Command("ip", "neigh", "flush", "all"))))
		}
		checkAllArrived(t, lab.run(t, traffic{count: 5, payloadBytes: 64, environment: lab.preloaded(t)}), 5)
	})
}

func TestPermanentNeighborsStay(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t) // DPDK sets the interface's MAC address again, for which the kernel flushes its neighbours
	for _, neighbor := range []struct {
		namespace, peer *topology.Namespace
		name            string
		at              netip.Addr
	}{
		{lab.PodA, lab.PodB, topology.PodInterface, topology.PodAddressB},
		{lab.NodeA, lab.NodeB, topology.PhysicalInterface, topology.NodeAddressB},
	} {
		mac := interfaceMACOf(t, neighbor.peer, neighbor.name)
		ip(t, neighbor.namespace, "neighbour", "replace", neighbor.at.String(), "lladdr", mac.String(), "dev", neighbor.name,
			"nud", "permanent")
		defer func() {
			shown, err := exec.Command("ip", "-n", neighbor.namespace.Name(), "neighbour", "show", "dev", neighbor.name).Output()
			if err != nil || !strings.Contains(string(shown), "lladdr "+mac.String()+" PERMANENT") {
				t.Errorf("in %s the neighbour is now %q, %v", neighbor.namespace.Name(), shown, err)
			}
		}()
	}
	checkAllArrived(t, lab.run(t, traffic{count: 5, payloadBytes: 64, environment: lab.preloaded(t)}), 5)
}

// arrival is one datagram received by a plain UDP socket in pod b.
type arrival struct {
	text   string
	source netip.AddrPort
	at     time.Time
}

// receive listens in pod b, calls send, and returns count datagrams in the order of arrival.
func (l *lab) receive(t *testing.T, count int, send func()) []arrival {
	t.Helper()
	listener := listen(t, l.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, listenPort))
	defer listener.Close()
	send()
	var arrivals []arrival
	buffer := make([]byte, 2000)
	for range count {
		_ = listener.SetReadDeadline(time.Now().Add(patience))
		length, source, err := listener.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("after %d of %d datagrams: %v", len(arrivals), count, err)
		}
		arrivals = append(arrivals, arrival{string(buffer[:length]), source, time.Now()})
	}
	return arrivals
}

func TestMessagesLeaveInTimeOrder(t *testing.T) {
	content(t)
	lab := newLab(t)
	sender := program(t, "ktsn-test-send")
	_, client := lab.startDaemon(t)
	// Far enough apart for all calls to precede the first departure on a busy machine.
	for name, test := range map[string]struct {
		options  []string
		messages []string
		want     []string
	}{
		"the last call leaves first": {[]string{"--connect"},
			[]string{"900000:third", "600000:second", "300000:first"}, []string{"first", "second", "third"}},
		"calls in order stay in order": {[]string{"--connect"},
			[]string{"300000:first", "600000:second", "900000:third"}, []string{"first", "second", "third"}},
		"on a socket that is not connected": {nil,
			[]string{"900000:third", "300000:first", "600000:second"}, []string{"first", "second", "third"}},
		"on a bound socket": {[]string{"--connect", "--bind-port", "6100"},
			[]string{"600000:second", "300000:first"}, []string{"first", "second"}},
		"on a bound socket that is not connected": {[]string{"--bind-port", "6101"},
			[]string{"600000:second", "300000:first"}, []string{"first", "second"}},
		"a passed time leaves at once": {[]string{"--connect"},
			[]string{"500000:later", "-1000:late"}, []string{"late", "later"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := counters(t, client)
			arguments := append(slices.Clone(test.options), "--to", topology.PodAddressB.String(), "--port", "7788")
			command := exec.Command(sender, append(arguments, test.messages...)...)
			command.Env = lab.preloaded(t)
			var began time.Time
			arrivals := lab.receive(t, len(test.messages), func() {
				began = time.Now()
				must(t, finish(t, start(t, lab.PodA, "ktsn-test-send", command)))
			})
			var texts []string
			for _, arrival := range arrivals {
				texts = append(texts, arrival.text)
				if arrival.source.Addr() != topology.PodAddressA {
					t.Errorf("%q arrived from %s", arrival.text, arrival.source)
				}
			}
			if !slices.Equal(texts, test.want) {
				t.Errorf("arrived in the order %q, want %q", texts, test.want)
			}
			if last := arrivals[len(arrivals)-1]; last.at.Sub(began) < 500*time.Millisecond {
				t.Errorf("%q arrived after %v", last.text, last.at.Sub(began))
			}
			if taken := awaitSettled(t, client).Taken - before.Taken; taken != uint64(len(test.messages)) {
				t.Errorf("ktsnd took %d messages, want %d", taken, len(test.messages))
			}
		})
	}
}

// TestMessageTakenLateCountsAsMissed checks the error of the etf strategies: the kernel checks a message in the call.
// Therefore a message that was handed over in time counts as missed, not as an invalid parameter, however late ktsnd
// takes it.
func TestMessageTakenLateCountsAsMissed(t *testing.T) {
	timing(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--strategy", "etf")
	lab.listenForTexts(t)
	const lead = 300 * time.Millisecond // long enough for a call in time on a busy machine
	asker := lab.startAskerAhead(t, "blocking", lead)
	asker.expect(t, "socket", "made")
	signal(t, daemon, syscall.SIGSTOP)
	asker.expect(t, "send", "sent")
	time.Sleep(lead + 100*time.Millisecond)
	signal(t, daemon, syscall.SIGCONT)
	asker.expect(t, "report", "ECANCELED")
	asker.expect(t, "past", "sent")
	asker.expect(t, "report", "EINVAL")
	asker.awaitEnd(t)
	if counted := awaitSettled(t, client); counted.DropMissed != 1 || counted.DropTxtime != 1 {
		t.Errorf("ktsnd counts %+v", counted)
	}
}
