// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Observed is the cost of the background, and the results of its messages.
type Observed struct {
	// CPUTime is the processor time of ktsnd, Wakeups and Doorbells its counters. They are read before the first message is
	// due and after the last has left, when ktsnd is nearly idle: the talkers' real-time priority may keep the reader from
	// running while messages are sent.
	CPUTime            time.Duration
	Wakeups, Doorbells uint64
	// Over is the time from when the first message was due to when the last left, or was to leave.
	Over time.Duration
	// TalkerCores is the processor time of the sending processes, without start and end, as a number of cores.
	TalkerCores float64
	// MemoryBytes is ktsnd's memory with all flows, EmptyBytes that before any pod of the background.
	MemoryBytes, EmptyBytes int64
	// DepartureNs are ktsnd's departure errors, one for each message that was handed over in time.
	DepartureNs []int64
	// HandedOverLate left as well, but their talkers woke too late; Early counts all messages.
	HandedOverLate, Early int
	// WakeupNs is the median delay of the talkers' wake-ups.
	WakeupNs int64
	// SendErrors are failed send calls, Sent messages that left, Frames those that arrived from the link.
	SendErrors, Sent, Frames int
	// Counters are ktsnd's, from before the first message to after the last.
	Counters Counted
}

// Cores is the processor time of ktsnd as a number of cores.
func (o *Observed) Cores() float64 { return float64(o.CPUTime) / float64(o.Over) }

// Counted are ktsnd's counters about the messages.
type Counted struct {
	Dropped, KernelPath uint64
	// Late are by reason.
	Late map[string]uint64
	// Held is above 0 if messages waited because of their pod's rate, or their doorbells were ignored.
	Held uint64
	// Stops are interruptions of ktsnd by the kernel's real-time budget, nil without a budget; Pauses are those by the
	// machine's host that ktsnd noticed.
	Stops  *uint64
	Pauses uint64
}

// drained is how long after the last message the last frame has certainly arrived.
const drained = 200 * time.Millisecond

// reading has the counters of ktsnd and the link.
type reading struct {
	cpu    time.Duration
	frames uint64
	status *control.Status
}

// read reads the link first, so that a frame that is sent meanwhile does not count at ktsnd only.
func (l *Target) read(ctx context.Context) (r reading, err error) {
	if r.frames, err = l.nodes.NodeB.FramesReceived(topology.PhysicalInterface); err != nil {
		return r, err
	}
	if r.status, err = l.daemon.client.Status(ctx); err != nil {
		return r, err
	}
	r.cpu, err = process.CPUTime(l.daemon.process.PID())
	return r, err
}

// observe counts from now, not from when the first message is due, because the machine may pause for longer than that.
func (l *Target) observe(ctx context.Context, c Background, talkers []talker, first time.Time, seen *Observed) (err error) {
	if _, err := l.daemon.departures(ctx); err != nil { // departures of an abandoned start
		return err
	}
	before, err := l.read(ctx)
	if err != nil {
		return err
	}
	if err := retry.Pause(ctx, time.Until(first.Add(c.lasts()/2))); err != nil {
		return err
	}
	if seen.MemoryBytes, err = residentBytes(l.daemon.process.PID()); err != nil {
		return err
	}
	if err := retry.Pause(ctx, time.Until(first.Add(c.lasts()))); err != nil {
		return err
	}
	for _, current := range talkers {
		if err := wait(ctx, current.Process); err != nil {
			return err
		}
	}
	return l.count(ctx, c, before, talkers, seen)
}

// count evaluates the messages after all have left.
func (l *Target) count(ctx context.Context, c Background, before reading, talkers []talker, seen *Observed) error {
	if err := retry.Pause(ctx, drained); err != nil {
		return err
	}
	end, err := l.read(ctx)
	if err != nil {
		return err
	}
	counted, start := &end.status.Counters, &before.status.Counters
	seen.Sent, seen.Frames = int(counted.Sent-start.Sent), int(end.frames-before.frames)
	seen.Counters = countedBetween(before.status, end.status)
	handed, err := readHandOvers(talkers, c.Lead)
	if err != nil {
		return err
	}
	seen.SendErrors, seen.WakeupNs, seen.TalkerCores = handed.failed, handed.wakeupNs(), float64(handed.cpuTime)/float64(c.lasts())
	departures, err := l.daemon.departures(ctx)
	seen.judge(departures, handed)
	seen.CPUTime, seen.Over = end.cpu-before.cpu, max(c.lasts(), span(departures))
	seen.Wakeups, seen.Doorbells = counted.Wakeups-start.Wakeups, counted.Doorbells-start.Doorbells
	return err
}

// span returns the time from when the first message was due to when the last left.
func span(departures []control.Departure) time.Duration {
	var begin, end int64
	for i, departure := range departures {
		if i == 0 {
			begin, end = departure.RequestedTAI, departure.DepartedTAI
		}
		begin, end = min(begin, departure.RequestedTAI), max(end, departure.DepartedTAI)
	}
	return time.Duration(end - begin)
}

func countedBetween(before, after *control.Status) Counted {
	start, end := &before.Counters, &after.Counters
	counted := Counted{Dropped: end.Dropped() - start.Dropped(), KernelPath: end.KernelPath - start.KernelPath,
		Held: end.ShareRate - start.ShareRate + end.ShareDoorbells - start.ShareDoorbells,
		Late: map[string]uint64{"taken": end.LateTaken - start.LateTaken, "wakeup": end.LateWakeup - start.LateWakeup,
			"port": end.LatePort - start.LatePort, "unresolved": end.LateUnresolved - start.LateUnresolved},
		Pauses: after.RealtimeBudget.HostPauses - before.RealtimeBudget.HostPauses}
	if after.RealtimeBudget.PeriodNs > 0 {
		stops := after.RealtimeBudget.Stops - before.RealtimeBudget.Stops
		counted.Stops = &stops
	}
	return counted
}

// judge takes the errors of messages that were handed over in time, and counts the others.
func (o *Observed) judge(departures []control.Departure, handed *handOvers) {
	for _, departure := range departures {
		late := departure.DepartedTAI - departure.RequestedTAI
		if late < 0 {
			o.Early++
		}
		if handed.late[departure.RequestedTAI] {
			o.HandedOverLate++
			continue
		}
		o.DepartureNs = append(o.DepartureNs, late)
	}
}
