// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// drainTimeout limits how long ktsnd may take to send hundreds of messages in windows.
const drainTimeout = 5 * time.Second

// watch has ktsnd's counters at the beginning of a run.
type watch struct {
	daemon   *daemon
	status   *control.Status
	overruns [control.TrafficClasses]uint64
	cpu      time.Duration
	begin    time.Time
}

func (d *daemon) watch(ctx context.Context) (*watch, error) {
	w := &watch{daemon: d}
	var err error
	if w.status, err = d.client.Status(ctx); err != nil {
		return nil, err
	}
	if w.overruns, err = d.overruns(ctx); err != nil {
		return nil, err
	}
	w.begin = time.Now()
	w.cpu, err = process.CPUTime(d.process.PID())
	return w, err
}

// finish completes the observation of a run that has ended.
func (w *watch) finish(ctx context.Context, r engine.Run, seen *traffic.Observation) error {
	cpu, err := process.CPUTime(w.daemon.process.PID())
	if err != nil {
		return err
	}
	// A sleeping ktsnd needs no processor time before and after the messages, so that only their time counts, as for
	// the talker. A ktsnd that keeps its core awake never sleeps, and under a schedule there is more to send than the
	// messages.
	during := time.Duration(r.Messages) * r.Cycle()
	if r.Workload == results.WorkloadKeepAwake || engine.HasGates(r.Workload) {
		during = time.Since(w.begin)
	}
	seen.CPUCores["ktsnd"] = float64(cpu-w.cpu) / float64(during)
	if seen.Gates != nil {
		if err := w.finishGates(ctx, r, seen); err != nil {
			return err
		}
	}
	if err := w.countLate(ctx, r, seen); err != nil {
		return err
	}
	departed, err := w.daemon.departures(ctx)
	seen.Departures = append([]control.Departure{}, departed...) // not nil: ktsnd was asked, even if there are none
	return err
}

// countLate returns the late messages of the measured messages' class: nobody else uses it.
func (w *watch) countLate(ctx context.Context, r engine.Run, seen *traffic.Observation) error {
	status, err := w.daemon.client.Status(ctx)
	if err != nil {
		return err
	}
	class := w.classOf(traffic.PriorityOf(r))
	late := func(status *control.Status) (count uint64) {
		for _, counters := range status.Classes {
			if counters.TrafficClass == class {
				count = counters.Late
			}
		}
		return count
	}
	since := late(status) - late(w.status)
	seen.Late = &since
	return nil
}

func (w *watch) classOf(priority int) uint8 {
	return w.status.TrafficClassMap[priority%control.Priorities]
}

// finishGates waits until everything has left, and records the class of each flow.
func (w *watch) finishGates(ctx context.Context, r engine.Run, seen *traffic.Observation) error {
	gates := seen.Gates
	for _, talker := range seen.Talkers {
		gates.Flows = append(gates.Flows, traffic.Flow{RunID: talker.RunID, Priority: traffic.PriorityOf(r), Sent: accepted(talker.Sent)})
	}
	var sent uint64
	for i := range gates.Flows {
		gates.Flows[i].Class = w.classOf(gates.Flows[i].Priority)
		sent += uint64(gates.Flows[i].Sent)
	}
	if err := w.drain(ctx, sent); err != nil {
		return err
	}
	overruns, err := w.daemon.overruns(ctx)
	if err != nil {
		return err
	}
	for class := range overruns {
		gates.Overruns[class] = overruns[class] - w.overruns[class]
	}
	return nil
}

// drain waits until ktsnd has taken a number of messages since the watch began, and holds none. If some are still
// missing, the frames will show it.
func (w *watch) drain(ctx context.Context, messages uint64) error {
	for until := time.Now().Add(drainTimeout); time.Now().Before(until); {
		status, err := w.daemon.client.Status(ctx)
		if err != nil {
			return fmt.Errorf("wait until ktsnd has sent everything: %w", err)
		}
		if status.Counters.Taken-w.status.Counters.Taken >= messages && status.Pending == 0 {
			return nil
		}
		if err := retry.Pause(ctx, readyPoll); err != nil {
			return err
		}
	}
	return nil
}
