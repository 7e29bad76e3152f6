// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/bench/engine"
	"github.com/kubernetsn/kubernetsn/internal/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/bench/traffic"
	"github.com/kubernetsn/kubernetsn/internal/bench/tsnperf"
)

const (
	// startAhead is how far ahead the first messages of several talkers are, so that all are there by then: a program
	// in a pod takes some hundred milliseconds to start. One talker alone begins shortly after it has started.
	startAhead = 1500 * time.Millisecond
	aloneAhead = "+200ms"
	// ktsn is beside ktsnd in its image.
	ktsn = "/usr/bin/ktsn"
)

// Perform makes one run.
func (l *Target) Perform(ctx context.Context, run engine.Run) (*engine.Outcome, error) {
	outcome, err := l.perform(ctx, run)
	if err != nil {
		return nil, err
	}
	outcome.Usage, err = l.usage(ctx)
	return outcome, err
}

func (l *Target) perform(ctx context.Context, r engine.Run) (*engine.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Duration()+traffic.RunGrace)
	defer cancel()
	seen := &traffic.Observation{Talkers: traffic.Talkers(r, l.lastRunID+1), ViaDaemon: results.ThroughKtsnd(r.Path),
		CPUCores: map[string]float64{}, ClockError: l.clocks.worst}
	l.lastRunID += uint32(r.Talkers)
	before, err := l.lateSoFar(ctx, r)
	if err != nil {
		return nil, err
	}
	beside, err := l.traffic(ctx, r, seen)
	if err != nil {
		return nil, err
	}
	after, err := l.lateSoFar(ctx, r)
	if err != nil {
		return nil, err
	}
	seen.Late = lateSince(before, after, seen.Talkers)
	outcome, err := traffic.Join(seen)
	if err != nil {
		return nil, err
	}
	outcome.Observed.CompetingFrames = beside
	return outcome, nil
}

// traffic runs listener, companions and talkers. It returns how many messages of the companions arrived.
func (l *Target) traffic(ctx context.Context, r engine.Run, seen *traffic.Observation) (*int, error) {
	pair := endsOf(r.Path)
	address, err := addressOf(l.pods[pair.listener], r.Path)
	if err != nil {
		return nil, err
	}
	arguments := append([]string{program}, traffic.Listener(r, seen.Talkers, address, l.pinning.Listener)...)
	listener, err := l.start(ctx, "tsnperf listener", l.pods[pair.listener], container,
		append(arguments, "--csv", "/dev/stdout", "--ready-fd", "2")...)
	if err != nil {
		return nil, err
	}
	if err := listener.awaitReady(ctx); err != nil {
		return nil, err
	}
	beside, err := l.startCompanions(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := l.talk(ctx, r, seen, l.pods[pair.talker], address); err != nil {
		return nil, err
	}
	if err := listener.wait(ctx); err != nil {
		return nil, err
	}
	if seen.Received, err = tsnperf.ReadListener(strings.NewReader(listener.stdout.String())); err != nil {
		return nil, err
	}
	return beside.finish(ctx)
}

// talk runs the measured talkers to their ends.
func (l *Target) talk(ctx context.Context, r engine.Run, seen *traffic.Observation, pod *corev1.Pod, to netip.Addr) error {
	begin := aloneAhead
	if r.Talkers > 1 { // a common beginning, by the clock of their node
		begin = strconv.FormatInt(time.Now().Add(startAhead+l.clocks.last.ahead).UnixNano(), 10)
	}
	talkers := make([]*started, len(seen.Talkers))
	for i := range seen.Talkers {
		arguments := append([]string{program, "talker", "--quiet", "--clock", "tai", "--start", begin},
			traffic.MeasuredTalker(r, i, to)...)
		arguments = append(arguments, traffic.Records(seen.Talkers[i].RunID, "/dev/stdout")...)
		arguments = append(arguments, traffic.CPU(l.pinning.Sender)...)
		if !results.ThroughKtsnd(r.Path) {
			arguments = append(arguments, "--no-txtime")
		}
		if port := seen.Talkers[i].Port; port != 0 {
			from, err := addressOf(pod, r.Path)
			if err != nil {
				return err
			}
			arguments = append(arguments, "--bind", netip.AddrPortFrom(from, port).String())
		}
		var err error
		if talkers[i], err = l.start(ctx, "tsnperf talker", pod, container, arguments...); err != nil {
			return err
		}
	}
	for i, talker := range talkers {
		if err := talker.wait(ctx); err != nil {
			return err
		}
		var err error
		if seen.Talkers[i].Sent, err = tsnperf.ReadTalker(strings.NewReader(talker.stdout.String())); err != nil {
			return err
		}
	}
	return nil
}

// counted is what ktsnd of the talkers' node has counted so far, of all pods there.
type counted struct{ late, sent uint64 }

// lateSince is how many of a run's messages ktsnd counted as late; nil when nobody knows, because it could not be asked, began
// anew, or sent messages of others meanwhile.
func lateSince(before, after *counted, talkers []traffic.Talker) *uint64 {
	if before == nil || after == nil || after.late < before.late || after.sent < before.sent {
		return nil
	}
	var handed uint64
	for i := range talkers {
		for _, message := range talkers[i].Sent {
			if message.Errno == 0 {
				handed++
			}
		}
	}
	if after.sent-before.sent > handed {
		return nil
	}
	since := after.late - before.late
	return &since
}

// lateSoFar asks ktsnd of the talkers' node what it has counted; nil when it cannot be asked, or has no part in the run.
func (l *Target) lateSoFar(ctx context.Context, r engine.Run) (*counted, error) {
	if l.ktsnd == nil || !results.ThroughKtsnd(r.Path) {
		return nil, nil
	}
	text, err := l.run(ctx, "ktsn status", l.ktsnd, ktsndContainer, ktsn, "status", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("ask ktsnd what was late: %w", err)
	}
	return readLate(text)
}

// readLate adds up why messages were late.
func readLate(text string) (*counted, error) {
	var state struct {
		Status *struct {
			Counters map[string]uint64 `json:"counters"`
		} `json:"status"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return nil, fmt.Errorf("understand `ktsn status -o json`: %w", err)
	}
	if state.Status == nil {
		return nil, errors.New("understand `ktsn status -o json`: it has no status")
	}
	sum := counted{sent: state.Status.Counters["sent"]}
	for name, count := range state.Status.Counters {
		if strings.HasPrefix(name, "late-") {
			sum.late += count
		}
	}
	return &sum, nil
}
