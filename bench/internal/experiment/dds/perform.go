// SPDX-License-Identifier: Apache-2.0

package dds

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/ddsperf"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

// The names of values.
const (
	valueBps      = "throughput_bps" // a subscriber's mean, of payload
	valueSamples  = "samples_per_second"
	valueLost     = "lost_share"
	valueMean     = "latency_mean_ns" // half of a round trip, over all subscribers
	valueP50      = "latency_p50_ns"
	valueP90      = "latency_p90_ns"
	valueP99      = "latency_p99_ns"
	valueTimeouts = "timeouts"
	// The usage of processes; for subscribers, all together.
	valuePublisherCores    = "publisher" + testbed.Cores
	valueSubscribersCores  = "subscribers" + testbed.Cores
	valuePublisherMemory   = "publisher_memory_bytes"
	valueSubscribersMemory = "subscribers_memory_bytes"
)

// Perform performs one case.
func (e *Experiment) Perform(ctx context.Context, target engine.Target, profile *engine.Profile, c *engine.Case) (*engine.Outcome, error) {
	kinds := e.kinds(profile)
	at := slices.IndexFunc(kinds, func(other on) bool { return other.name() == c.Name })
	if at < 0 {
		return nil, fmt.Errorf("the profile has no case %s", c.Name)
	}
	k := kinds[at].kind
	here, err := testbed.From(target)
	if err != nil {
		return nil, err
	}
	near, far, err := here.Ends(ctx, c.Path, 0, k.subscribers)
	if err != nil {
		return nil, err
	}
	run := &run{kind: k, near: near, far: far, outcome: &engine.Outcome{Values: map[string]float64{}, Said: map[string]string{}},
		test: ddsperf.Test{Latency: k.measure == latency, BestEffort: k.bestEffort, SampleBytes: k.bytes, Subscribers: k.subscribers, Duration: e.Duration}}
	if run.security, err = e.securityAt(ctx, k.level); err != nil {
		return nil, err
	}
	if run.peers, err = peers(ctx, here, c.Path, near, far); err != nil {
		return nil, err
	}
	if err := testbed.Observe(ctx, here, run.outcome, func() error { return run.perform(ctx) }); err != nil {
		return nil, err
	}
	return run.outcome, nil
}

func (e *Experiment) securityAt(ctx context.Context, level string) (*ddsperf.Security, error) {
	if level == ddsperf.NoSecurity {
		return nil, nil
	}
	if e.authority == nil {
		var err error
		if e.authority, err = ddsperf.NewAuthority(time.Now()); err != nil {
			return nil, err
		}
	}
	return e.authority.At(ctx, level)
}

// peers are the addresses at which participants search each other: the testbed's discovery, or the addresses of the
// ends.
func peers(ctx context.Context, here testbed.Testbed, path string, near testbed.End, far []testbed.End) ([]netip.Addr, error) {
	if finder, ok := here.(testbed.Finder); ok {
		return finder.Find(ctx, path, near, far)
	}
	all := []netip.Addr{near.Address()}
	for _, end := range far {
		if !slices.Contains(all, end.Address()) {
			all = append(all, end.Address())
		}
	}
	return all, nil
}

// run is a running case.
type run struct {
	kind
	near     testbed.End
	far      []testbed.End
	peers    []netip.Addr
	security *ddsperf.Security
	test     ddsperf.Test
	outcome  *engine.Outcome
}

func (r *run) start(ctx context.Context, at testbed.End, name string, arguments []string) (testbed.Program, error) {
	config := ddsperf.Config{Address: at.Address(), Multicast: r.multicast, Peers: r.peers, OneSampleBytes: r.bytes, Security: r.security}
	text, err := config.XML()
	if err != nil {
		return nil, err
	}
	return at.Start(ctx, &testbed.Command{Name: name, Program: ddsperf.Program, Package: ddsperf.Package, Arguments: arguments,
		Environment: []string{ddsperf.Environment + "=" + string(text)}})
}

func (r *run) perform(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.test.Longest()+time.Minute)
	defer cancel()
	var all []testbed.Program
	stopped := false
	defer func() {
		for _, subscriber := range all {
			if !stopped {
				_, _ = subscriber.Stop()
			}
		}
	}()
	for i, end := range r.far {
		subscriber, err := r.start(ctx, end, fmt.Sprintf("ddsperf subscriber %d", i+1), r.test.Subscriber())
		if err != nil {
			return err
		}
		all = append(all, subscriber)
	}
	publisher, err := r.start(ctx, r.near, "ddsperf publisher", r.test.Publisher())
	if err != nil {
		return err
	}
	output, errEnd := publisher.Wait(ctx)
	stopped = true
	received, errStop := stopAll(all)
	r.outcome.Values = withMemory(r.outcome.Values, publisher, all)
	if err := r.published(output); err != nil {
		return testbed.Because(err, errEnd)
	}
	if err := errors.Join(ctx.Err(), errStop); err != nil {
		return err
	}
	if errEnd != nil { // without a reason: the subscribers' counts so far are used
		r.outcome.Problems = append(r.outcome.Problems, fmt.Sprintf("the publisher did not publish to the end: %v", errEnd))
	}
	return r.received(received)
}

// withMemory adds the peak memory of processes, if the testbed knows it.
func withMemory(values map[string]float64, publisher testbed.Program, all []testbed.Program) map[string]float64 {
	if bytes, ok := testbed.MemoryOf(publisher); ok {
		values[valuePublisherMemory] = bytes
	}
	sum := 0.0
	for _, program := range all {
		bytes, ok := testbed.MemoryOf(program)
		if !ok {
			return values
		}
		sum += bytes
	}
	values[valueSubscribersMemory] = sum
	return values
}

// stopAll returns the output of each program.
func stopAll(all []testbed.Program) ([]string, error) {
	outputs, errs := make([]string, len(all)), make([]error, len(all))
	done := make(chan struct{})
	for i, program := range all {
		go func() {
			outputs[i], errs[i] = program.Stop()
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	return outputs, errors.Join(errs...)
}

// published reads the publisher's output.
func (r *run) published(output string) error {
	r.outcome.Said["publisher"] = output
	if cores, ok := ddsperf.ParseCores(strings.NewReader(output)); ok {
		r.outcome.Values[valuePublisherCores] = cores
	}
	if !r.test.Latency {
		return ddsperf.Check(strings.NewReader(output))
	}
	published, err := ddsperf.ParsePublisher(strings.NewReader(output))
	if err != nil {
		return err
	}
	values := r.outcome.Values
	values[valueMean], values[valueP50], values[valueP90], values[valueP99] = published.MeanNs, published.P50Ns, published.P90Ns, published.P99Ns
	values[valueTimeouts] = float64(published.Timeouts)
	if published.Subscribers != r.subscribers {
		r.outcome.Problems = append(r.outcome.Problems, fmt.Sprintf("%d of %d subscribers answered", published.Subscribers, r.subscribers))
	}
	return nil
}

// received reads the subscribers' outputs.
func (r *run) received(outputs []string) error {
	var samples, lost, rate, cores float64
	reported := 0
	for i, output := range outputs {
		r.outcome.Said[fmt.Sprintf("subscriber %d", i+1)] = output
		if used, ok := ddsperf.ParseCores(strings.NewReader(output)); ok {
			cores, reported = cores+used, reported+1
		}
		if r.test.Latency {
			continue
		}
		received, err := ddsperf.ParseSubscriber(strings.NewReader(output))
		if err != nil {
			return fmt.Errorf("subscriber %d: %w", i+1, err)
		}
		samples, lost = samples+float64(received.Samples), lost+float64(received.Lost)
		rate += received.SamplesPerSecond / float64(r.subscribers)
	}
	values := r.outcome.Values
	if reported == len(outputs) { // otherwise the sum is incomplete
		values[valueSubscribersCores] = cores
	}
	if !r.test.Latency {
		values[valueSamples], values[valueBps] = rate, rate*float64(8*r.bytes)
		values[valueLost] = lost / (samples + lost)
	}
	return nil
}
