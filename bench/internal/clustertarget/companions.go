// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const (
	// sinkPort is the destination of companions' messages.
	sinkPort = 7790
	// companionsAhead is how much earlier companions start than the measured talkers.
	companionsAhead = 500 * time.Millisecond
	// companionMessages limits the messages of a flood, because its records are in the pod's memory.
	companionMessages = "3000000"
	sinkIdle          = "1s"
	sinkFirst         = "20s"
)

// companions are the additional talkers of a run, and their listener.
type companions struct {
	sink    *started
	talkers []*started
}

// startCompanions returns when companions have had time to begin. They send from the plain pod, by the default network
// of pods on all paths, and end by themselves.
func (l *Target) startCompanions(ctx context.Context, r engine.Run) (*companions, error) {
	b := &companions{}
	wanted := traffic.CompanionsOf(r, results.PathPrimary)
	if len(wanted) == 0 {
		return b, nil
	}
	pair := endsOf(results.PathPrimary)
	address, err := addressOf(l.pods[pair.listener], results.PathPrimary)
	if err != nil {
		return nil, err
	}
	to := netip.AddrPortFrom(address, sinkPort)
	if b.sink, err = l.start(ctx, "tsnperf listener beside", l.pods[pair.listener], container, program, "listener", "--bind", to.String(),
		"--block", "--idle-timeout", sinkIdle, "--first-timeout", sinkFirst, "--ready-fd", "2"); err != nil {
		return nil, err
	}
	if err := b.sink.awaitReady(ctx); err != nil {
		return nil, err
	}
	for i := range wanted {
		arguments := append([]string{program, "talker", "--quiet", "--no-txtime"}, traffic.CompanionTalker(r, &wanted[i], to)...)
		if wanted[i].Flood { // the last value of an option counts
			lasts := r.Duration() + companionsAhead + time.Second
			arguments = append(arguments, "--count", companionMessages, "--for", traffic.Nanoseconds(lasts))
		}
		arguments = append(arguments, traffic.CPU(l.pinning.Sender)...)
		started, err := l.start(ctx, wanted[i].Name, l.pods[pair.talker], container, arguments...)
		if err != nil {
			return nil, err
		}
		b.talkers = append(b.talkers, started)
	}
	return b, retry.Pause(ctx, companionsAhead)
}

// finish waits for the companions' ends, and returns how many of their messages arrived; nil without any.
func (c *companions) finish(ctx context.Context) (*int, error) {
	if c.sink == nil {
		return nil, nil
	}
	for _, talker := range c.talkers {
		if err := talker.wait(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.sink.wait(ctx); err != nil {
		return nil, err
	}
	return received(c.sink.stdout.String())
}

// received reads the first line of a listener's summary.
func received(summary string) (*int, error) {
	var count int
	for line := range strings.Lines(summary) {
		if _, err := fmt.Sscanf(line, "listener: received %d,", &count); err == nil {
			return &count, nil
		}
	}
	return nil, fmt.Errorf("tsnperf listener said %q and not how much it received", summary)
}
