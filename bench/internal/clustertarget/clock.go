// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	clockMessages = 100
	clockCycle    = 2 * time.Millisecond
	// compareEvery is the age at which a comparison of the clocks is repeated before a series of runs: clocks drift.
	compareEvery = 20 * time.Second
)

// clocks is a comparison of CLOCK_TAI on the two nodes.
type clocks struct {
	// there and back are the smallest apparent times of messages from the talkers' node to the listeners', and back.
	there, back time.Duration
	// ahead is the talkers' node's clock minus this machine's, within about a round trip.
	ahead time.Duration
}

// bound is the largest possible difference of the clocks: no message arrives before it was sent.
func (c clocks) bound() time.Duration {
	return time.Duration(max(math.Abs(float64(c.there)), math.Abs(float64(c.back))))
}

// difference is the listeners' clock minus the talkers', if messages take equal time in both directions.
func (c clocks) difference() time.Duration { return (c.there - c.back) / 2 }

// known returns the uncertainty of the difference without that assumption.
func (c clocks) known() time.Duration { return (c.there + c.back) / 2 }

// comparison summarises all comparisons of a bench.
type comparison struct {
	last clocks
	// worst is the largest bound, least and most are the extremes of the difference.
	worst, least, most time.Duration
	count              int
	at                 time.Time
}

func (c *comparison) add(now clocks) {
	if c.count == 0 {
		c.least, c.most = now.difference(), now.difference()
	}
	c.last, c.count, c.at = now, c.count+1, time.Now()
	c.worst, c.least, c.most = max(c.worst, now.bound()), min(c.least, now.difference()), max(c.most, now.difference())
}

func (c *comparison) describe() results.Clock {
	clock := c.last.describe()
	clock.ErrorNs = c.worst.Nanoseconds()
	if c.count > 1 {
		clock.About += fmt.Sprintf(" That was the last of %d comparisons, by which it was ahead by %s to %s µs; the largest bound was %s µs.", c.count,
			results.Micros(c.least.Nanoseconds()), results.Micros(c.most.Nanoseconds()), results.Micros(c.worst.Nanoseconds()))
	}
	return clock
}

func (c clocks) describe() results.Clock {
	return results.Clock{ErrorNs: c.bound().Nanoseconds(),
		About: fmt.Sprintf("Talkers and listeners have the clocks (CLOCK_TAI) of two nodes. The quickest of %d messages each way took %s µs there "+
			"and %s µs back, by those clocks: that of the listeners' node is ahead by %s ± %s µs. Each latency contains that difference; nothing "+
			"is corrected. The error of synchronisation is at most %s µs.", clockMessages, results.Micros(c.there.Nanoseconds()),
			results.Micros(c.back.Nanoseconds()), results.Micros(c.difference().Nanoseconds()), results.Micros(c.known().Nanoseconds()),
			results.Micros(c.bound().Nanoseconds()))}
}

// describeOne describes nodes that have one clock.
func (c clocks) describeOne(on nodes) results.Clock {
	return results.Clock{About: fmt.Sprintf("Nodes %s and %s run on one kernel (their boot ID is the same), and so talkers and listeners have one "+
		"clock, CLOCK_TAI: there is no error of synchronisation. The quickest of %d messages each way took %s µs there and %s µs back.",
		on.talkers.Name, on.listeners.Name, clockMessages, results.Micros(c.there.Nanoseconds()), results.Micros(c.back.Nanoseconds()))}
}

// apart is the minimum difference of the clocks: a message that seems to have arrived before it was sent took at least
// no time.
func (c clocks) apart() time.Duration { return max(-c.there, -c.back, 0) }

// warning returns a warning if the clocks certainly differ by more than messages take.
func (c clocks) warning() string {
	if c.there > 0 && c.back > 0 {
		return ""
	}
	return fmt.Sprintf("the nodes' clocks differ by %s ± %s µs, so that latencies between them mean nothing: have them synchronised (PTP), "+
		"and the same offset of TAI set on both", results.Micros(c.difference().Nanoseconds()), results.Micros(c.known().Nanoseconds()))
}

// measureClocks sends messages in both directions.
func (l *Target) measureClocks(ctx context.Context) error {
	pair := endsOf(l.clockPath())
	talker, listener := l.pods[pair.talker], l.pods[pair.listener]
	there, begun, err := l.quickest(ctx, talker, listener)
	if err != nil {
		return fmt.Errorf("compare the nodes' clocks: %w", err)
	}
	back, _, err := l.quickest(ctx, listener, talker)
	if err != nil {
		return fmt.Errorf("compare the nodes' clocks: %w", err)
	}
	l.clocks.add(clocks{there: there, back: back, ahead: begun})
	return nil
}

// clockPath is the path with the fewest components.
func (l *Target) clockPath() string {
	if l.pods[talkerHost] != nil {
		return results.PathHost
	}
	return results.PathPrimary
}

// quickest returns the smallest time of a message by the two clocks, and how far the first clock is ahead of this
// machine's.
func (l *Target) quickest(ctx context.Context, from, to *corev1.Pod) (least, ahead time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, traffic.RunGrace)
	defer cancel()
	address, err := netip.ParseAddr(to.Status.PodIP)
	if err != nil {
		return 0, 0, err
	}
	at := netip.AddrPortFrom(address, traffic.ListenPort).String()
	count := strconv.Itoa(clockMessages)
	listener, err := l.start(ctx, "tsnperf listener", to, container, program, "listener", "--bind", at, "--poll", "--quiet", "--count", count,
		"--idle-timeout", "1s", "--csv", "/dev/stdout", "--ready-fd", "2")
	if err != nil {
		return 0, 0, err
	}
	if err := listener.awaitReady(ctx); err != nil {
		return 0, 0, err
	}
	output, err := l.run(ctx, "tsnperf talker", from, container, program, "talker", "--to", at, "--quiet", "--clock", "tai", "--no-txtime",
		"--count", count, "--cycle", traffic.Nanoseconds(clockCycle), "--csv", "/dev/stdout")
	if err != nil {
		return 0, 0, err
	}
	here := time.Now()
	if err := listener.wait(ctx); err != nil {
		return 0, 0, err
	}
	sent, err := tsnperf.ReadTalker(strings.NewReader(output))
	if err != nil {
		return 0, 0, err
	}
	received, err := tsnperf.ReadListener(strings.NewReader(listener.stdout.String()))
	if err != nil {
		return 0, 0, err
	}
	least, err = leastBetween(sent, received)
	if err != nil {
		return 0, 0, err
	}
	return least, time.Duration(sent[len(sent)-1].SendEnd - here.UnixNano()), nil
}

func leastBetween(sent []tsnperf.Sent, received []tsnperf.Received) (time.Duration, error) {
	begun := map[uint32]int64{}
	for _, message := range sent {
		if message.Errno == 0 {
			begun[message.Sequence] = message.SendStart
		}
	}
	least, arrived := int64(math.MaxInt64), false
	for _, message := range received {
		if at, known := begun[message.Sequence]; known && message.Valid {
			least, arrived = min(least, message.Arrival-at), true
		}
	}
	if !arrived {
		return 0, fmt.Errorf("none of %d messages arrived; look whether something between the nodes blocks UDP port %d", len(sent), traffic.ListenPort)
	}
	return time.Duration(least), nil
}
