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
	"github.com/kubernetsn/kubernetsn/internal/podnet"
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
	wiring   *podnet.Wiring
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
	if hasGates(r.workload) {
		seen.gates = &gatesSeen{cycle: l.cycle}
	}

	tap, err := l.openTap(l.expectedFrames(r))
	if err != nil {
		return nil, err
	}
	errTraffic := l.traffic(ctx, r, seen, tap)
	seen.capture, err = tap.Stop()
	if err := errors.Join(errTraffic, err); err != nil {
		return nil, err
	}
	return join(seen)
}

// expectedFrames is how many frames a run puts on the link at most: twice the messages and some ARP.
func (l *lab) expectedFrames(r run) int {
	frames := 2*r.messages + 1000
	for _, companion := range companionsOf(r.workload, l.cycle) {
		frames += companion.mostFrames(r, l.cycle)
	}
	return min(frames, wiretap.MaxFrames)
}

// openTap taps the receiving end of the link.
func (l *lab) openTap(frames int) (tap *wiretap.Tap, err error) {
	err = l.nodes.NodeB.Do(func() error {
		tap, err = wiretap.Open(topology.PhysicalInterface, frames)
		return err
	})
	return tap, err
}

// traffic runs listener and talker and reads what they, and ktsnd, have to say.
func (l *lab) traffic(ctx context.Context, r run, seen *observation, tap *wiretap.Tap) error {
	listenerFile := filepath.Join(l.nodes.Dir, "listener.csv")
	talkerFile := filepath.Join(l.nodes.Dir, "talker.csv")
	listener, err := l.startListener(ctx, r, seen.runID, listenerFile)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Stop(stopGrace) }()
	var watch *watch
	if seen.viaDaemon {
		if watch, err = l.daemon.watch(ctx); err != nil {
			return err
		}
	}
	beside, err := l.startCompanions(ctx, r, tap)
	defer beside.stop()
	if err != nil {
		return err
	}
	talker, err := process.Start(wayOf(l.nodes, r.path).from, "tsnperf talker",
		l.talkerCommand(r.path, append(l.talkerArguments(r), records(seen.runID, talkerFile)...)))
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
	if err := beside.finish(seen); err != nil {
		return err
	}
	if seen.sent, err = readFile(talkerFile, perf.ReadTalker); err != nil {
		return err
	}
	if seen.received, err = readFile(listenerFile, perf.ReadListener); err != nil {
		return err
	}
	if watch == nil {
		return nil
	}
	return watch.finish(ctx, r, l.cycle, seen)
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

// talkerArguments are those of the talker that is measured.
func (l *lab) talkerArguments(r run) []string {
	arguments := []string{
		"--to", netip.AddrPortFrom(wayOf(l.nodes, r.path).address, listenPort).String(),
		"--cycle", nanoseconds(l.cycle),
		"--size", strconv.Itoa(r.payloadBytes),
		"--count", strconv.Itoa(r.messages),
		"--lead", nanoseconds(leadOf(r.workload, l.cycle))}
	if offset := offsetOf(r.workload, l.cycle); offset != 0 {
		arguments = append(arguments, "--offset", nanoseconds(offset))
	}
	if priority := priorityOf(r.workload); priority != 0 {
		arguments = append(arguments, "--priority", strconv.Itoa(priority))
	}
	return arguments
}

// records says by which number a talker's messages are known, and where it writes what became of them.
func records(runID uint32, file string) []string {
	return []string{"--run-id", strconv.FormatUint(uint64(runID), 10), "--csv", file}
}

// talkerCommand is a talker whose messages take a path.
func (l *lab) talkerCommand(path string, arguments []string) *exec.Cmd {
	arguments = append([]string{"talker", "--quiet", "--clock", "tai"}, arguments...)
	arguments = append(arguments, cpuArguments(l.pinning.sender)...)
	if path != PathDirect {
		return exec.Command(l.programs.tsnperf, append(arguments, "--no-txtime")...)
	}
	command := exec.Command(l.programs.tsnperf, arguments...)
	command.Env = append(os.Environ(), "LD_PRELOAD="+l.programs.library, "KTSN_SOCKET="+l.wiring.A.Socket())
	return command
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
