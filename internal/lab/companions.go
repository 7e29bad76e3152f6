// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/bench"
	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/process"
	"github.com/kubernetsn/kubernetsn/internal/results"
	"github.com/kubernetsn/kubernetsn/internal/topology"
)

const (
	// framesPerMillisecond is more than one processor puts on the link.
	framesPerMillisecond = 300
	// companionSlack is how much longer than the measured messages a companion may have to go on.
	companionSlack = 2 * time.Second
	// endlessFlood is more messages than any run has room for: who floods is told when to end.
	endlessFlood = 10_000_000
	// floodNice leaves to who floods what the others do not want of their common processor: it is the link that
	// they are to compete for. That is nearly all of it.
	floodNice = 10
	// floodFrames on the link say that a flood has begun, which must not take longer than floodTimeout.
	floodFrames  = 100
	floodTimeout = 10 * time.Second
)

// messages is how many a companion is asked to send; it is stopped before.
func (c *companion) messages(r bench.Run) int {
	if c.flood {
		return endlessFlood
	}
	return int((r.Duration()+companionSlack)/c.cycle) + 1
}

// mostFrames is how many of its frames can be on the link during a run.
func (c *companion) mostFrames(r bench.Run) int {
	if c.flood {
		return int((r.Duration()+companionSlack)/time.Millisecond) * framesPerMillisecond
	}
	return c.messages(r)
}

// running is a companion that was started.
type running struct {
	companion
	talker *process.Process
	runID  uint32
	file   string
}

// companions are the talkers beside a run, and where their messages go.
type companions struct {
	all  []*running
	sink *sink
}

// startCompanions starts the talkers beside a run, and returns when those that flood do. What it returns must be stopped,
// also after an error.
func (l *Lab) startCompanions(ctx context.Context, r bench.Run) (*companions, error) {
	started := &companions{}
	wanted := companionsOf(r.Workload, r.Cycle())
	if len(wanted) == 0 {
		return started, nil
	}
	var err error
	if started.sink, err = openSink(l.nodes.PodB, topology.PodAddressB); err != nil {
		return started, err
	}
	for _, companion := range wanted {
		one, err := l.startCompanion(r, companion, started.sink.address)
		if err != nil {
			return started, err
		}
		started.all = append(started.all, one)
		if !companion.flood {
			continue
		}
		if err := l.awaitFlood(ctx, one); err != nil {
			return started, err
		}
	}
	return started, nil
}

func (l *Lab) startCompanion(r bench.Run, c companion, to netip.AddrPort) (*running, error) {
	l.lastRunID++
	one := &running{companion: c, runID: l.lastRunID,
		file: filepath.Join(l.nodes.Dir, fmt.Sprintf("companion-%d.csv", l.lastRunID))}
	arguments := append(l.companionArguments(r, &c, to), records(one.runID, one.file)...)
	var err error
	one.talker, err = process.Start(wayOf(l.nodes, c.path).from, c.name, l.talkerCommand(c.path, arguments))
	return one, err
}

// awaitFlood lets a flood begin, behind the others that want the processor. It must be the first to send.
func (l *Lab) awaitFlood(ctx context.Context, r *running) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, r.talker.PID(), floodNice); err != nil {
		return fmt.Errorf("make %s yield: %w", r.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, floodTimeout)
	defer cancel()
	before, err := l.nodes.NodeB.FramesReceived(topology.PhysicalInterface)
	if err != nil {
		return err
	}
	for {
		frames, err := l.nodes.NodeB.FramesReceived(topology.PhysicalInterface)
		if err != nil || frames-before >= floodFrames {
			return err
		}
		select {
		case <-r.talker.Done():
			return r.talker.Ended()
		case <-ctx.Done():
			return fmt.Errorf("wait until %s saturates: %w", r.name, ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

func (l *Lab) companionArguments(r bench.Run, c *companion, to netip.AddrPort) []string {
	arguments := []string{
		"--to", to.String(),
		"--cycle", nanoseconds(c.cycle), "--offset", nanoseconds(c.offset),
		"--size", strconv.Itoa(c.payloadBytes),
		"--count", strconv.Itoa(c.messages(r)),
		"--priority", strconv.Itoa(c.priority),
		"--lead", nanoseconds(leadOf(r.Workload, r.Cycle()))}
	if c.flood {
		arguments = append(arguments, "--flood")
	}
	return arguments
}

// stop ends what is still running.
func (c *companions) stop() {
	for _, one := range c.all {
		_ = one.talker.Stop(stopGrace)
	}
	if c.sink != nil {
		c.sink.close()
	}
}

// finish ends the companions and adds to the observation what they have sent. The sink stays: messages may be under
// way.
func (c *companions) finish(seen *observation) error {
	for _, one := range c.all {
		if err := errors.Join(one.talker.Stop(stopGrace), one.talker.Wait()); err != nil {
			return err
		}
		if seen.gates == nil || one.path != results.PathDirect {
			seen.beside = append(seen.beside, one.runID)
			continue
		}
		sent, err := readFile(one.file, perf.ReadTalker)
		if err != nil {
			return err
		}
		seen.gates.flows = append(seen.gates.flows, flow{runID: one.runID, priority: one.priority, sent: accepted(sent)})
	}
	return nil
}

// accepted counts the messages that a send call took.
func accepted(sent []perf.Sent) int {
	return countIf(sent, func(message *perf.Sent) bool { return message.Errno == 0 })
}
