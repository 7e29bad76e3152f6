// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstestbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	// timedStart is the time from a talker's start to its first message: the listener is ready by then.
	timedStart = 500 * time.Millisecond
	// timedOverhead is the duration of a case without its messages.
	timedOverhead = timedStart + 500*time.Millisecond
	timedGrace    = 30 * time.Second
)

// Names of engine.Outcome.Values and Samples.
const (
	sampleDeparted = "departure_error_ns"
	sampleLatency  = "latency_ns"
	valueLost      = "lost"
	valueEarly     = "early"
	valueOthers    = "not_by_ktsnd"
)

// timedPaths are those on which ktsnd sends.
func timedPaths(profile *engine.Profile) []string {
	return slices.DeleteFunc(slices.Clone(profile.Paths), func(path string) bool { return path != testbed.Link && path != testbed.TSN })
}

// performTimed makes a talker send messages with a transmit time, and records when each left and arrived.
func (e *Experiment) performTimed(ctx context.Context, here *netnstestbed.Testbed, near, far testbed.End) (*engine.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.Messages)*e.Cycle+timedGrace)
	defer cancel()
	networks := here.Networks()
	before, err := networks.Departures(ctx, 0)
	if err != nil {
		return nil, err
	}
	outcome := &engine.Outcome{Values: map[string]float64{}, Said: map[string]string{}}
	var received []tsnperf.Received
	err = testbed.Observe(ctx, here, outcome, func() (err error) {
		received, err = e.messages(ctx, filepath.Join(networks.Dir(), "listener.csv"), near, far)
		return err
	})
	if err != nil {
		return nil, err
	}
	departures, err := networks.Departures(ctx, lastOf(before))
	if err != nil {
		return nil, err
	}
	e.count(outcome, received, departures)
	return outcome, nil
}

func lastOf(departures []control.Departure) uint64 {
	if len(departures) == 0 {
		return 0
	}
	return departures[len(departures)-1].Sequence
}

// messages sends them and returns the arrived ones.
func (e *Experiment) messages(ctx context.Context, file string, near, far testbed.End) ([]tsnperf.Received, error) {
	to := netip.AddrPortFrom(far.Address(), traffic.ListenPort).String()
	listener, err := far.Start(ctx, &testbed.Command{Name: "listener", Program: "tsnperf", Arguments: []string{"listener", "--poll", "--quiet",
		"--bind", to, "--count", strconv.Itoa(e.Messages), "--csv", file, "--first-timeout", "10s", "--idle-timeout", "2s"}})
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = listener.Stop() }()
	talker, err := near.Start(ctx, &testbed.Command{Name: "talker", Program: "tsnperf", Arguments: []string{"talker", "--quiet",
		"--start", "+" + traffic.Nanoseconds(timedStart), "--to", to, "--count", strconv.Itoa(e.Messages), "--size", strconv.Itoa(e.PayloadBytes),
		"--cycle", traffic.Nanoseconds(e.Cycle), "--lead", traffic.Nanoseconds(e.Lead)}})
	if err != nil {
		return nil, err
	}
	for _, program := range []testbed.Program{talker, listener} {
		if output, err := program.Wait(ctx); err != nil {
			return nil, fmt.Errorf("%w: %s", err, output)
		}
	}
	content, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return tsnperf.ReadListener(content)
}

// count evaluates the messages.
func (e *Experiment) count(outcome *engine.Outcome, received []tsnperf.Received, departures []control.Departure) {
	errors, latencies, early := make([]int64, 0, len(departures)), make([]int64, 0, len(received)), 0
	for i := range departures {
		errors = append(errors, departures[i].DepartedTAI-departures[i].RequestedTAI)
	}
	for i := range received {
		latencies = append(latencies, received[i].Arrival-received[i].Txtime)
		if received[i].Arrival < received[i].Txtime {
			early++
		}
	}
	outcome.Samples = map[string][]int64{sampleDeparted: errors, sampleLatency: latencies}
	outcome.Values[valueLost], outcome.Values[valueEarly] = float64(e.Messages-len(received)), float64(early)
	outcome.Values[valueOthers] = float64(e.Messages - len(departures))
	for _, name := range []string{valueLost, valueEarly, valueOthers} {
		if got := outcome.Values[name]; got != 0 {
			outcome.Problems = append(outcome.Problems, fmt.Sprintf("%.0f of %d messages count as %s", got, e.Messages, name))
		}
	}
}
