// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
)

// ends returns the ends between which a path's messages travel.
type ends struct {
	from, to        *topology.Namespace
	source, address netip.Addr
}

func endsOf(nodes *topology.Topology, path string) ends {
	if results.Route(path) == results.PathHost {
		return ends{nodes.NodeA, nodes.NodeB, topology.NodeAddressA, topology.NodeAddressB}
	}
	return ends{nodes.PodA, nodes.PodB, topology.PodAddressA, topology.PodAddressB}
}

// perform sends the messages of one run and observes them.
func (l *Target) perform(ctx context.Context, r engine.Run) (*engine.Outcome, error) {
	grace := traffic.RunGrace
	if results.InGuest(r.Path) {
		grace += traffic.GuestGrace
	}
	ctx, cancel := context.WithTimeout(ctx, r.Duration()+grace)
	defer cancel()
	seen := &traffic.Observation{Talkers: traffic.Talkers(r, l.lastRunID+1), ViaDaemon: results.ThroughKtsnd(r.Path), ViaSwitch: r.Path == results.PathOVS,
		CPUCores: map[string]float64{}}
	l.lastRunID += uint32(r.Talkers)
	if engine.HasGates(r.Workload) {
		seen.VLAN, seen.PCP = r.VLAN, uint8(traffic.PriorityOf(r))
		if seen.ViaDaemon {
			seen.Gates = &traffic.Gates{Cycle: r.Cycle(), Window: r.Window}
		}
	}
	if err := l.stamp(!r.Unsampled); err != nil {
		return nil, err
	}
	var watched results.Distributions
	if r.Workload == results.WorkloadGuestLoad {
		release, err := l.guests.load()
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if r.Unsampled {
		if err := l.traffic(ctx, r, seen, &watched); err != nil {
			return nil, err
		}
	} else if err := l.tapped(ctx, r, seen, &watched); err != nil {
		return nil, err
	}
	outcome, err := traffic.Join(seen)
	if err != nil {
		return nil, err
	}
	outcome.Observed.ClockError = results.OneClock()
	if seen.GuestClock != nil {
		outcome.Observed.ClockError = seen.GuestClock
	}
	outcome.Observed.MachineCores, outcome.Observed.MemoryBytes = watched.MachineCores, watched.MemoryBytes
	return outcome, nil
}

// tapped watches the link during the traffic.
func (l *Target) tapped(ctx context.Context, r engine.Run, seen *traffic.Observation, watched *results.Distributions) error {
	tap, err := l.openTap(r)
	if err != nil {
		return err
	}
	errTraffic := l.traffic(ctx, r, seen, watched)
	seen.Capture, err = tap.Stop()
	return errors.Join(errTraffic, err)
}

// expectedFrames is the largest number of frames of a run on the link: twice the messages and some ARP.
func (l *Target) expectedFrames(r engine.Run) int {
	frames := 2*r.Messages*r.Talkers + 1000
	for _, companion := range traffic.CompanionsOf(r, results.PathKernelVXLAN) {
		frames += companion.MostFrames(r)
	}
	return min(frames, wiretap.MaxFrames)
}

// openTap taps the receiving end of the link.
func (l *Target) openTap(r engine.Run) (tap *wiretap.Tap, err error) {
	frames := l.expectedFrames(r)
	err = l.nodes.NodeB.Do(func() error {
		if r.Workload == results.WorkloadGatesIperf3 {
			tap, err = wiretap.OpenWithout(topology.PhysicalInterface, frames, iperf3Port)
		} else {
			tap, err = wiretap.Open(topology.PhysicalInterface, frames)
		}
		return err
	})
	return tap, err
}

// traffic runs listener and talkers and reads their and ktsnd's records.
func (l *Target) traffic(ctx context.Context, r engine.Run, seen *traffic.Observation, watched *results.Distributions) error {
	if results.InGuest(r.Path) {
		return l.guestTraffic(ctx, r, seen, watched)
	}
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
	if seen.ViaDaemon {
		if watch, err = l.daemon.watch(ctx); err != nil {
			return err
		}
	}
	beside, err := l.startCompanions(ctx, r)
	defer beside.stop()
	if err != nil {
		return err
	}
	saturated, err := l.startIperf3(ctx, r)
	defer saturated.stop()
	if err != nil {
		return err
	}
	if err := l.talk(ctx, r, seen, listener, watched); err != nil {
		return err
	}
	if err := saturated.finish(ctx, seen); err != nil {
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
		seen.CPUCores["ovs-vswitchd"] = float64(after-switchCPU) / float64(end.Sub(begin))
	}
	if seen.Received, err = readFile(listenerFile, tsnperf.ReadListener); err != nil {
		return err
	}
	if watch == nil {
		return nil
	}
	return watch.finish(ctx, r, seen)
}

// talk runs the measured talkers, and waits until the listener has received the messages.
func (l *Target) talk(ctx context.Context, r engine.Run, seen *traffic.Observation, listener *process.Process,
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
	for number := range seen.Talkers {
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
	for number := range talkers {
		used, err := readFile(l.cpuTimeFile(number), tsnperf.ReadCPUTime)
		if err != nil {
			return err
		}
		seen.CPUCores["talker"] += float64(used) / float64(time.Duration(r.Messages)*r.Cycle())
		if seen.Talkers[number].Sent, err = readFile(l.talkerFile(number), tsnperf.ReadTalker); err != nil {
			return err
		}
	}
	seen.CPUCores["listener"] = float64(listener.Used()) / float64(listener.Lifetime())
	return nil
}

func (l *Target) talkerFile(number int) string {
	return filepath.Join(l.nodes.Dir, fmt.Sprintf("talker-%d.csv", number))
}

func (l *Target) cpuTimeFile(number int) string {
	return filepath.Join(l.nodes.Dir, fmt.Sprintf("talker-cpu-%d.csv", number))
}

func (l *Target) startTalker(r engine.Run, seen *traffic.Observation, number int) (*process.Process, error) {
	ends, talker := endsOf(l.nodes, r.Path), &seen.Talkers[number]
	arguments := append(traffic.MeasuredTalker(r, number, ends.address), traffic.Records(talker.RunID, l.talkerFile(number))...)
	arguments = append(arguments, "--cpu-time", l.cpuTimeFile(number))
	if talker.Port != 0 {
		arguments = append(arguments, "--bind", netip.AddrPortFrom(ends.source, talker.Port).String())
	}
	return process.Start(ends.from, "tsnperf talker", l.talkerCommand(r.Path, arguments))
}

// startListener returns once the listener listens.
func (l *Target) startListener(ctx context.Context, r engine.Run, seen *traffic.Observation, file string) (*process.Process, error) {
	readable, writable, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start tsnperf listener: %w", err)
	}
	defer readable.Close()
	ends := endsOf(l.nodes, r.Path)
	arguments := append(traffic.Listener(r, seen.Talkers, ends.address, l.listenerCPU()), "--csv", file, "--ready-fd", "3")
	command := exec.Command(l.programs.tsnperf, arguments...)
	command.ExtraFiles = []*os.File{writable}
	listener, err := process.Start(ends.to, "tsnperf listener", command)
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

// awaitReady waits for the byte by which a program reports that it is ready.
func awaitReady(ctx context.Context, from *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := io.ReadFull(from, make([]byte, 1))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// talkerCommand returns the command of a talker for a path.
func (l *Target) talkerCommand(path string, arguments []string) *exec.Cmd {
	arguments = append([]string{"talker", "--quiet", "--clock", "tai"}, arguments...)
	arguments = append(arguments, traffic.CPU(l.pinning.sender)...)
	arguments = append(arguments, l.scheduling.arguments(path)...)
	if !results.ThroughKtsnd(path) {
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
	if err := retry.Pause(ctx, duration); err != nil {
		return 0, err
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

func readFile[T any](path string, read func(io.Reader) (T, error)) (content T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return content, err
	}
	defer file.Close()
	return read(file)
}
