// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/process"
	"github.com/kubernetsn/kubernetsn/internal/topology"
	"github.com/kubernetsn/kubernetsn/internal/wiretap"
)

const (
	// listenPort is where the listener waits, on whichever address.
	listenPort = 7788
	// lead is how long before its transmit time the talker hands a timed message over: far enough for a talker
	// that is late itself, and not a whole number of cycles, or its timer would interrupt ktsnd, which shares
	// its processor, at the very moment of a departure.
	lead = 2500 * time.Microsecond
	// idleTimeout ends the listener when messages are missing.
	idleTimeout = time.Second
	// firstTimeout ends it when none came at all.
	firstTimeout = 10 * time.Second
	// runGrace is what a run may take beyond its messages before it counts as stuck.
	runGrace = 30 * time.Second
)

// way is between which ends a path's messages travel.
type way struct {
	from, to *topology.Namespace
	address  netip.Addr
}

func wayOf(nodes *topology.Topology, path string) way {
	if path == PathHost {
		return way{nodes.NodeA, nodes.NodeB, topology.NodeAddressB}
	}
	return way{nodes.PodA, nodes.PodB, topology.PodAddressB}
}

// lab is where the runs take place.
type lab struct {
	nodes    *topology.Topology
	programs programs
	pinning  pinning
	cycle    time.Duration
	// daemon is nil when no path needs it.
	daemon *daemon
	// lastRunID tells the messages of a run from those of others.
	lastRunID uint32
}

// perform sends the messages of one run and observes them.
func (l *lab) perform(ctx context.Context, r run) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, r.duration(l.cycle)+runGrace)
	defer cancel()
	l.lastRunID++
	seen := &observation{runID: l.lastRunID, cycleNs: l.cycle.Nanoseconds(), viaDaemon: r.path == PathDirect}

	tap, err := l.openTap(r.messages)
	if err != nil {
		return nil, err
	}
	errTraffic := l.traffic(ctx, r, seen)
	seen.capture, err = tap.Stop()
	if err := errors.Join(errTraffic, err); err != nil {
		return nil, err
	}
	return join(seen)
}

// openTap taps the receiving end of the link, with room for twice the messages and some ARP.
func (l *lab) openTap(messages int) (tap *wiretap.Tap, err error) {
	err = l.nodes.NodeB.Do(func() error {
		tap, err = wiretap.Open(topology.PhysicalInterface, 2*messages+1000)
		return err
	})
	return tap, err
}

// traffic runs listener and talker and reads what they, and ktsnd, have to say.
func (l *lab) traffic(ctx context.Context, r run, seen *observation) error {
	listenerFile := filepath.Join(l.nodes.Dir, "listener.csv")
	talkerFile := filepath.Join(l.nodes.Dir, "talker.csv")
	listener, err := l.startListener(ctx, r, seen.runID, listenerFile)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Stop(stopGrace) }()
	usage, err := l.watchDaemon(ctx, r, seen)
	if err != nil {
		return err
	}
	talker, err := process.Start(wayOf(l.nodes, r.path).from, "tsnperf talker",
		l.talkerCommand(r, seen.runID, talkerFile))
	if err != nil {
		return err
	}
	defer func() { _ = talker.Stop(stopGrace) }()
	if err := wait(ctx, talker); err != nil {
		return err
	}
	if err := wait(ctx, listener); err != nil {
		return err
	}
	if seen.sent, err = readFile(talkerFile, perf.ReadTalker); err != nil {
		return err
	}
	if seen.received, err = readFile(listenerFile, perf.ReadListener); err != nil {
		return err
	}
	return usage(ctx)
}

// startListener returns once the listener listens.
func (l *lab) startListener(ctx context.Context, r run, runID uint32, file string) (*process.Process, error) {
	readable, writable, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start tsnperf listener: %w", err)
	}
	defer readable.Close()
	way := wayOf(l.nodes, r.path)
	arguments := []string{"listener", "--poll", "--quiet",
		"--bind", netip.AddrPortFrom(way.address, listenPort).String(),
		"--count", strconv.Itoa(r.messages),
		"--idle-timeout", nanoseconds(idleTimeout), "--first-timeout", nanoseconds(firstTimeout),
		"--run-id", strconv.FormatUint(uint64(runID), 10),
		"--csv", file,
		"--ready-fd", "3"}
	command := exec.Command(l.programs.tsnperf, append(arguments, cpuArguments(l.pinning.listener)...)...)
	command.ExtraFiles = []*os.File{writable}
	listener, err := process.Start(way.to, "tsnperf listener", command)
	writable.Close()
	if err != nil {
		return nil, err
	}
	if err := awaitReady(ctx, readable); err != nil {
		return nil, errors.Join(fmt.Errorf("tsnperf listener is not ready: %w", err),
			listener.Stop(stopGrace), listener.Wait())
	}
	return listener, nil
}

// awaitReady waits for the byte by which a program says that it is ready.
func awaitReady(ctx context.Context, from *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := io.ReadFull(from, make([]byte, 1))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (l *lab) talkerCommand(r run, runID uint32, file string) *exec.Cmd {
	arguments := []string{"talker", "--quiet",
		"--to", netip.AddrPortFrom(wayOf(l.nodes, r.path).address, listenPort).String(),
		"--cycle", nanoseconds(l.cycle), "--clock", "tai",
		"--size", strconv.Itoa(r.payloadBytes),
		"--count", strconv.Itoa(r.messages),
		"--run-id", strconv.FormatUint(uint64(runID), 10),
		"--csv", file}
	arguments = append(arguments, cpuArguments(l.pinning.sender)...)
	if r.path != PathDirect {
		return exec.Command(l.programs.tsnperf, append(arguments, "--no-txtime")...)
	}
	command := exec.Command(l.programs.tsnperf, append(arguments, "--lead", nanoseconds(lead))...)
	command.Env = append(os.Environ(), "LD_PRELOAD="+l.programs.library, "KTSN_SOCKET="+l.daemon.socket)
	return command
}

// watchDaemon begins to watch what ktsnd does for a run of its messages; the function it returns, called
// after the run, completes the observation. Without ktsnd there is nothing to watch.
func (l *lab) watchDaemon(ctx context.Context, r run, seen *observation) (finish func(context.Context) error, err error) {
	if !seen.viaDaemon {
		return func(context.Context) error { return nil }, nil
	}
	before, err := l.daemon.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	cpuBefore, err := process.CPUTime(l.daemon.process.PID())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		cpuAfter, err := process.CPUTime(l.daemon.process.PID())
		if err != nil {
			return err
		}
		wall := time.Since(begin)
		after, err := l.daemon.client.Status(ctx)
		if err != nil {
			return err
		}
		seen.late = after.Counters.Late() - before.Counters.Late()
		// A sleeping ktsnd takes nothing before and after the messages, so that their time alone counts and
		// the programs' start and end do not dilute the share. One that keeps its core awake never sleeps.
		during := time.Duration(len(seen.sent)) * l.cycle
		if r.workload == workloadKeepAwake {
			during = wall
		}
		seen.cpuCores = map[string]float64{"ktsnd": float64(cpuAfter-cpuBefore) / float64(during)}
		seen.departures, err = l.daemon.departures(ctx)
		return err
	}, nil
}

// idleCores is ktsnd's share of a core while it has nothing to send.
func (d *daemon) idleCores(ctx context.Context, duration time.Duration) (float64, error) {
	before, err := process.CPUTime(d.process.PID())
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(duration):
	}
	after, err := process.CPUTime(d.process.PID())
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(time.Since(begin)), nil
}

// wait waits for a program to end by itself.
func wait(ctx context.Context, running *process.Process) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", running.Name(), ctx.Err())
	case <-running.Done():
		return running.Wait()
	}
}

func readFile[T any](path string, read func(io.Reader) ([]T, error)) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file)
}

func cpuArguments(cpu int) []string {
	if cpu == notPinned {
		return nil
	}
	return []string{"--cpu", strconv.Itoa(cpu)}
}

// nanoseconds writes a duration as tsnperf reads it.
func nanoseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Nanoseconds(), 10) + "ns"
}
