// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

const (
	testRun   = 9
	testCycle = 1000
	testBase  = 1_000_000
)

// besideOffset is how much later in the cycle the messages of the next talker are due.
const besideOffset = 600

// frame is a tap's packet with the message of that run and sequence.
func frame(t *testing.T, runID, sequence uint32, tai int64) wiretap.Packet {
	t.Helper()
	payload := make([]byte, 40)
	binary.BigEndian.PutUint32(payload, 0x54534e50)
	payload[4] = 1
	binary.BigEndian.PutUint32(payload[8:], runID)
	binary.BigEndian.PutUint32(payload[12:], sequence)
	binary.BigEndian.PutUint64(payload[16:], uint64(testBase+int64(sequence)*testCycle+int64(runID-testRun)*besideOffset))
	buffer := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6),
			EthernetType: layers.EthernetTypeIPv4},
		&layers.IPv4{Version: 4, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}},
		&layers.UDP{SrcPort: 1, DstPort: ListenPort},
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
func perfect(t *testing.T) *Observation {
	t.Helper()
	seen := &Observation{Talkers: []Talker{{RunID: testRun}}, ViaDaemon: true, Late: new(uint64),
		Capture:  &wiretap.Capture{Packets: []wiretap.Packet{arp(t), frame(t, testRun-1, 0, 5)}},
		CPUCores: map[string]float64{"ktsnd": 0.07}}
	for sequence := range uint32(3) {
		txtime := testBase + int64(sequence)*testCycle
		seen.Talkers[0].Sent = append(seen.Talkers[0].Sent, tsnperf.Sent{Sequence: sequence, Txtime: txtime,
			SendStart: txtime - 300, SendEnd: txtime - 299})
		seen.Departures = append(seen.Departures, control.Departure{RequestedTAI: txtime, DepartedTAI: txtime + 50})
		seen.Capture.Packets = append(seen.Capture.Packets, frame(t, testRun, sequence, txtime+60))
		seen.Received = append(seen.Received, tsnperf.Received{Sequence: sequence, Txtime: txtime, Arrival: txtime + 90,
			Valid: true})
	}
	return seen
}

func TestJoin(t *testing.T) {
	outcome, err := Join(perfect(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(outcome.Problems) != 0 {
		t.Errorf("problems: %v", outcome.Problems)
	}
	got := outcome.Observed
	if got.Sent != 3 || got.Received != 3 || got.Lost != 0 || got.Early != 0 || got.Late == nil || *got.Late != 0 {
		t.Errorf("counts are %+v", got.Counts)
	}
	if got.CPUCores["ktsnd"] != 0.07 {
		t.Errorf("processor time is %+v", got.CPUCores)
	}
	const due = testBase + 2*testCycle
	want := results.Message{Sequence: 2, Txtime: due, SendStart: due - 300, SendEnd: due - 299, Departed: due + 50, Wire: due + 60,
		Arrival: due + 90}
	if len(outcome.Messages) != 3 || outcome.Messages[2] != want {
		t.Errorf("the messages are %+v", outcome.Messages)
	}
}

// several is perfect with a second talker whose messages lie half a cycle behind those of the first.
func several(t *testing.T) *Observation {
	t.Helper()
	seen := perfect(t)
	const half = testCycle / 2
	seen.Talkers[0].Port = talkerPort
	second := Talker{RunID: testRun + 1, Port: talkerPort + 1}
	for i := range 3 {
		seen.Received[i].Source = netip.AddrPortFrom(topology.PodAddressA, talkerPort)
		sent, arrived := seen.Talkers[0].Sent[i], seen.Received[i]
		sent.Txtime, arrived.Txtime, arrived.Arrival = sent.Txtime+half, arrived.Txtime+half, arrived.Arrival+half+10
		arrived.Source = netip.AddrPortFrom(topology.PodAddressA, talkerPort+1)
		second.Sent = append(second.Sent, sent)
		seen.Received = append(seen.Received, arrived)
		seen.Departures = append(seen.Departures, control.Departure{Flow: 2, RequestedTAI: sent.Txtime, DepartedTAI: sent.Txtime + 50})
		seen.Capture.Packets = append(seen.Capture.Packets, frame(t, testRun+1, sent.Sequence, sent.Txtime+60))
	}
	seen.Talkers = append(seen.Talkers, second)
	return seen
}

func TestJoinSeparatesTalkers(t *testing.T) {
	outcome, err := Join(several(t))
	if err != nil {
		t.Fatal(err)
	}
	counts := outcome.Observed.Counts
	if counts.Sent != 6 || counts.Received != 6 || counts.Lost != 0 || counts.Duplicated != 0 || len(outcome.Problems) != 0 {
		t.Errorf("counts are %+v, problems %q", counts, outcome.Problems)
	}
	for i, message := range outcome.Messages {
		if message.Talker != i%2 || int(message.Sequence) != i/2 || message.Arrival-message.Txtime != int64(90+10*(i%2)) ||
			message.Wire-message.Txtime != 60 || message.Departed-message.Txtime != 50 {
			t.Errorf("message %d is %+v", i, message)
		}
	}
}

func TestJoinWithoutSamplers(t *testing.T) {
	seen := perfect(t)
	seen.Capture = nil
	outcome, err := Join(seen)
	if err != nil {
		t.Fatal(err)
	}
	if len(outcome.Problems) != 0 || outcome.Messages[0].Wire != 0 || outcome.Observed.Received != 3 {
		t.Errorf("problems %q, messages %+v", outcome.Problems, outcome.Messages)
	}
	seen.Received, seen.Departures = seen.Received[1:], seen.Departures[1:]
	if outcome, err = Join(seen); err != nil || len(outcome.Problems) != 2 {
		t.Errorf("problems %q, %v", outcome.Problems, err)
	}
}

func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observation)
		want   []string
	}{
		"a tap that dropped frames makes the run invalid": {
			func(o *Observation) { o.Capture.Drops = 2 }, []string{"the tap dropped 2"}},
		"a time stamp that the link did not take does, too": {
			func(o *Observation) { o.Capture.Packets[3].AtTap = true }, []string{"1 frames got no time stamp"}},
		"a tap that missed a message does, too": {
			func(o *Observation) { o.Capture.Packets = o.Capture.Packets[:4] }, []string{"1 messages arrived that the tap did not see"}},
		"a lost message": {
			func(o *Observation) { o.Received = o.Received[1:] }, []string{"1 messages were lost"}},
		"a message early on the wire": {
			func(o *Observation) { o.Capture.Packets[3].TAI -= 61 }, []string{"1 messages were early"}},
		"a message that ktsnd released early": {
			func(o *Observation) { o.Departures[0].DepartedTAI -= 51 }, []string{"ktsnd released 1 messages before their time"}},
		"a message that never was ktsnd's": {
			func(o *Observation) { o.Departures = o.Departures[:2] }, []string{"ktsnd did not send 1"}},
		"a send call that failed is not a loss": {
			func(o *Observation) {
				o.Talkers[0].Sent[2].Errno = 11
				o.Received, o.Departures = o.Received[:2], o.Departures[:2]
			}, []string{"1 send calls failed"}},
		"a message with bytes changed is lost as well": {
			func(o *Observation) { o.Received[0].Valid = false }, []string{"1 messages arrived with bytes changed", "1 messages were lost"}},
		"a message that came twice": {
			func(o *Observation) { o.Received = append(o.Received, o.Received[0]) }, []string{"1 messages arrived twice"}},
		"a loss behind Open vSwitch is a result": {
			func(o *Observation) {
				o.ViaSwitch = true
				o.Received, o.Departures = o.Received[1:], o.Departures[:2]
			}, nil},
		"a message early behind Open vSwitch": {
			func(o *Observation) {
				o.ViaSwitch = true
				o.Capture.Packets[3].TAI -= 61
			}, []string{"1 messages were early"}},
		"a loss on the kernel's path is a result": {
			func(o *Observation) {
				o.ViaDaemon = false
				o.Received, o.Departures = o.Received[1:], nil
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := perfect(t)
			test.change(seen)
			outcome, err := Join(seen)
			if err != nil {
				t.Fatal(err)
			}
			if len(outcome.Problems) != len(test.want) {
				t.Fatalf("problems: %q, want %q", outcome.Problems, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(outcome.Problems[i], want) {
					t.Errorf("problem %q, want %q", outcome.Problems[i], want)
				}
			}
		})
	}
}

func TestWrongTags(t *testing.T) {
	tagged := func(tag wiretap.VLANTag) *Observation {
		seen := perfect(t)
		seen.VLAN, seen.PCP = 3, 6
		for i := range seen.Capture.Packets {
			seen.Capture.Packets[i].VLAN = &tag
		}
		return seen
	}
	untagged := perfect(t)
	untagged.VLAN, untagged.PCP = 3, 6
	const complaint = "3 messages were on the link without the tag of VLAN 3 and priority 6"
	for name, test := range map[string]struct {
		seen *Observation
		want string
	}{
		"as asked for":     {tagged(wiretap.VLANTag{ID: 3, PCP: 6}), ""},
		"another VLAN":     {tagged(wiretap.VLANTag{ID: 4, PCP: 6}), complaint},
		"another priority": {tagged(wiretap.VLANTag{ID: 3, PCP: 1}), complaint},
		"no tag":           {untagged, complaint},
		"none asked for":   {perfect(t), ""},
	} {
		t.Run(name, func(t *testing.T) {
			outcome, err := Join(test.seen)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(outcome.Problems, "\n"); got != test.want {
				t.Errorf("problems %q, want %q", got, test.want)
			}
		})
	}
}

func TestJoinKeepsValues(t *testing.T) {
	seen := perfect(t)
	seen.Values, seen.Problems = map[string]float64{"flood": 5}, []string{"the flood ended first"}
	outcome, err := Join(seen)
	if err != nil || outcome.Values["flood"] != 5 || len(outcome.Problems) != 1 || outcome.Problems[0] != "the flood ended first" {
		t.Errorf("%+v, %v", outcome, err)
	}
}
