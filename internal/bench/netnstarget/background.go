// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/bench/process"
	"github.com/kubernetsn/kubernetsn/internal/bench/topology"
	"github.com/kubernetsn/kubernetsn/internal/bench/traffic"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Background is many flows to measure ktsnd with: so many pods with a process each, or as many as flows need, whose sockets take
// turns.
type Background struct {
	Pods, FlowsPerPod int
	// Period is the time between two messages of a flow; those of all flows are spread evenly over it.
	Period time.Duration
	// Rounds is how many messages each flow sends.
	Rounds int
}

// Observed is what the background costs.
type Observed struct {
	// Cores is ktsnd's processor time from the first message to the last, as a number of cores.
	Cores float64
	// MemoryBytes is what ktsnd had while all flows were there, EmptyBytes before there was any pod of the background.
	MemoryBytes, EmptyBytes int64
	// DepartureNs are ktsnd's departure errors, one a message.
	DepartureNs []int64
	// Sent were messages, Frames those that came off the link.
	Sent, Frames int
	// Dropped is what ktsnd dropped, and KernelPath what went past it.
	Dropped, KernelPath uint64
}

const (
	// flowsPerProcess is below what ktsnd takes from one process (256).
	flowsPerProcess = 250
	// backgroundLead is how long before its time a message is handed over.
	backgroundLead = 10 * time.Millisecond
	// beforeFirst is before the first message is due, when all is quiet again after the start of the background.
	beforeFirst = 50 * time.Millisecond
	// drained is how long after the last message the last frame has come off the link for certain.
	drained = 200 * time.Millisecond
)

// backgroundStarts are how long a process may take to start: where the machine is busy not all may have been answered when the
// first message is due, and then all begin anew, slower.
var backgroundStarts = []time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 120 * time.Millisecond}

// pod is one of the background.
type pod struct {
	identity  string
	namespace *topology.Namespace
	socket    string
}

// Measure has the background send and watches ktsnd, which is new. Nothing of the background is left, also after an error.
func (l *Target) Measure(ctx context.Context, c Background) (_ *Observed, err error) {
	seen := &Observed{}
	if seen.EmptyBytes, err = residentBytes(l.daemon.process.PID()); err != nil {
		return nil, err
	}
	sink, err := openSink(l.nodes.PodB, topology.PodAddressB)
	if err != nil {
		return nil, err
	}
	defer sink.close()
	pods, err := l.addPods(ctx, c.Pods)
	defer func() { err = errors.Join(err, l.removePods(context.WithoutCancel(ctx), pods)) }()
	if err != nil {
		return nil, err
	}
	talkers, first, err := l.gather(ctx, c, pods, sink.address)
	defer func() { stopAll(talkers) }()
	if err != nil {
		return nil, l.explain(err)
	}
	if err := l.observe(ctx, c, talkers, first, seen); err != nil {
		return nil, l.explain(err)
	}
	return seen, nil
}

func (l *Target) addPods(ctx context.Context, count int) ([]pod, error) {
	var all []pod
	address := topology.BackgroundAddresses
	for i := range count {
		one := pod{identity: fmt.Sprintf("load%d", i)}
		one.socket = filepath.Join(l.nodes.Dir, one.identity+".sock")
		var err error
		if one.namespace, err = l.nodes.AddPod(one.identity, address); err != nil {
			return all, err
		}
		all = append(all, one)
		address = address.Next()
		if err := l.daemon.client.SocketAdd(ctx, one.identity, one.socket); err != nil {
			return all, err
		}
		if err := l.daemon.client.EndpointAdd(ctx, control.Endpoint{Identity: one.identity, Interface: topology.PodInterface,
			Netns: one.namespace.Path(), VNI: topology.VNI}); err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

// removePods takes those from ktsnd that it knows; one that has died knows none.
func (l *Target) removePods(ctx context.Context, pods []pod) error {
	var err error
	for _, one := range pods {
		_ = l.daemon.client.EndpointDel(ctx, one.identity, topology.PodInterface)
		_ = l.daemon.client.SocketDel(ctx, one.identity)
		err = errors.Join(err, one.namespace.Destroy())
	}
	return err
}

// gather starts the talkers, again and slower if ktsnd did not get to know all of them, and returns when the first message
// is due.
func (l *Target) gather(ctx context.Context, c Background, pods []pod, to netip.AddrPort) ([]*process.Process, time.Time, error) {
	flows := c.Pods * c.FlowsPerPod
	for _, each := range backgroundStarts {
		first := time.Now().Add(time.Second + each*time.Duration(len(c.shares(pods))) + time.Duration(flows)*time.Millisecond).Truncate(c.Period).Add(c.Period)
		talkers, err := l.startBackground(c, pods, to, first)
		if err != nil {
			return talkers, first, err
		}
		known, err := l.awaitFlows(ctx, flows, talkers, first.Add(-beforeFirst-backgroundLead))
		if known || err != nil {
			return talkers, first, err
		}
		stopAll(talkers)
		if err := l.awaitNoFlows(ctx); err != nil {
			return nil, first, err
		}
	}
	return nil, time.Time{}, fmt.Errorf("the machine is too busy: not all of %d flows found ktsnd in time", flows)
}

// share is what one process sends.
type share struct {
	pod   pod
	flows int
}

// shares divides the flows among processes.
func (c *Background) shares(pods []pod) []share {
	var all []share
	parts := (c.FlowsPerPod + flowsPerProcess - 1) / flowsPerProcess
	for _, one := range pods {
		for part := range parts {
			all = append(all, share{one, c.FlowsPerPod*(part+1)/parts - c.FlowsPerPod*part/parts})
		}
	}
	return all
}

func (l *Target) startBackground(c Background, pods []pod, to netip.AddrPort, first time.Time) ([]*process.Process, error) {
	var all []*process.Process
	shares := c.shares(pods)
	for i, one := range shares {
		cycle := c.Period / time.Duration(one.flows)
		arguments := []string{"talker", "--quiet", "--clock", "tai", "--to", to.String(),
			"--sockets", strconv.Itoa(one.flows), "--cycle", traffic.Nanoseconds(cycle), "--lead", traffic.Nanoseconds(backgroundLead),
			"--count", strconv.Itoa(one.flows * c.Rounds), "--start", strconv.FormatInt(taiOf(first), 10),
			"--offset", traffic.Nanoseconds(cycle * time.Duration(i) / time.Duration(len(shares)))}
		command := exec.Command(l.programs.tsnperf, append(arguments, traffic.CPU(l.pinning.listener)...)...)
		command.Env = append(os.Environ(), "LD_PRELOAD="+l.programs.library, "KTSN_SOCKET="+one.pod.socket)
		talker, err := process.Start(one.pod.namespace, "tsnperf talker of "+one.pod.identity, command)
		if err != nil {
			return all, err
		}
		all = append(all, talker)
	}
	return all, nil
}

// taiOf converts by the difference of now.
func taiOf(at time.Time) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // a clock that each kernel has
	return now.Nano() + int64(time.Until(at))
}

// awaitFlows tells whether ktsnd knows so many flows before a time. A talker that ends before that has failed.
func (l *Target) awaitFlows(ctx context.Context, flows int, talkers []*process.Process, until time.Time) (bool, error) {
	for time.Now().Before(until) {
		for _, talker := range talkers {
			select {
			case <-talker.Done():
				return false, talker.Ended()
			default:
			}
		}
		status, err := l.daemon.client.Status(ctx)
		if err != nil || status.Flows == flows {
			return err == nil, err
		}
		if err := sleep(ctx, readyPoll); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (l *Target) awaitNoFlows(ctx context.Context) error {
	_, err := l.awaitFlows(ctx, 0, nil, time.Now().Add(readyTimeout))
	return err
}

func sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(max(duration, 0)):
		return nil
	}
}

func stopAll(programs []*process.Process) {
	for _, program := range programs {
		_ = program.Stop(stopGrace)
	}
}

// reading is what ktsnd and the link have counted.
type reading struct {
	at     time.Time
	cpu    time.Duration
	frames uint64
	status *control.Status
}

// read looks at the link first, so that a frame that is sent meanwhile counts on it and not only at ktsnd.
func (l *Target) read(ctx context.Context) (r reading, err error) {
	if r.frames, err = l.nodes.NodeB.FramesReceived(topology.PhysicalInterface); err != nil {
		return r, err
	}
	if r.status, err = l.daemon.client.Status(ctx); err != nil {
		return r, err
	}
	r.at = time.Now()
	r.cpu, err = process.CPUTime(l.daemon.process.PID())
	return r, err
}

// observe reads processor times just before the first message and just after the last is due, and counts from now on: a pause
// of the machine may be longer than what is left before the first message.
func (l *Target) observe(ctx context.Context, c Background, talkers []*process.Process, first time.Time, seen *Observed) (err error) {
	if _, err := l.daemon.departures(ctx); err != nil { // those of a start that was given up
		return err
	}
	begin, err := l.read(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(first.Add(-backgroundLead-beforeFirst/2))); err != nil {
		return err
	}
	before, err := l.read(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(first.Add(c.Period*time.Duration(c.Rounds)/2))); err != nil {
		return err
	}
	if seen.MemoryBytes, err = residentBytes(l.daemon.process.PID()); err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(first.Add(c.Period*time.Duration(c.Rounds)))); err != nil {
		return err
	}
	after, err := l.read(ctx)
	if err != nil {
		return err
	}
	seen.Cores = float64(after.cpu-before.cpu) / float64(after.at.Sub(before.at))
	for _, talker := range talkers {
		if err := wait(ctx, talker); err != nil {
			return err
		}
	}
	return l.count(ctx, begin, seen)
}

// count takes what became of the messages once all have left.
func (l *Target) count(ctx context.Context, before reading, seen *Observed) error {
	if err := sleep(ctx, drained); err != nil {
		return err
	}
	end, err := l.read(ctx)
	if err != nil {
		return err
	}
	counted, start := end.status.Counters, before.status.Counters
	seen.Sent, seen.Frames = int(counted.Sent-start.Sent), int(end.frames-before.frames)
	seen.Dropped, seen.KernelPath = counted.Dropped()-start.Dropped(), counted.KernelPath-start.KernelPath
	departures, err := l.daemon.departures(ctx)
	for _, departure := range departures {
		seen.DepartureNs = append(seen.DepartureNs, departure.DepartedTAI-departure.RequestedTAI)
	}
	return err
}
