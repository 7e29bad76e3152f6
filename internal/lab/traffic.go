// SPDX-License-Identifier: Apache-2.0

package lab

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

	"github.com/kubernetsn/kubernetsn/internal/bench"
	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/process"
	"github.com/kubernetsn/kubernetsn/internal/results"
	"github.com/kubernetsn/kubernetsn/internal/topology"
	"github.com/kubernetsn/kubernetsn/internal/wiretap"
)

const (
	// listenPort is where the listener waits, on whichever address.
	listenPort = 7788
	// talkerPort is where the first of several talkers sends from; the others follow.
	talkerPort = 7800
	// lead is how long before its transmit time the talker hands a timed message over: far enough for a talker
	// that is late itself, and not a whole number of cycles, or its timer would interrupt ktsnd, which shares
	// its processor, at the very moment of a departure.
	lead = 2500 * time.Microsecond
	// idleTimeout ends the listener when messages are missing.
	idleTimeout = 2 * time.Second
	// firstTimeout ends it when none came at all.
	firstTimeout = 10 * time.Second
	// runGrace is what a run may take beyond its messages before it counts as stuck.
	runGrace = 30 * time.Second
)

// way is between which ends a path's messages travel.
type way struct {
	from, to        *topology.Namespace
	source, address netip.Addr
}

func wayOf(nodes *topology.Topology, path string) way {
	if path == results.PathHost {
		return way{nodes.NodeA, nodes.NodeB, topology.NodeAddressA, topology.NodeAddressB}
	}
	return way{nodes.PodA, nodes.PodB, topology.PodAddressA, topology.PodAddressB}
}

// perform sends the messages of one run and observes them.
func (l *Lab) perform(ctx context.Context, r bench.Run) (*bench.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Duration()+runGrace)
	defer cancel()
	seen := &observation{viaDaemon: results.ViaKtsnd(r.Path), cpuCores: map[string]float64{}}
	for talker := range r.Talkers {
		l.lastRunID++
		one := talkerSeen{runID: l.lastRunID}
		if r.Talkers > 1 {
			one.port = talkerPort + uint16(talker)
		}
		seen.talkers = append(seen.talkers, one)
	}
	if bench.HasGates(r.Workload) {
		seen.gates = &gatesSeen{cycle: r.Cycle()}
	}
	if err := l.stamp(!r.Unsampled); err != nil {
		return nil, err
	}
	var watched results.Distributions
	if r.Unsampled {
		if err := l.traffic(ctx, r, seen, &watched); err != nil {
			return nil, err
		}
	} else if err := l.tapped(ctx, r, seen, &watched); err != nil {
		return nil, err
	}
	outcome, err := join(seen)
	if err != nil {
		return nil, err
	}
	outcome.Observed.MachineCores, outcome.Observed.MemoryBytes = watched.MachineCores, watched.MemoryBytes
	return outcome, nil
}

// tapped watches the link while there is traffic.
func (l *Lab) tapped(ctx context.Context, r bench.Run, seen *observation, watched *results.Distributions) error {
	tap, err := l.openTap(l.expectedFrames(r))
	if err != nil {
		return err
	}
	errTraffic := l.traffic(ctx, r, seen, watched)
	seen.capture, err = tap.Stop()
	return errors.Join(errTraffic, err)
}

// expectedFrames is how many frames a run puts on the link at most: twice the messages and some ARP.
func (l *Lab) expectedFrames(r bench.Run) int {
	frames := 2*r.Messages*r.Talkers + 1000
	for _, companion := range companionsOf(r.Workload, r.Cycle()) {
		frames += companion.mostFrames(r)
	}
	return min(frames, wiretap.MaxFrames)
}

// openTap taps the receiving end of the link.
func (l *Lab) openTap(frames int) (tap *wiretap.Tap, err error) {
	err = l.nodes.NodeB.Do(func() error {
		tap, err = wiretap.Open(topology.PhysicalInterface, frames)
		return err
	})
	return tap, err
}

// traffic runs listener and talkers and reads what they, and ktsnd, have to say.
func (l *Lab) traffic(ctx context.Context, r bench.Run, seen *observation, watched *results.Distributions) error {
	listenerFile := filepath.Join(l.nodes.Dir, "listener.csv")
	listener, err := l.startListener(ctx, r, seen, listenerFile)
	if err != nil {
		return err
	}
	switchCPU, begin, err := l.switchTime()
	if err != nil {
		return errors.Join(err, listener.Stop(stopGrace))
	}
	defer func() { _ = listener.Stop(stopGrace) }()
	var watch *watch
	if seen.viaDaemon {
		if watch, err = l.daemon.watch(ctx); err != nil {
			return err
		}
	}
	beside, err := l.startCompanions(ctx, r)
	defer beside.stop()
	if err != nil {
		return err
	}
	if err := l.talk(ctx, r, seen, listener, watched); err != nil {
		return err
	}
	if err := beside.finish(seen); err != nil {
		return err
	}
	if l.ovs != nil {
		after, end, err := l.switchTime()
		if err != nil {
			return err
		}
		seen.cpuCores["ovs-vswitchd"] = float64(after-switchCPU) / float64(end.Sub(begin))
	}
	if seen.received, err = readFile(listenerFile, perf.ReadListener); err != nil {
		return err
	}
	if watch == nil {
		return nil
	}
	return watch.finish(ctx, r, seen)
}

// talk runs the measured talkers, and waits for the listener to have heard them.
func (l *Lab) talk(ctx context.Context, r bench.Run, seen *observation, listener *process.Process,
	watched *results.Distributions) error {
	programs := map[string]*process.Process{"listener": listener}
	if l.daemon != nil {
		programs["ktsnd"] = l.daemon.process
	}
	var talkers []*process.Process
	defer func() {
		for _, talker := range talkers {
			_ = talker.Stop(stopGrace)
		}
	}()
	for number := range seen.talkers {
		talker, err := l.startTalker(r, seen, number)
		if err != nil {
			return err
		}
		talkers = append(talkers, talker)
		programs["talker"] = talker
	}
	var sampler *sampler
	if !r.Unsampled {
		var err error
		if sampler, err = startSampler(ctx, programs); err != nil {
			return err
		}
	}
	for _, talker := range talkers {
		if err := wait(ctx, talker); err != nil {
			return errors.Join(err, sampler.finish(watched))
		}
	}
	if err := errors.Join(wait(ctx, listener), sampler.finish(watched)); err != nil {
		return err
	}
	for number, talker := range talkers {
		seen.cpuCores["talker"] += float64(talker.Used()) / float64(time.Duration(r.Messages)*r.Cycle())
		var err error
		if seen.talkers[number].sent, err = readFile(l.talkerFile(number), perf.ReadTalker); err != nil {
			return err
		}
	}
	seen.cpuCores["listener"] = float64(listener.Used()) / float64(listener.Lifetime())
	return nil
}

func (l *Lab) talkerFile(number int) string {
	return filepath.Join(l.nodes.Dir, fmt.Sprintf("talker-%d.csv", number))
}

func (l *Lab) startTalker(r bench.Run, seen *observation, number int) (*process.Process, error) {
	way, talker := wayOf(l.nodes, r.Path), &seen.talkers[number]
	arguments := append(l.talkerArguments(r, number), records(talker.runID, l.talkerFile(number))...)
	if talker.port != 0 {
		arguments = append(arguments, "--bind", netip.AddrPortFrom(way.source, talker.port).String())
	}
	return process.Start(way.from, "tsnperf talker", l.talkerCommand(r.Path, arguments))
}

// startListener returns once the listener listens.
func (l *Lab) startListener(ctx context.Context, r bench.Run, seen *observation, file string) (*process.Process, error) {
	readable, writable, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start tsnperf listener: %w", err)
	}
	defer readable.Close()
	way := wayOf(l.nodes, r.Path)
	arguments := []string{"listener", "--poll", "--quiet",
		"--bind", netip.AddrPortFrom(way.address, listenPort).String(),
		"--count", strconv.Itoa(r.Messages * r.Talkers),
		"--idle-timeout", nanoseconds(idleTimeout), "--first-timeout", nanoseconds(firstTimeout),
		"--csv", file,
		"--ready-fd", "3"}
	if len(seen.talkers) == 1 { // several are told from each other, and from others, by their ports
		arguments = append(arguments, "--run-id", strconv.FormatUint(uint64(seen.talkers[0].runID), 10))
	}
	command := exec.Command(l.programs.tsnperf, append(arguments, cpuArguments(l.listenerCPU())...)...)
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

// talkerArguments are those of a talker that is measured.
func (l *Lab) talkerArguments(r bench.Run, number int) []string {
	arguments := []string{
		"--to", netip.AddrPortFrom(wayOf(l.nodes, r.Path).address, listenPort).String(),
		"--cycle", nanoseconds(r.Cycle()),
		"--size", strconv.Itoa(r.PayloadBytes),
		"--count", strconv.Itoa(r.Messages),
		"--lead", nanoseconds(leadAmong(r))}
	if offset := offsetOf(r, number); offset != 0 {
		arguments = append(arguments, "--offset", nanoseconds(offset))
	}
	if priority := priorityOf(r.Workload); priority != 0 {
		arguments = append(arguments, "--priority", strconv.Itoa(priority))
	}
	return arguments
}

// records says by which number a talker's messages are known, and where it writes what became of them.
func records(runID uint32, file string) []string {
	return []string{"--run-id", strconv.FormatUint(uint64(runID), 10), "--csv", file}
}

// talkerCommand is a talker whose messages take a path.
func (l *Lab) talkerCommand(path string, arguments []string) *exec.Cmd {
	arguments = append([]string{"talker", "--quiet", "--clock", "tai"}, arguments...)
	arguments = append(arguments, cpuArguments(l.pinning.sender)...)
	if !results.ViaKtsnd(path) {
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
