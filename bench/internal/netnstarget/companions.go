// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	// floodNice gives a flood the processor time that the others leave, which is nearly all: they should compete for
	// the link, not for their common processor.
	floodNice = 10
	// floodFrames on the link show that a flood has begun, for at most floodTimeout.
	floodFrames  = 100
	floodTimeout = 10 * time.Second
)

// running is a started companion.
type running struct {
	traffic.Companion
	talker *process.Process
	runID  uint32
	file   string
}

// companions are the additional talkers of a run, and the destination of their messages.
type companions struct {
	all  []*running
	sink *sink
}

// startCompanions starts the companions of a run, and returns when floods have begun. The result must be stopped, also
// after an error.
func (l *Target) startCompanions(ctx context.Context, r engine.Run) (*companions, error) {
	started := &companions{}
	wanted := traffic.CompanionsOf(r, results.PathKernelVXLAN)
	if len(wanted) == 0 {
		return started, nil
	}
	var err error
	if started.sink, err = openSink(l.nodes.PodB, topology.PodAddressB); err != nil {
		return started, err
	}
	for _, companion := range wanted {
		process, err := l.startCompanion(r, companion, started.sink.address)
		if err != nil {
			return started, err
		}
		started.all = append(started.all, process)
		if !companion.Flood {
			continue
		}
		if err := yield(process.talker); err != nil {
			return started, err
		}
		if err := l.awaitFlood(ctx, process.talker); err != nil {
			return started, err
		}
	}
	return started, nil
}

func (l *Target) startCompanion(r engine.Run, c traffic.Companion, to netip.AddrPort) (*running, error) {
	l.lastRunID++
	started := &running{Companion: c, runID: l.lastRunID,
		file: filepath.Join(l.nodes.Dir, fmt.Sprintf("companion-%d.csv", l.lastRunID))}
	arguments := append(traffic.CompanionTalker(r, &c, to), traffic.Records(started.runID, started.file)...)
	var err error
	started.talker, err = process.Start(endsOf(l.nodes, c.Path).from, c.Name, l.talkerCommand(c.Path, arguments))
	return started, err
}

// awaitFlood waits for a flood, which runs after other programs on the processor. It must be the first to send.
func (l *Target) awaitFlood(ctx context.Context, who *process.Process) error {
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
		case <-who.Done():
			return who.Ended()
		case <-ctx.Done():
			return fmt.Errorf("wait until %s saturates: %w", who.Name(), ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

// stop ends the companions that still run.
func (c *companions) stop() {
	for _, current := range c.all {
		_ = current.talker.Stop(stopGrace)
	}
	if c.sink != nil {
		c.sink.close()
	}
}

// finish ends the companions and adds their sent messages to the observation. The sink stays, because messages may be
// under way.
func (c *companions) finish(seen *traffic.Observation) error {
	for _, current := range c.all {
		if err := errors.Join(current.talker.Stop(stopGrace), current.talker.Wait()); err != nil {
			return err
		}
		if seen.Gates == nil || current.Path != results.PathDirect {
			seen.Competing = append(seen.Competing, current.runID)
			continue
		}
		sent, err := readFile(current.file, tsnperf.ReadTalker)
		if err != nil {
			return err
		}
		seen.Gates.Flows = append(seen.Gates.Flows, traffic.Flow{RunID: current.runID, Priority: current.Priority, Sent: accepted(sent)})
	}
	return nil
}

// accepted counts the messages that a send call accepted.
func accepted(sent []tsnperf.Sent) int {
	number := 0
	for i := range sent {
		if sent[i].Errno == 0 {
			number++
		}
	}
	return number
}
