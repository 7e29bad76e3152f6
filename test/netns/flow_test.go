// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// flow is a talker and its own listener.
type flow struct {
	talker, listener         *process.Process
	talkerFile, listenerFile string
	// sent and received are their reports, read at their end.
	sent     []tsnperf.Sent
	received []tsnperf.Received
}

// atPodB is the address of listeners of pod b that need no address of their own.
var atPodB = netip.AddrPortFrom(topology.PodAddressB, listenPort)

// listenFor starts the listener of a flow, which ends after count messages, and returns when it listens. The caller
// starts the talker.
func listenFor(t *testing.T, pod *topology.Namespace, at netip.AddrPort, count int) *flow {
	t.Helper()
	dir := t.TempDir()
	f := &flow{talkerFile: filepath.Join(dir, "talker.csv"), listenerFile: filepath.Join(dir, "listener.csv")}
	f.listener = startListener(t, pod, at, count, f.listenerFile)
	return f
}

// startFlow starts a flow from pod a to pod b that runs until end or stop.
func (l *lab) startFlow(t *testing.T, options ...string) *flow {
	t.Helper()
	return l.startFlowTo(t, atPodB, options...)
}

// startFlowTo is startFlow for a listener bound to the given address.
func (l *lab) startFlowTo(t *testing.T, at netip.AddrPort, options ...string) *flow {
	t.Helper()
	f := listenFor(t, l.PodB, at, unlimited)
	f.talker = l.startTalker(t, f.talkerFile, append([]string{"--to", at.String()}, options...)...)
	return f
}

// end stops the talker, waits until ktsnd has finished all its messages, and reads both reports. It returns ktsnd's
// counters, which are final if no other application sends.
func (f *flow) end(t *testing.T, client *control.Client) control.Counters {
	t.Helper()
	interrupt(t, f.talker)
	counted := awaitSettled(t, client)
	f.drain(t)
	return counted
}

// stop is end while other applications continue.
func (f *flow) stop(t *testing.T) {
	t.Helper()
	interrupt(t, f.talker)
	f.drain(t)
}

// drain ends the listener when it has received everything, and reads both reports.
func (f *flow) drain(t *testing.T) {
	t.Helper()
	drain(t, f.listener)
	f.read(t)
}

// finish waits until both have ended, and reads both reports.
func (f *flow) finish(t *testing.T) {
	t.Helper()
	for _, running := range []*process.Process{f.talker, f.listener} {
		must(t, finish(t, running))
	}
	f.read(t)
}

func (f *flow) read(t *testing.T) {
	t.Helper()
	f.sent, f.received = testlab.ReadFile(t, f.talkerFile, tsnperf.ReadTalker), testlab.ReadFile(t, f.listenerFile, tsnperf.ReadListener)
}

// sum adds up the counters of all incarnations of ktsnd.
type sum struct{ uncertain, dropped, late, astray uint64 }

func (s *sum) add(counted control.Counters) {
	s.uncertain += counted.Uncertain
	s.dropped += counted.Dropped()
	s.late += counted.Late()
	s.astray += counted.KernelPath
}

// checkConserved checks that each sent message arrived once and not early, or is uncertain: no ktsnd dropped any.
func (f *flow) checkConserved(t *testing.T, counted sum) {
	t.Helper()
	missing := map[uint32]bool{}
	for i, message := range f.sent {
		switch errno := syscall.Errno(message.Errno); {
		case errno == 0:
			missing[message.Sequence] = true
		case errno != syscall.EINTR || i != len(f.sent)-1: // interrupted by the signal that ended the talker
			t.Errorf("the call for message %d gave %v", message.Sequence, errno)
		}
	}
	arrived := map[uint32]bool{}
	for _, message := range f.received {
		switch {
		case arrived[message.Sequence]:
			t.Errorf("message %d arrived twice", message.Sequence)
		case !message.Valid || !missing[message.Sequence]:
			t.Errorf("message %d was never sent so", message.Sequence)
		case message.Arrival < message.Txtime:
			t.Errorf("message %d arrived %d ns before its time", message.Sequence, message.Txtime-message.Arrival)
		}
		arrived[message.Sequence] = true
		delete(missing, message.Sequence)
	}
	if uint64(len(missing)) > counted.uncertain+counted.dropped {
		t.Errorf("%d of %d messages are missing, %d of them uncertain and %d dropped", len(missing), len(f.sent),
			counted.uncertain, counted.dropped)
	}
	if counted.astray != 0 || counted.dropped != 0 {
		t.Errorf("%d messages went the kernel's way, %d were dropped", counted.astray, counted.dropped)
	}
	t.Logf("%d sent, %d received, %d late, %d uncertain", len(f.sent), len(arrived), counted.late, counted.uncertain)
}

// checkNoneLost is checkConserved without kills: no message is uncertain.
func (f *flow) checkNoneLost(t *testing.T, counted sum) {
	t.Helper()
	if counted.uncertain != 0 {
		t.Errorf("%d messages are uncertain", counted.uncertain)
	}
	f.checkConserved(t, counted)
}

// lost returns the numbers of lost messages and fails if any arrived twice.
func (f *flow) lost(t *testing.T) []uint32 {
	t.Helper()
	came := map[uint32]bool{}
	for _, message := range f.received {
		if came[message.Sequence] {
			t.Errorf("message %d arrived twice", message.Sequence)
		}
		came[message.Sequence] = true
	}
	var lost []uint32
	for _, message := range f.sent {
		if message.Errno == 0 && !came[message.Sequence] {
			lost = append(lost, message.Sequence)
		}
	}
	return lost
}

// checkWentOn checks that messages arrived until the end, except for the last few.
func (f *flow) checkWentOn(t *testing.T, few uint32) {
	t.Helper()
	if last := f.sent[len(f.sent)-2].Sequence; len(f.received) == 0 || f.received[len(f.received)-1].Sequence < last-few {
		t.Error("the last messages have not arrived")
	}
}

// departedAt returns when each transmit time's message departed.
func departedAt(t *testing.T, client *control.Client) map[int64]int64 {
	t.Helper()
	departures, overwritten, err := client.Departures(t.Context(), 0)
	if err != nil || overwritten > 0 {
		t.Fatalf("%d departures were overwritten, error %v", overwritten, err)
	}
	departed := map[int64]int64{}
	for _, departure := range departures {
		departed[departure.RequestedTAI] = departure.DepartedTAI
	}
	return departed
}
