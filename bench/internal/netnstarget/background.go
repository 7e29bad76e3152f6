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

	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// Background is a load of many flows for measuring ktsnd: a number of pods with a process each, or as many as the flows
// need, whose sockets take turns.
type Background struct {
	Pods, FlowsPerPod int
	// Cycle is the time between two messages of a flow; those of all flows are spread evenly over it.
	Cycle time.Duration
	// Lead is how long before its transmit time a message is handed over.
	Lead time.Duration
	// Rounds is how many messages each flow sends.
	Rounds int
}

// Processes returns how many processes have the flows of a pod.
func (c *Background) Processes() int { return (c.FlowsPerPod + flowsPerProcess - 1) / flowsPerProcess }

// Messages returns the number of messages of all flows.
func (c *Background) Messages() int { return c.Pods * c.FlowsPerPod * c.Rounds }

// lasts returns the time from the transmit time of the first message to one cycle after that of the last.
func (c *Background) lasts() time.Duration { return c.Cycle * time.Duration(c.Rounds) }

const (
	// flowsPerProcess is below ktsnd's limit per process (256).
	flowsPerProcess = 250
	// backgroundFIFO is the SCHED_FIFO priority of talkers, below ktsnd's: they should be in time whatever else runs.
	backgroundFIFO = fifoPriority - 10
	// beforeFirst is the quiet time between the start of the background and the first message.
	beforeFirst = 50 * time.Millisecond
)

// discarded is the destination of the messages, although none arrives.
var discarded = netip.AddrPortFrom(topology.PodAddressB, 7)

// backgroundStarts are how long processes may take to start: if not all are ready on a busy machine when the first
// message is due, all start again, more slowly.
var backgroundStarts = []time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 120 * time.Millisecond}

// talker is a sending process of the background, and the files with its records and its processor time.
type talker struct {
	*process.Process
	records, cpuTime string
}

// pod is a pod of the background.
type pod struct {
	identity  string
	namespace *topology.Namespace
	socket    string
}

// Measure runs the background and watches ktsnd, which is new. It leaves nothing of the background, also after an
// error.
func (l *Target) Measure(ctx context.Context, c Background) (_ *Observed, err error) {
	seen := &Observed{}
	if seen.EmptyBytes, err = residentBytes(l.daemon.process.PID()); err != nil {
		return nil, err
	}
	if err := l.nodes.DiscardMessages(); err != nil {
		return nil, err
	}
	pods, err := l.addPods(ctx, c.Pods)
	defer func() { err = errors.Join(err, l.removePods(context.WithoutCancel(ctx), pods)) }()
	if err != nil {
		return nil, err
	}
	talkers, first, err := l.gather(ctx, c, pods)
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
		added := pod{identity: fmt.Sprintf("load%d", i)}
		added.socket = filepath.Join(l.nodes.Dir, added.identity+".sock")
		var err error
		if added.namespace, err = l.nodes.AddPod(added.identity, address); err != nil {
			return all, err
		}
		all = append(all, added)
		address = address.Next()
		if err := l.daemon.client.SocketAdd(ctx, added.identity, added.socket); err != nil {
			return all, err
		}
		if err := l.daemon.client.EndpointAdd(ctx, control.Endpoint{Identity: added.identity, Interface: topology.PodInterface,
			Netns: added.namespace.Path(), VNI: topology.VNI}); err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

// removePods removes pods from ktsnd; a ktsnd that has ended knows none.
func (l *Target) removePods(ctx context.Context, pods []pod) error {
	var err error
	for _, current := range pods {
		_ = l.daemon.client.EndpointDel(ctx, current.identity, topology.PodInterface)
		_ = l.daemon.client.SocketDel(ctx, current.identity)
		err = errors.Join(err, current.namespace.Destroy())
	}
	return err
}

// gather starts the talkers, again and more slowly if ktsnd did not get all of them, and returns when the first message
// is due.
func (l *Target) gather(ctx context.Context, c Background, pods []pod) ([]talker, time.Time, error) {
	flows := c.Pods * c.FlowsPerPod
	for _, each := range backgroundStarts {
		first := time.Now().Add(time.Second + each*time.Duration(len(c.shares(pods))) + time.Duration(flows)*time.Millisecond).Truncate(c.Cycle).Add(c.Cycle)
		talkers, err := l.startBackground(c, pods, first)
		if err != nil {
			return talkers, first, err
		}
		known, err := l.awaitFlows(ctx, flows, talkers, first.Add(-beforeFirst-c.Lead))
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

// share is the part of one process.
type share struct {
	pod   pod
	flows int
}

// shares divides the flows among processes.
func (c *Background) shares(pods []pod) []share {
	var all []share
	parts := c.Processes()
	for _, current := range pods {
		for part := range parts {
			all = append(all, share{current, c.FlowsPerPod*(part+1)/parts - c.FlowsPerPod*part/parts})
		}
	}
	return all
}

func (l *Target) startBackground(c Background, pods []pod, first time.Time) ([]talker, error) {
	var all []talker
	shares := c.shares(pods)
	for i, current := range shares {
		cycle := c.Cycle / time.Duration(current.flows)
		records, cpuTime := filepath.Join(l.nodes.Dir, fmt.Sprintf("background-%d.csv", i)), filepath.Join(l.nodes.Dir, fmt.Sprintf("background-%d.cpu", i))
		arguments := []string{"talker", "--quiet", "--clock", "tai", "--to", discarded.String(),
			"--sockets", strconv.Itoa(current.flows), "--cycle", traffic.Nanoseconds(cycle), "--lead", traffic.Nanoseconds(c.Lead),
			"--count", strconv.Itoa(current.flows * c.Rounds), "--start", strconv.FormatInt(taiOf(first), 10),
			"--offset", traffic.Nanoseconds(cycle * time.Duration(i) / time.Duration(len(shares))), "--csv", records, "--cpu-time", cpuTime}
		if l.scheduling.fifo > 0 {
			arguments = append(arguments, "--fifo", strconv.Itoa(backgroundFIFO))
		}
		command := exec.Command(l.programs.tsnperf, append(arguments, traffic.CPU(l.pinning.listener)...)...)
		command.Env = append(os.Environ(), "LD_PRELOAD="+l.programs.library, "KTSN_SOCKET="+current.pod.socket)
		started, err := process.Start(current.pod.namespace, "tsnperf talker of "+current.pod.identity, command)
		if err != nil {
			return all, err
		}
		all = append(all, talker{started, records, cpuTime})
	}
	return all, nil
}

// taiOf converts a time by the current difference of the clocks.
func taiOf(at time.Time) int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // every kernel has this clock
	return now.Nano() + int64(time.Until(at))
}

// awaitFlows reports whether ktsnd has a number of flows before a deadline. It fails if a talker ends earlier.
func (l *Target) awaitFlows(ctx context.Context, flows int, talkers []talker, until time.Time) (bool, error) {
	for time.Now().Before(until) {
		for _, current := range talkers {
			select {
			case <-current.Done():
				return false, current.Ended()
			default:
			}
		}
		status, err := l.daemon.client.Status(ctx)
		if err != nil || status.Flows == flows {
			return err == nil, err
		}
		if err := retry.Pause(ctx, readyPoll); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (l *Target) awaitNoFlows(ctx context.Context) error {
	_, err := l.awaitFlows(ctx, 0, nil, time.Now().Add(readyTimeout))
	return err
}

func stopAll(talkers []talker) {
	for _, current := range talkers {
		_ = current.Stop(stopGrace)
	}
}
