// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/wiretap"
)

const (
	testRun   = 9
	testCycle = 1000
	testBase  = 1_000_000
)

// frame is a tap's packet with the message of that run and sequence.
func frame(t *testing.T, runID, sequence uint32, tai int64) wiretap.Packet {
	t.Helper()
	payload := make([]byte, perf.MinPayload)
	binary.BigEndian.PutUint32(payload, 0x54534e50)
	payload[4] = 1
	binary.BigEndian.PutUint32(payload[8:], runID)
	binary.BigEndian.PutUint32(payload[12:], sequence)
	buffer := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6),
			EthernetType: layers.EthernetTypeIPv4},
		&layers.IPv4{Version: 4, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}},
		&layers.UDP{SrcPort: 1, DstPort: listenPort},
		gopacket.Payload(payload))
	if err != nil {
		t.Fatal(err)
	}
	return wiretap.Packet{TAI: tai, Head: buffer.Bytes()}
}

// arp is what travels between the messages.
func arp(t *testing.T) wiretap.Packet {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{},
		&layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6),
			EthernetType: layers.EthernetTypeARP}, gopacket.Payload("who has"))
	if err != nil {
		t.Fatal(err)
	}
	return wiretap.Packet{Head: buffer.Bytes()}
}

// perfect is a run of three messages over ktsnd in which all goes well: departure 50, wire 60 and arrival 90
// after the time asked for.
func perfect(t *testing.T) *observation {
	t.Helper()
	seen := &observation{runID: testRun, cycleNs: testCycle, viaDaemon: true, late: 0,
		capture:  &wiretap.Capture{Packets: []wiretap.Packet{arp(t), frame(t, testRun-1, 0, 5)}},
		cpuCores: map[string]float64{"ktsnd": 0.07}}
	for sequence := range uint32(3) {
		txtime := testBase + int64(sequence)*testCycle
		seen.sent = append(seen.sent, perf.Sent{Sequence: sequence, Txtime: txtime,
			SendStart: txtime - 300, SendEnd: txtime - 299})
		seen.departures = append(seen.departures, control.Departure{RequestedTAI: txtime, DepartedTAI: txtime + 50})
		seen.capture.Packets = append(seen.capture.Packets, frame(t, testRun, sequence, txtime+60))
		seen.received = append(seen.received, perf.Received{Sequence: sequence, Txtime: txtime, Arrival: txtime + 90,
			Valid: true})
	}
	return seen
}

func TestEachMessageIsFollowedToTheListener(t *testing.T) {
	outcome, err := join(perfect(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(outcome.problems) != 0 {
		t.Errorf("problems: %v", outcome.problems)
	}
	got := outcome.alternation
	if got.Sent != 3 || got.Received != 3 || got.Lost != 0 || got.Early != 0 || got.Late == nil || *got.Late != 0 {
		t.Errorf("counts are %+v", got.Counts)
	}
	if got.Latency.P50 != 90 || got.LaunchError.Max != 60 || got.DepartureError.Min != 50 || got.SendCall.P99 != 1 ||
		got.Jitter.AbsP99 != 0 || got.CPUCores["ktsnd"] != 0.07 {
		t.Errorf("distributions are %+v", got.Distributions)
	}
	last := outcome.messages[2]
	if last.Departed != testBase+2*testCycle+50 || last.Wire != testBase+2*testCycle+60 || last.Sequence != 2 {
		t.Errorf("the last message is %+v", last)
	}
}

func TestWhatGoesWrongIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observation)
		want   []string
	}{
		"a tap that dropped frames makes the run invalid": {
			func(o *observation) { o.capture.Drops = 2 }, []string{"the tap dropped 2"}},
		"a time stamp that the link did not take does, too": {
			func(o *observation) { o.capture.Packets[3].AtTap = true }, []string{"1 frames got no time stamp"}},
		"a tap that missed a message does, too": {
			func(o *observation) { o.capture.Packets = o.capture.Packets[:4] }, []string{"1 messages arrived that the tap did not see"}},
		"a lost message": {
			func(o *observation) { o.received = o.received[1:] }, []string{"1 messages were lost"}},
		"a message early on the wire": {
			func(o *observation) { o.capture.Packets[3].TAI -= 61 }, []string{"1 messages were early"}},
		"a message that ktsnd released early": {
			func(o *observation) { o.departures[0].DepartedTAI -= 51 }, []string{"ktsnd released 1 messages before their time"}},
		"a message that never was ktsnd's": {
			func(o *observation) { o.departures = o.departures[:2] }, []string{"ktsnd did not send 1"}},
		"a send call that failed is not a loss": {
			func(o *observation) {
				o.sent[2].Errno = 11
				o.received, o.departures = o.received[:2], o.departures[:2]
			}, []string{"1 send calls failed"}},
		"a message with bytes changed is lost as well": {
			func(o *observation) { o.received[0].Valid = false }, []string{"1 messages arrived with bytes changed", "1 messages were lost"}},
		"a message that came twice": {
			func(o *observation) { o.received = append(o.received, o.received[0]) }, []string{"1 messages arrived twice"}},
		"a loss on the kernel's path is a result": {
			func(o *observation) {
				o.viaDaemon = false
				o.received, o.departures = o.received[1:], nil
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := perfect(t)
			test.change(seen)
			outcome, err := join(seen)
			if err != nil {
				t.Fatal(err)
			}
			if len(outcome.problems) != len(test.want) {
				t.Fatalf("problems: %q, want %q", outcome.problems, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(outcome.problems[i], want) {
					t.Errorf("problem %q, want %q", outcome.problems[i], want)
				}
			}
		})
	}
}
