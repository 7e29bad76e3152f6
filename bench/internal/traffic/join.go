// SPDX-License-Identifier: Apache-2.0

// Package traffic has what the runs of a bench have in common on all targets: the programs' arguments, and the
// evaluation of each message. It starts no program; the targets do (packages netnstarget and clustertarget).
//
// The files: workload (competing traffic and transmit times), arguments (tsnperf's arguments), gates (the schedule, and
// which frames kept to it), join (the evaluation of each message).
package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// Talker is a measured talker and its sent messages.
type Talker struct {
	RunID uint32
	// Port is the source port of its messages, 0 if there is only one talker.
	Port uint16
	Sent []tsnperf.Sent
}

// Observation is everything observed of one run. Times are CLOCK_TAI.
type Observation struct {
	Talkers  []Talker
	Received []tsnperf.Received
	// Capture is nil in a run whose link was not watched.
	Capture *wiretap.Capture
	// Competing are the numbers of additional talkers that bypassed ktsnd.
	Competing []uint32
	// ViaDaemon: ktsnd sent the run's messages; Late and Departures are its counts, nil if it was not asked. ViaSwitch:
	// ktsnd handed them to Open vSwitch.
	ViaDaemon  bool
	ViaSwitch  bool
	Departures []control.Departure
	Late       *uint64
	CPUCores   map[string]float64
	// ClockError bounds the difference between sending and receiving clock.
	ClockError time.Duration
	// GuestClock is the possible error of virtual machines' clocks; nil with one clock.
	GuestClock *results.ClockError
	// Gates is nil in a run without a schedule.
	Gates *Gates
	// VLAN and PCP are the required tag of the messages' frames on the link; VLAN 0: untagged.
	VLAN int
	PCP  uint8
	// Values are other measurements meanwhile, and Problems lists other reasons why the run is invalid.
	Values   map[string]float64
	Problems []string
}

// Join follows each message from the send call to the listener.
func Join(seen *Observation) (*engine.Outcome, error) {
	var onWire []wireMessage
	if seen.Capture != nil {
		var err error
		if onWire, err = wireMessages(seen.Capture.Packets); err != nil {
			return nil, err
		}
		seen.retime(onWire)
	}
	result := &engine.Outcome{}
	counts := &result.Observed.Counts
	for i := range seen.Talkers {
		seen.joinTalker(i, onWire, result)
	}
	slices.SortStableFunc(result.Messages, func(a, b results.Message) int { return cmp.Compare(a.Txtime, b.Txtime) })
	counts.Lost = counts.Sent - counts.Received
	counts.Late = seen.Late
	var gateProblems []string
	if seen.Gates != nil {
		counts.Gates, gateProblems = seen.Gates.judge(onWire, seen.Departures)
	}
	if len(seen.Competing) > 0 && seen.Capture != nil {
		frames := countIf(onWire, func(m *wireMessage) bool { return slices.Contains(seen.Competing, m.runID) })
		counts.CompetingFrames = &frames
	}
	result.Observed.CPUCores = seen.CPUCores
	result.Values = seen.Values
	result.Problems = slices.Concat(findProblems(seen, result), gateProblems, seen.wrongTags(onWire), seen.Problems)
	return result, nil
}

// retime replaces the times in frames of a virtual machine's messages, which are those of the machine's clock, by
// ktsnd's.
func (o *Observation) retime(onWire []wireMessage) {
	if o.GuestClock == nil {
		return
	}
	for number := range o.Talkers {
		converted := map[uint32]int64{}
		for _, sent := range o.Talkers[number].Sent {
			converted[sent.Sequence] = sent.Txtime
		}
		for i := range onWire {
			if txtime, known := converted[onWire[i].sequence]; known && onWire[i].runID == o.Talkers[number].RunID {
				onWire[i].txtime = txtime
			}
		}
	}
}

// joinTalker follows the messages of one talker.
func (o *Observation) joinTalker(number int, onWire []wireMessage, result *engine.Outcome) {
	talker := &o.Talkers[number]
	counts := &result.Observed.Counts
	wire := wireTimes(onWire, talker.RunID)
	departed := departureTimes(o.Departures, talker.Sent)
	arrivals := arrivalTimes(o.Received, talker.Port, counts)
	for _, sent := range talker.Sent {
		message := results.Message{
			Talker:    number,
			Sequence:  sent.Sequence,
			Txtime:    sent.Txtime,
			SendStart: sent.SendStart,
			SendEnd:   sent.SendEnd,
			Departed:  departed[sent.Txtime],
			Wire:      wire[sent.Sequence],
			Arrival:   arrivals[sent.Sequence],
			Errno:     sent.Errno,
			Asked:     sent.Asked,
		}
		result.Messages = append(result.Messages, message)
		o.count(counts, &message)
	}
}

// departureTimes returns when each message left, by its transmit time.
func departureTimes(departures []control.Departure, sent []tsnperf.Sent) map[int64]int64 {
	planned := make(map[int64]bool, len(sent))
	for _, message := range sent {
		planned[message.Txtime] = true
	}
	times := map[int64]int64{}
	for _, departure := range ofLargestFlow(departures, func(d *control.Departure) bool { return planned[d.RequestedTAI] }) {
		times[departure.RequestedTAI] = departure.DepartedTAI
	}
	return times
}

// ofLargestFlow returns the matching departures of the flow that has most of them: messages of other sockets may have the
// same times.
func ofLargestFlow(departures []control.Departure, matches func(*control.Departure) bool) []control.Departure {
	byFlow := map[uint64][]control.Departure{}
	var largest uint64
	for i := range departures {
		if !matches(&departures[i]) {
			continue
		}
		flow := departures[i].Flow
		byFlow[flow] = append(byFlow[flow], departures[i])
		if len(byFlow[flow]) > len(byFlow[largest]) {
			largest = flow
		}
	}
	return byFlow[largest]
}

// wireMessage is a message of tsnperf as the tap saw it.
type wireMessage struct {
	runID, sequence uint32
	txtime, tai     int64
	tag             *wiretap.VLANTag
}

// wireMessages returns the messages among the frames in order of arrival.
func wireMessages(packets []wiretap.Packet) ([]wireMessage, error) {
	messages := make([]wireMessage, 0, len(packets))
	for _, packet := range packets {
		datagram, err := wiretap.Dissect(packet.Head)
		if errors.Is(err, wiretap.ErrOther) {
			continue // ARP inside the tunnel
		}
		if err != nil {
			return nil, err
		}
		message, err := tsnperf.DecodeMessage(datagram.Payload)
		if errors.Is(err, tsnperf.ErrNotAMessage) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("dissect frame: %w", err)
		}
		messages = append(messages, wireMessage{message.RunID, message.Sequence, message.Txtime, packet.TAI, cmp.Or(packet.VLAN, datagram.VLAN)})
	}
	return messages, nil
}

// wrongTags reports messages without the required VLAN tag.
func (o *Observation) wrongTags(onWire []wireMessage) []string {
	if o.VLAN == 0 {
		return nil
	}
	want := wiretap.VLANTag{ID: uint16(o.VLAN), PCP: o.PCP}
	wrong := countIf(onWire, func(m *wireMessage) bool {
		measured := slices.ContainsFunc(o.Talkers, func(talker Talker) bool { return talker.RunID == m.runID })
		return measured && (m.tag == nil || *m.tag != want)
	})
	if wrong == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d messages were on the link without the tag of VLAN %d and priority %d", wrong, want.ID, want.PCP)}
}

// wireTimes returns when each message of the run was first on the wire.
func wireTimes(messages []wireMessage, runID uint32) map[uint32]int64 {
	times := map[uint32]int64{}
	for _, message := range messages {
		if _, known := times[message.sequence]; message.runID == runID && !known {
			times[message.sequence] = message.tai
		}
	}
	return times
}

// arrivalTimes returns when each message from a port arrived first, and counts corrupt and duplicate ones.
func arrivalTimes(received []tsnperf.Received, port uint16, counts *results.Counts) map[uint32]int64 {
	times := make(map[uint32]int64, len(received))
	for _, message := range received {
		_, known := times[message.Sequence]
		switch {
		case port != 0 && message.Source.Port() != port:
		case !message.Valid:
			counts.Corrupt++
		case known:
			counts.Duplicated++
		default:
			times[message.Sequence] = message.Arrival
		}
	}
	return times
}

func (o *Observation) count(counts *results.Counts, message *results.Message) {
	if message.Errno != 0 {
		counts.SendErrors++
		return
	}
	counts.Sent++
	if !message.InTime() {
		counts.HandedOverLate++
	}
	if message.Arrival != 0 {
		counts.Received++
	}
	if seen := o.firstSeen(message); seen != 0 && seen < message.Txtime {
		counts.Early++
	}
}

// firstSeen returns the first time when a message had certainly left the talker's node: on the wire or, if that was not
// watched, at the listener; 0 if never.
func (o *Observation) firstSeen(message *results.Message) int64 {
	if o.Capture != nil || message.Arrival == 0 {
		return message.Wire
	}
	return message.Arrival + o.ClockError.Nanoseconds()
}

// findProblems judges a run. A message lost by a kernel path or Open vSwitch is a result, and ktsnd drops frames that
// Open vSwitch does not fetch in time; another loss by ktsnd is a failure; a gap in the observation makes the run
// invalid.
func findProblems(seen *Observation, result *engine.Outcome) []string {
	counts := result.Observed.Counts
	messages := result.Messages
	problems := []string{}
	complain := func(number int, format string) {
		if number > 0 {
			problems = append(problems, fmt.Sprintf(format, number))
		}
	}
	if seen.Capture != nil {
		unseen := countIf(messages, func(m *results.Message) bool { return m.Arrival != 0 && m.Wire == 0 })
		atTap := countIf(seen.Capture.Packets, func(p *wiretap.Packet) bool { return p.AtTap })
		complain(int(seen.Capture.Drops), "the tap dropped %d frames, so the run is invalid")
		complain(atTap, "%d frames got no time stamp from the link, so the run is invalid")
		complain(unseen, "%d messages arrived that the tap did not see, so the run is invalid")
	}
	complain(counts.SendErrors, "%d send calls failed")
	complain(counts.Corrupt, "%d messages arrived with bytes changed")
	complain(counts.Duplicated, "%d messages arrived twice")
	if seen.ViaDaemon {
		if seen.Departures != nil && !seen.ViaSwitch {
			unrecorded := countIf(messages, func(m *results.Message) bool { return m.Errno == 0 && m.Departed == 0 })
			complain(unrecorded, "ktsnd did not send %d messages that were handed to it")
		}
		hasty := countIf(messages, func(m *results.Message) bool { return m.Departed != 0 && m.Departed < m.Txtime })
		complain(hasty, "ktsnd released %d messages before their time")
		if !seen.ViaSwitch {
			complain(counts.Lost, "%d messages were lost")
		}
		complain(counts.Early, "%d messages were early")
	}
	return problems
}

func countIf[T any](all []T, matches func(*T) bool) int {
	number := 0
	for i := range all {
		if matches(&all[i]) {
			number++
		}
	}
	return number
}
