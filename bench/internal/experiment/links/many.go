// SPDX-License-Identifier: Apache-2.0

package links

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstestbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ping"
	"github.com/kubernetsn/kubernetsn/internal/testlab/podnetworks"
)

const (
	// manyOverhead and perLink are the approximate duration of a case without its rest.
	manyOverhead, perLink = 2 * time.Second, 120 * time.Millisecond
	// lastShare is the share of the last links, which shows whether existing links slow down the next.
	lastShare = 10
)

// Names of engine.Outcome.Values and Samples.
const (
	samplePlug    = "plug_ns"
	valuePlugAll  = "plug_all_ns"
	valueLastPlug = "plug_last_tenth_ns"
	valueUnplug   = "unplug_all_ns"
	// Memory of both nodes, and of one ktsnd.
	valueMemory  = "kernel_bytes_per_link"
	valueDaemon  = "ktsnd_bytes_per_link"
	valueAnswers = "last_link_answers"
)

// performMany plugs links one after the other, watches them while nothing is sent, and unplugs them.
func (e *Experiment) performMany(ctx context.Context, here *netnstestbed.Testbed, near testbed.End, number int) (_ *engine.Outcome, err error) {
	networks := here.Networks()
	begin, err := memoryOf(networks)
	if err != nil {
		return nil, err
	}
	outcome := &engine.Outcome{Values: map[string]float64{}, Said: map[string]string{}}
	took, err := plugAll(ctx, networks, number)
	if err != nil {
		return nil, err
	}
	outcome.Samples = map[string][]int64{samplePlug: took}
	outcome.Values[valuePlugAll], outcome.Values[valueLastPlug] = float64(sum(took)), mean(took[len(took)-max(1, len(took)/lastShare):])
	end, err := memoryOf(networks)
	if err != nil {
		return nil, err
	}
	outcome.Values[valueMemory] = (end.kernel - begin.kernel) / float64(number)
	outcome.Values[valueDaemon] = (end.daemons - begin.daemons) / float64(number) / float64(len(networks.Daemons()))
	if err := testbed.Observe(ctx, here, outcome, func() error { return retry.Pause(ctx, e.Rest) }); err != nil {
		return nil, err
	}
	if outcome.Values[valueAnswers], err = answers(ctx, near, number); err != nil {
		return nil, err
	}
	if outcome.Values[valueAnswers] == 0 {
		outcome.Problems = append(outcome.Problems, fmt.Sprintf("link %d answers no echo request", number))
	}
	started := time.Now()
	if err := networks.UnplugLinks(ctx, number); err != nil {
		return nil, err
	}
	outcome.Values[valueUnplug] = float64(time.Since(started))
	return outcome, nil
}

// plugAll plugs links 1 to number, and returns the duration of each, both ends together.
func plugAll(ctx context.Context, networks *podnetworks.Networks, number int) (took []int64, err error) {
	for link := 1; link <= number; link++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		started := time.Now()
		if err := networks.PlugLink(ctx, link); err != nil {
			return nil, err
		}
		took = append(took, time.Since(started).Nanoseconds())
	}
	return took, nil
}

// memory is the used memory.
type memory struct{ kernel, daemons float64 }

func memoryOf(networks *podnetworks.Networks) (now memory, err error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return now, err
	}
	kernel, err := fs.Meminfo() // which other programs affect as well
	if err != nil {
		return now, err
	}
	if kernel.SlabBytes == nil || kernel.PercpuBytes == nil {
		return now, errors.New("/proc/meminfo lacks Slab or Percpu")
	}
	now.kernel = float64(*kernel.SlabBytes + *kernel.PercpuBytes)
	for _, daemon := range networks.Daemons() {
		program, err := fs.Proc(daemon.PID())
		if err != nil {
			return now, err
		}
		stat, err := program.Stat()
		if err != nil {
			return now, err
		}
		now.daemons += float64(stat.ResidentMemory())
	}
	return now, nil
}

// answers is how many of some echo requests over a link are answered.
func answers(ctx context.Context, near testbed.End, link int) (float64, error) {
	test := ping.Test{To: podnetworks.LinkAddress(link), Count: 3, Interval: 20 * time.Millisecond, PayloadBytes: 56}
	program, err := near.Start(ctx, &testbed.Command{Name: "ping", Program: ping.Program, Package: ping.Package, Arguments: test.Arguments()})
	if err != nil {
		return 0, err
	}
	output, errEnd := program.Wait(ctx)
	result, err := ping.Parse(strings.NewReader(output))
	if err != nil {
		return 0, fmt.Errorf("the last link: %w", testbed.Because(err, errEnd))
	}
	return float64(result.Received), nil
}

func sum(values []int64) (all int64) {
	for _, current := range values {
		all += current
	}
	return all
}

func mean(values []int64) float64 { return float64(sum(values)) / float64(len(values)) }
