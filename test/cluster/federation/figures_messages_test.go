// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const (
	messageTurns = 6
	// messagesATurn messages leave, one each messageCycle, and are handed over with this lead.
	messagesATurn = 2000
	messageCycle  = time.Millisecond
	messageLead   = "2500us"
	messagePort   = "7788"
	// traceBegins is how long ktsnd may take to begin to trace messages.
	traceBegins = 500 * time.Millisecond
)

// timed has the results of the messages of one or more turns.
type timed struct {
	sent, arrived, early, late int
	// Departures are from the transmit time until ktsnd released the message, latencies until it arrived, in
	// nanoseconds.
	departures, latencies []int64
}

func (m *timed) add(more timed) {
	m.sent, m.arrived, m.early, m.late = m.sent+more.sent, m.arrived+more.arrived, m.early+more.early, m.late+more.late
	m.departures, m.latencies = append(m.departures, more.departures...), append(m.latencies, more.latencies...)
}

// listen starts a listener for count messages, which ends when none came for idle.
func (s *station) listen(ctx context.Context, t *testing.T, count int, idle time.Duration) *kube.Program {
	t.Helper()
	listening := s.start(ctx, perf, "/usr/bin/tsnperf", "listener", "--bind", "0.0.0.0:"+messagePort, "--count", strconv.Itoa(count), "--block",
		"--first-timeout", "30s", "--idle-timeout", fmt.Sprintf("%.0fs", idle.Seconds()), "--csv", "/dev/stdout", "--ready-fd", "2", "--quiet")
	if err := listening.HasBegun(); err != nil {
		t.Fatal(err)
	}
	return listening
}

// talk sends count messages to a station.
func (s *stations) talk(ctx context.Context, to *station, count int, cycle time.Duration) *kube.Program {
	return s.from.start(ctx, perf, "/usr/bin/tsnperf", "talker", "--to", to.address.String()+":"+messagePort, "--count", strconv.Itoa(count),
		"--cycle", cycle.String(), "--lead", messageLead, "--start", "+200ms", "--csv", "/dev/stdout", "--quiet")
}

// records returns the records of both ends.
func records(t *testing.T, talking, listening *kube.Program) (sent []tsnperf.Sent, received []tsnperf.Received) {
	t.Helper()
	text, err := talking.Said()
	if err == nil {
		sent, err = tsnperf.ReadTalker(strings.NewReader(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err = listening.Said()
	if err == nil {
		received, err = tsnperf.ReadListener(strings.NewReader(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	return sent, received
}

// turn sends the messages of a turn to a station, and traces them in ktsnd.
func (s *stations) turn(ctx context.Context, t *testing.T, to *station) timed {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, clustertest.Patience)
	defer cancel()
	tracing := kube.Begin(ctx, s.from.config, s.from.client, s.ktsnd, "/usr/bin/ktsn", "trace", "--output", "json", "--count", strconv.Itoa(messagesATurn))
	listening := to.listen(ctx, t, messagesATurn, 3*time.Second)
	time.Sleep(traceBegins)
	sent, received := records(t, s.talk(ctx, to, messagesATurn, messageCycle), listening)
	text, err := tracing.Said()
	if err != nil {
		t.Fatal(err)
	}
	seen := timed{sent: accepted(sent), arrived: len(received)}
	for _, message := range received {
		if !message.Valid {
			t.Errorf("message %d was changed on its way", message.Sequence)
		}
		seen.latencies = append(seen.latencies, message.Arrival-message.Txtime)
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		var message control.TracedMessage
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			t.Fatal(err)
		}
		if !message.Sent() {
			continue
		}
		seen.departures = append(seen.departures, message.EndedTAI-message.DueTAI)
		if message.EndedTAI < message.DueTAI {
			seen.early++
		}
		if strings.HasPrefix(message.Outcome, "late-") {
			seen.late++
		}
	}
	return seen
}

// accepted counts messages that the send call accepted.
func accepted(sent []tsnperf.Sent) (count int) {
	for _, message := range sent {
		if message.Errno == 0 {
			count++
		}
	}
	return count
}

// messages compares timed messages to another node of the cluster with those to another cluster.
func (s *stations) messages(ctx context.Context, t *testing.T) {
	var within, across timed
	var departures, latencies [2][]float64
	for turn := range times(messageTurns) {
		both := []struct {
			to  *station
			all *timed
		}{{s.near, &within}, {s.far, &across}}
		for i := range both {
			at := (turn + i) % len(both)
			seen := s.turn(ctx, t, both[at].to)
			both[at].all.add(seen)
			departures[at] = append(departures[at], microseconds(stats.Summarize(seen.departures).P50))
			latencies[at] = append(latencies[at], microseconds(stats.Summarize(seen.latencies).P50))
		}
	}
	b := s.bench
	b.add(t,
		over("timed messages across: lost", "", float64(across.sent-across.arrived)).most(0),
		over("timed messages across: early", "", float64(across.early)).most(0),
		ratioOfMedians("timed messages: departure p50 across ÷ within one cluster", departures[1], departures[0]).most(1.1),
		over("timed messages: departure p50 across", "µs", departures[1]...),
		over("timed messages: departure p50 within", "µs", departures[0]...),
	)
	rows := [][]string{{"messages", "sent", "arrived", "early", "late by ktsnd", "departure error µs: p50, p99, most", "latency µs: p50, p99, most"}}
	for name, all := range map[string]*timed{"across": &across, "within": &within} {
		left, came := stats.Summarize(all.departures), stats.Summarize(all.latencies)
		rows = append(rows, []string{name, strconv.Itoa(all.sent), strconv.Itoa(all.arrived), strconv.Itoa(all.early), strconv.Itoa(all.late),
			spread(left), spread(came)})
	}
	b.section("Timed messages", fmt.Sprintf("%d messages of 64 B a turn, one a millisecond, handed over 2.5 ms ahead, by a pod of east's first node: within to a pod of its second node,\nacross to a pod of west. "+
		"Both go over the wire. The departure error is ktsnd's (`ktsn trace`). Listeners sleep until a message comes, so that\nlatencies have their wake-up.", messagesATurn), rows)
}

func microseconds(ns int64) float64 { return float64(ns) / 1e3 }

func spread(summary *stats.Summary) string {
	return fmt.Sprintf("%s, %s, %s", number(microseconds(summary.P50)), number(microseconds(summary.P99)), number(microseconds(summary.Max)))
}
