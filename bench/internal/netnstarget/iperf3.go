// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/iperf3"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	// iperf3Port is the port of iperf3's server.
	iperf3Port = 5201
	// iperf3Slack is how much longer than the messages iperf3 sends, so that it begins before and ends after them.
	iperf3Slack = 2 * time.Second
	// iperf3GuestSlack is for a talker in an emulated machine, which is slow to start.
	iperf3GuestSlack = 8 * time.Second
)

// Iperf3Missing is the error if a profile needs iperf3 and it is missing.
func Iperf3Missing(profile *engine.Profile) error {
	wants := false
	for _, workload := range profile.Workloads {
		wants = wants || workload.Name == results.WorkloadGatesIperf3
	}
	if !wants {
		return nil
	}
	if _, err := exec.LookPath(iperf3.Program); err != nil {
		return fmt.Errorf("%s is missing, which workload %s runs beside the messages; install the package %s (scripts/install-deps.sh test), "+
			"or leave the workload out", iperf3.Program, results.WorkloadGatesIperf3, iperf3.Package)
	}
	return nil
}

// saturation is an iperf3 between the pods by the kernel's path. It is a nil pointer if a run has none.
type saturation struct {
	server, client *process.Process
	output         bytes.Buffer
}

// startIperf3 returns once it sends. The result must be stopped, also after an error.
func (l *Target) startIperf3(ctx context.Context, r engine.Run) (*saturation, error) {
	if r.Workload != results.WorkloadGatesIperf3 {
		return nil, nil
	}
	s := &saturation{}
	arguments := append(iperf3.ServerArguments(topology.PodAddressB, iperf3Port), l.yielding()...)
	var err error
	if s.server, err = process.Start(l.nodes.PodB, "iperf3 server", exec.Command(iperf3.Program, arguments...)); err != nil {
		return s, err
	}
	if err := yield(s.server); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, floodTimeout)
	defer cancel()
	for {
		err := l.startClient(ctx, r, s)
		if err == nil || !iperf3.NotListening(err) || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(readyPoll) // the server does not listen yet
	}
}

// yielding runs iperf3 on the talkers' processor.
func (l *Target) yielding() []string {
	if l.pinning.sender == traffic.NotPinned {
		return nil
	}
	return []string{"--affinity", strconv.Itoa(l.pinning.sender)}
}

// yield gives a program the processor time that the others leave.
func yield(program *process.Process) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, program.PID(), floodNice); err != nil {
		return fmt.Errorf("make %s yield: %w", program.Name(), err)
	}
	return nil
}

func (l *Target) startClient(ctx context.Context, r engine.Run, s *saturation) error {
	lasts := r.Duration() + iperf3Slack
	if results.InGuest(r.Path) {
		lasts += iperf3GuestSlack
	}
	lasts = lasts.Round(time.Second)
	test := iperf3.Test{Server: topology.PodAddressB, Port: iperf3Port, UDP: true, BufferBytes: engine.FloodPayload, Duration: lasts}
	command := exec.Command(iperf3.Program, append(test.ClientArguments(), l.yielding()...)...)
	s.output.Reset()
	command.Stdout = &s.output
	var err error
	if s.client, err = process.Start(l.nodes.PodA, "iperf3 client", command); err != nil {
		return err
	}
	if err := l.awaitFlood(ctx, s.client); err != nil {
		select {
		case <-s.client.Done(): // its JSON has the reason
			_, errSaid := iperf3.Parse(&s.output)
			return errors.Join(errSaid, err)
		default:
			return err
		}
	}
	return nil
}

// finish waits for its end and records the result.
func (s *saturation) finish(ctx context.Context, seen *traffic.Observation) error {
	if s == nil {
		return nil
	}
	select {
	case <-s.client.Done():
		seen.Problems = append(seen.Problems, "iperf3 ended before the messages did, so the run is invalid")
	default:
	}
	if err := wait(ctx, s.client); err != nil {
		return err
	}
	result, err := iperf3.Parse(&s.output)
	if err != nil {
		return err
	}
	seen.Values = map[string]float64{engine.ValueIperf3Bps: result.ReceivedBps, engine.ValueIperf3Lost: result.LostShare}
	return nil
}

func (s *saturation) stop() {
	if s == nil {
		return
	}
	for _, program := range []*process.Process{s.client, s.server} {
		if program != nil {
			_ = program.Stop(stopGrace)
		}
	}
}
