// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/guestrig"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

const (
	guestTalkerFile, guestCPUFile, guestListenerFile = "talker.csv", "talker-cpu.csv", "listener.csv"
	// clockMargin is the time to read the machines' clocks before the first and after the last message.
	clockMargin = 200 * time.Millisecond
)

// guestRun is a run between virtual machines.
type guestRun struct {
	*Target
	r    engine.Run
	seen *traffic.Observation
	// from and to are the interfaces.
	from, to string
	// held: the host holds the frames.
	held   bool
	before guestrig.HostReading
	// boundNs is the largest error bound with which a frame of the run left its machine, if frames are held.
	boundNs int64
	// status is the state of ktsn-guest before the run, if known.
	status guestrig.Status
	known  bool
}

// guestTraffic runs listener and talker in virtual machines, and reads their and ktsnd's records in this machine's
// time.
func (l *Target) guestTraffic(ctx context.Context, r engine.Run, seen *traffic.Observation, watched *results.Distributions) error {
	g := &guestRun{Target: l, r: r, seen: seen, held: seen.ViaDaemon}
	g.from, g.to = interfaceOf(r.Path)
	if l.followed {
		if err := l.guests.SetClock(ctx); err != nil {
			return err
		}
	}
	if err := g.readStatus(ctx); err != nil {
		return err
	}
	var watch *watch
	var err error
	if g.held {
		if watch, err = l.daemon.watch(ctx); err != nil {
			return err
		}
	}
	if err := g.observed(ctx, watched); err != nil {
		return err
	}
	if watch != nil {
		if err := watch.finish(ctx, r, seen); err != nil {
			return err
		}
	}
	if err := g.readStatus(ctx); err != nil {
		return err
	}
	return g.inHostTime()
}

// readStatus stores ktsn-guest's state, and reports its refusals since the last call.
func (g *guestRun) readStatus(ctx context.Context) error {
	if !g.held {
		return nil
	}
	status, err := g.guests.ReadStatus(ctx, g.from)
	if err != nil {
		return err
	}
	for reason, count := range status.Refused {
		if since := count - g.status.Refused[reason]; g.known && since > 0 {
			g.seen.Problems = append(g.seen.Problems, fmt.Sprintf("ktsn-guest dropped %d messages: %s", since, reason))
		}
	}
	g.boundNs, g.status, g.known = status.WidestBoundNs, status, true
	return nil
}

// observed sends the messages while processors and the link are watched.
func (g *guestRun) observed(ctx context.Context, watched *results.Distributions) error {
	beside, err := g.startCompanions(ctx, g.r)
	defer beside.stop()
	if err != nil {
		return err
	}
	var sampler *sampler
	if !g.r.Unsampled {
		programs := map[string]*process.Process{"talker": g.guests.A.Process, "listener": g.guests.B.Process, "ktsnd": g.daemon.process}
		if sampler, err = startSampler(ctx, programs); err != nil {
			return err
		}
	}
	used, err := g.startCounting()
	if err == nil {
		err = g.talkInGuests(ctx)
	}
	if err == nil {
		err = used.finish(g.seen)
	}
	if errSampler := sampler.finish(watched); err == nil {
		err = errSampler
	}
	if err != nil {
		return err
	}
	return beside.finish(g.seen)
}

// talkInGuests sends the messages and waits until the listener has received them.
func (g *guestRun) talkInGuests(ctx context.Context) (err error) {
	a, b, talker := g.guests.A, g.guests.B, &g.seen.Talkers[0]
	listens := append(append([]string{g.programs.tsnperf}, traffic.GuestListener(g.r, talker.RunID, b.Addresses[g.to])...),
		"--csv", inGuest(guestListenerFile))
	listener, err := b.Start(listens...)
	if err != nil {
		return err
	}
	if err := listener.Await(ctx, "listening on"); err != nil {
		return err
	}
	saturated, err := g.startIperf3(ctx, g.r)
	defer saturated.stop()
	if err != nil {
		return err
	}
	if g.before, err = guestrig.ReadHost(); err != nil {
		return err
	}
	if err := retry.Pause(ctx, clockMargin); err != nil {
		return err
	}
	if _, err := a.Run(ctx, g.talker()...); err != nil {
		return err
	}
	if err := saturated.finish(ctx, g.seen); err != nil {
		return err
	}
	if _, err := listener.Wait(ctx); err != nil {
		return err
	}
	if talker.Sent, err = readFile(filepath.Join(a.Out, guestTalkerFile), tsnperf.ReadTalker); err != nil {
		return err
	}
	if g.seen.Received, err = readFile(filepath.Join(b.Out, guestListenerFile), tsnperf.ReadListener); err != nil {
		return err
	}
	return retry.Pause(ctx, clockMargin)
}

// talker is the sending program in a machine, with its arguments.
func (g *guestRun) talker() []string {
	a, b := g.guests.A, g.guests.B
	arguments := append([]string{g.programs.tsnperf, "talker", "--quiet", "--clock", "tai"}, traffic.MeasuredTalker(g.r, 0, b.Addresses[g.to])...)
	arguments = append(arguments, traffic.Records(g.seen.Talkers[0].RunID, inGuest(guestTalkerFile))...)
	arguments = append(arguments, traffic.GuestTalker()...)
	arguments = append(arguments, "--cpu-time", inGuest(guestCPUFile), "--bind", a.Addresses[g.from].String())
	switch g.r.Path {
	case results.PathGuestReleased:
		arguments = append(arguments, "--priority", strconv.Itoa(guestrig.ReleasedPriority))
	case results.PathGuestKernel:
		arguments = append(arguments, "--no-txtime")
	}
	return arguments
}

// inGuest returns the path of a machine's file inside the machine.
func inGuest(name string) string { return filepath.Join(guestmachine.OutDir, name) }

// inHostTime converts all times to this machine's CLOCK_TAI: the machines' by their true clocks, and transmit times to
// those that ktsnd got.
func (g *guestRun) inHostTime() error {
	after, err := guestrig.ReadHost()
	if err != nil {
		return err
	}
	a, b := guestrig.NewTrueClock(g.guests.A.Session, g.before, after), guestrig.NewTrueClock(g.guests.B.Session, g.before, after)
	sent := g.seen.Talkers[0].Sent
	for i := range sent {
		for _, at := range []*int64{&sent[i].Txtime, &sent[i].SendStart, &sent[i].SendEnd} {
			if *at, err = a.Host(*at); err != nil {
				return fmt.Errorf("the talker's times: %w", err)
			}
		}
		if g.r.Path != results.PathGuestKernel { // this path has no transmit times
			sent[i].Asked = sent[i].Txtime
		}
	}
	traffic.TakeRequested(sent, g.seen.Departures, g.r.Cycle())
	for i := range g.seen.Received {
		if g.seen.Received[i].Arrival, err = b.Host(g.seen.Received[i].Arrival); err != nil {
			return fmt.Errorf("the listener's times: %w", err)
		}
	}
	// The comparison itself has the uncertainty of the true clocks.
	talker, listener := g.boundNs+a.Within.Nanoseconds(), b.Within.Nanoseconds()
	g.seen.GuestClock = results.ClockErrorOf(&talker, &listener)
	return nil
}

// counting is the processor time of a run's virtual machines and relays since some moment.
type counting struct {
	pids  map[string][]int
	used  map[string]time.Duration
	begin time.Time
}

func (g *guestRun) startCounting() (*counting, error) {
	relays, err := g.guests.RelayPIDs()
	if err != nil {
		return nil, err
	}
	c := &counting{pids: map[string][]int{"talker": {g.guests.A.Process.PID()}, "listener": {g.guests.B.Process.PID()}, "relay": relays}, begin: time.Now()}
	c.used, err = c.now()
	return c, err
}

func (c *counting) now() (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for name, pids := range c.pids {
		for _, pid := range pids {
			used, err := process.CPUTime(pid)
			if err != nil {
				return nil, err
			}
			all[name] += used
		}
	}
	return all, nil
}

// finish adds their cores.
func (c *counting) finish(seen *traffic.Observation) error {
	after, err := c.now()
	if err != nil {
		return err
	}
	for name, used := range after {
		seen.CPUCores[name] = float64(used-c.used[name]) / float64(time.Since(c.begin))
	}
	return nil
}
