// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	// startAhead is how far ahead the first messages of several talkers are, so that all are running by then: a program
	// in a pod takes some hundred milliseconds to start. A single talker begins shortly after its start.
	startAhead = 1500 * time.Millisecond
	aloneAhead = "+200ms"
)

// Perform performs one run.
func (l *Target) Perform(ctx context.Context, run engine.Run) (*engine.Outcome, error) {
	outcome, err := l.performWatched(ctx, run)
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
		CPUCores: map[string]float64{}, ClockError: l.earlyError()}
	l.lastRunID += uint32(r.Talkers)
	before, err := l.countSoFar(ctx, r)
	if err != nil {
		return nil, err
	}
	beside, err := l.traffic(ctx, r, seen)
	if err != nil {
		return nil, err
	}
	after, err := l.countSoFar(ctx, r)
	if err != nil {
		return nil, err
	}
	since(before, after, seen.Talkers).note(r, seen)
	outcome, err := traffic.Join(seen)
	if err != nil {
		return nil, err
	}
	outcome.Observed.CompetingFrames = beside
	return outcome, nil
}

// earlyError is how much too early a message may seem to have arrived.
func (l *Target) earlyError() time.Duration {
	if l.oneClock {
		return 0
	}
	return l.clocks.worst
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
		arguments = append(arguments, "--cpu-time", "/dev/stderr")
		arguments = append(arguments, traffic.CPU(l.pinning.Sender)...)
		arguments = append(arguments, l.scheduling.arguments(r)...)
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
		busy, err := tsnperf.ReadCPUTime(strings.NewReader(talker.stderr.String()))
		if err != nil {
			return err
		}
		seen.CPUCores["talker"] += shareOf(busy, r)
		if seen.Talkers[i].Sent, err = tsnperf.ReadTalker(strings.NewReader(talker.stdout.String())); err != nil {
			return err
		}
	}
	return nil
}
