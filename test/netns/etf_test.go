// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// launchClock is a clock of transmit times.
type launchClock struct {
	name string
	id   int32
}

var launchClocks = []launchClock{
	{"tai", unix.CLOCK_TAI}, {"monotonic", unix.CLOCK_MONOTONIC}, {"realtime", unix.CLOCK_REALTIME},
}

// launchCases are the cases of the kernel's own tests of SO_TXTIME with etf: the sent messages with their delays, and
// the arriving ones in order.
var launchCases = []struct {
	name    string
	sent    []string
	arrived []string
	// refused counts the drops that ktsnd must report: drop-txtime.
	refused uint64
}{
	{"one", []string{"10000:a"}, []string{"a"}, 0},
	{"in order", []string{"10000:a", "20000:b"}, []string{"a", "b"}, 0},
	{"the last comes first", []string{"20000:a", "10000:b"}, []string{"b", "a"}, 0},
	{"a time that is past", []string{"0:a"}, nil, 1},
	// The kernel's etf drops it. Here the kernel sends it, without an etf (so-txtime.md).
	{"no time", []string{"-:a"}, []string{"a"}, 0},
}

// launchVariance is the tolerance of the kernel's tests.
const launchVariance = 4 * time.Millisecond

// TestKernelEtfCases runs with the strategy etf only. It does not use undisturbed, which keeps CPUs awake: single
// messages depend on CPUs that sleep.
func TestKernelEtfCases(t *testing.T) {
	timing(t)
	lab, client := newLab6(t, "--strategy", "etf")
	seen := startTracing(t, client)
	for _, clock := range launchClocks {
		for family, address := range map[string]netip.Addr{"IPv4": topology.PodAddressB, "IPv6": podAddress6B} {
			for _, test := range launchCases {
				t.Run(test.name+", "+family+", "+clock.name, func(t *testing.T) {
					for _, complaint := range unlessLate(t, seen, func() []string {
						before := counters(t, client)
						complaints := lab.launch(t, clock, address, test.sent, test.arrived)
						if refused := awaitSettled(t, client).DropTxtime - before.DropTxtime; refused != test.refused {
							complaints = append(complaints, fmt.Sprintf("%d refused for their time, want %d", refused, test.refused))
						}
						return complaints
					}) {
						t.Error(complaint)
					}
				})
			}
		}
	}
}

// unlessLate repeats a check of milliseconds that failed while the machine was late: the sender ran only after its
// message was due, or ktsnd did not run for longer than a message may be late. If that happens each time the check
// fails.
func unlessLate(t *testing.T, seen *tracing, run func() []string) []string {
	t.Helper()
	const (
		attempts = 3
		delta    = 500 * time.Microsecond // ktsnd's default
	)
	for attempt := 1; ; attempt++ {
		began := time.Now()
		complaints := run()
		late := time.Duration(0)
		for _, message := range seen.read(t) {
			late = max(late, time.Duration(message.EndedTAI-message.DueTAI))
		}
		if len(complaints) == 0 || late <= delta || attempt == attempts {
			return complaints
		}
		t.Logf("the machine was late by %v in %v; again: %q", late, time.Since(began), complaints)
	}
}

// tracing traces all messages that ktsnd takes.
type tracing struct {
	client *control.Client
	after  uint64
}

func startTracing(t *testing.T, client *control.Client) *tracing {
	t.Helper()
	must(t, client.TraceStart(t.Context(), "", 0))
	return &tracing{client: client}
}

// read returns the messages that ended since the last call.
func (s *tracing) read(t *testing.T) []control.TracedMessage {
	t.Helper()
	messages, overwritten, err := s.client.TraceRead(t.Context(), s.after)
	if err != nil || overwritten > 0 {
		t.Fatalf("%d messages were overwritten: %v", overwritten, err)
	}
	if len(messages) > 0 {
		s.after = messages[len(messages)-1].Sequence
	}
	return messages
}

// launch sends from pod a and returns how the messages in pod b differ from the expected ones.
func (l *lab) launch(t *testing.T, clock launchClock, to netip.Addr, sent, want []string) (complaints []string) {
	t.Helper()
	listener := l.listenStamped(t, to)
	defer listener.Close()
	ahead := offsetTo(clock.id)
	times := l.handOver(t, append([]string{"--clock", clock.name}, connectedTo(netip.AddrPortFrom(to, listenPort))...), sent)
	arrived, at := stampedTexts(t, listener)
	if !slices.Equal(arrived, want) {
		complaints = append(complaints, fmt.Sprintf("arrived: %q, want %q", arrived, want))
	}
	for i, text := range arrived {
		due, timed := times[text]
		late := time.Duration(at[i] - due - ahead)
		// The difference of the clocks is known to some microseconds.
		if timed && (late < -20*time.Microsecond || late > launchVariance) {
			complaints = append(complaints, fmt.Sprintf("%q arrived %v after its time", text, late))
		}
	}
	return complaints
}

// handOver sends messages from pod a with ktsn-test-send and returns the transmit time of each by its text.
func (l *lab) handOver(t *testing.T, arguments, messages []string) map[string]int64 {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-send"), append(slices.Clone(arguments), messages...)...)
	command.Env = l.preloaded(t)
	var output bytes.Buffer
	command.Stdout = &output
	must(t, finish(t, start(t, l.PodA, "ktsn-test-send", command)))
	times := map[string]int64{}
	lines := strings.Split(strings.TrimSpace(output.String()), "\n")
	if len(lines) != len(messages) {
		t.Fatalf("ktsn-test-send reports %q of %d messages", lines, len(messages))
	}
	for i, line := range lines {
		_, text, _ := strings.Cut(messages[i], ":")
		due, result, _ := strings.Cut(line, " ")
		if result != strconv.Itoa(len(text))+" 0" {
			t.Errorf("sending %q: %s", text, result)
		}
		if at, err := strconv.ParseInt(due, 10, 64); err == nil {
			times[text] = at
		}
	}
	return times
}

// stampedTexts returns texts and CLOCK_TAI of arrivals until nothing more arrives.
func stampedTexts(t *testing.T, listener *net.UDPConn) (all []string, at []int64) {
	t.Helper()
	data, control := make([]byte, 2000), make([]byte, 200)
	for {
		_ = listener.SetReadDeadline(time.Now().Add(afterTheLast))
		length, controlBytes, _, _, err := listener.ReadMsgUDP(data, control)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if waiting(t, listener) {
				continue
			}
			return all, at
		}
		must(t, err)
		all = append(all, string(data[:length]))
		stamp, err := stampOf(control[:controlBytes])
		must(t, err)
		at = append(at, stamp)
	}
}

// TestPeriodicDeadlinesLeaveAtOnce checks that messages handed over well before their deadlines leave at once and not
// when a message of that deadline is expected. Delays of the sender and some of the machine are ignored.
func TestPeriodicDeadlinesLeaveAtOnce(t *testing.T) {
	timing(t)
	const (
		count = 200
		every = 10 * time.Millisecond
		ahead = 5 * time.Millisecond
		// soon is the time for waking up and sending that must remain when a message is handed over.
		soon = time.Millisecond
	)
	lab := newLab(t)
	_, client := lab.startDaemon(t, "--strategy", "etf-deadline")
	seen := startTracing(t, client)
	lab.listenForTexts(t)
	var messages []string
	for i := range count {
		messages = append(messages, fmt.Sprintf("%d:%d", (time.Duration(i+2)*every).Microseconds(), i))
	}
	lab.handOver(t, append([]string{"--deadline", "--ahead", strconv.FormatInt(ahead.Microseconds(), 10)}, connectedTo(atPodB)...), messages)
	awaitSettled(t, client)
	var inTime, atOnce, missed int
	for _, message := range seen.read(t) {
		if time.Duration(message.DueTAI-message.CalledTAI) < soon {
			continue
		}
		inTime++
		switch {
		case strings.HasPrefix(message.Outcome, "drop-"):
			missed++
		case time.Duration(message.EndedTAI-message.CalledTAI) < soon:
			atOnce++
		}
	}
	t.Logf("of %d messages %d were handed over more than %v before their deadlines; %d of these left within that time, %d were dropped",
		count, inTime, soon, atOnce, missed)
	if atOnce < inTime*9/10 || missed > inTime/10 || inTime < count/2 {
		t.Error("nine of ten must leave at once")
	}
}
