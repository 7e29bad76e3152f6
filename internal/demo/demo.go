// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/podnet"
	"github.com/kubernetsn/kubernetsn/internal/report"
	"github.com/kubernetsn/kubernetsn/internal/results"
	"github.com/kubernetsn/kubernetsn/internal/topology"
)

// Run measures, writes the results to config.OutDir and the report to config.Report, and removes
// everything it made, however it ends. The error is one sentence; results are written also when messages
// were lost or early, and then the error says so.
func Run(ctx context.Context, config *Config) (err error) {
	if err := config.check(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("the demo makes network namespaces and must run as root; try it with sudo")
	}
	programs, err := findPrograms(config.BinDir, slices.Contains(config.Paths, PathDirect))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(config.OutDir, 0o755); err != nil {
		return fmt.Errorf("make folder for results: %w", err)
	}
	pinning, err := choosePinning()
	if err != nil {
		return err
	}
	if err := sweep(config); err != nil {
		return err
	}
	nodes, err := topology.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nodes.Destroy()) }()

	lab := &lab{nodes: nodes, programs: programs, pinning: pinning, cycle: config.Cycle,
		wiring: podnet.Wire(nodes, programs.plugins, podIdentity)}
	// The receiving node needs no ktsnd.
	if err := lab.wiring.B.Attach(ctx, nil, ""); err != nil {
		return interrupted(ctx, err)
	}
	measurement, err := measure(ctx, config, lab)
	if err != nil {
		return interrupted(ctx, err)
	}
	return conclude(config, measurement, lab)
}

// sweep removes what a demo left that was killed before it could.
func sweep(config *Config) error {
	removed, err := topology.SweepStale()
	if err != nil {
		return fmt.Errorf("remove what an earlier demo left: %w", err)
	}
	if len(removed) > 0 {
		fmt.Fprintf(config.Progress, "removed what an earlier demo left: %v\n", removed)
	}
	return nil
}

// interrupted replaces whatever failed because the demo was told to stop.
func interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the demo was stopped before its end and removed what it had made: %w", cause)
	}
	return err
}

// measure performs all runs and returns what there is to say about them.
func measure(ctx context.Context, config *Config, lab *lab) (*report.Measurement, error) {
	host, err := results.DescribeHost(config.Now())
	if err != nil {
		return nil, err
	}
	csv, err := os.Create(messagesFile(lab))
	if err != nil {
		return nil, fmt.Errorf("write messages: %w", err)
	}
	defer csv.Close()
	session := &session{
		lab:      lab,
		blocks:   plan(config),
		now:      config.Now,
		recorder: newRecorder(config.Cycle.Nanoseconds(), csv),
		summary: &results.Summary{Schema: results.Schema, Host: host, Setup: setupOf(config, lab.pinning),
			Warnings: []string{}, Problems: []string{}},
	}
	session.progress = newProgress(config, session.blocks)
	defer session.progress.clear()
	if err := session.performAll(ctx); err != nil {
		return nil, err
	}
	summary := session.summary
	if summary.Runs, err = session.recorder.finish(); err != nil {
		return nil, err
	}
	summary.Figures = append(figures(summary.Runs, summary.Idle), gateFigures(summary.Runs, summary.Setup.Gates)...)
	summary.Problems = append(summary.Problems, session.recorder.problems...)
	return &report.Measurement{Summary: summary, Series: session.recorder.series()}, nil
}

func setupOf(config *Config, pinning pinning) results.Setup {
	return results.Setup{
		Messages:     config.perAlternation() * config.Alternations,
		Alternations: config.Alternations,
		SenderCPU:    pinning.sender,
		ListenerCPU:  pinning.listener,
		LeadNs:       lead.Nanoseconds(),
	}
}

// messagesFile is where messages are written until the demo has succeeded; the topology's directory goes
// away with it.
func messagesFile(lab *lab) string {
	return filepath.Join(lab.nodes.Dir, "messages.csv")
}

// session is the measurement under way.
type session struct {
	lab      *lab
	blocks   []block
	recorder *recorder
	progress *progress
	summary  *results.Summary
	now      func() time.Time
}

// performAll runs all blocks and watches what the hypervisor takes away meanwhile.
func (s *session) performAll(ctx context.Context) error {
	begin := s.now()
	stolenBefore, err := results.StolenTime()
	if err != nil {
		return err
	}
	for _, block := range s.blocks {
		if err := s.perform(ctx, block); err != nil {
			return err
		}
	}
	stolen, err := results.StolenTime()
	if err != nil {
		return err
	}
	s.summary.StolenCores = float64(stolen-stolenBefore) / float64(max(s.now().Sub(begin), 1))
	return nil
}

// perform runs one block with a ktsnd of its own, to which pod a is attached.
func (s *session) perform(ctx context.Context, block block) (err error) {
	var client *control.Client
	var controlSocket string
	if slices.ContainsFunc(block.runs, func(r run) bool { return r.path == PathDirect }) {
		s.lab.daemon, err = startDaemon(ctx, s.lab.nodes, s.lab.programs.ktsnd, settingOf(block, s.lab.pinning))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(s.lab.daemon.explain(err), s.lab.daemon.stop()) }()
		client, controlSocket = s.lab.daemon.client, s.lab.daemon.control
		if err := s.describeDaemon(ctx); err != nil {
			return err
		}
	}
	if err := s.lab.wiring.A.Attach(ctx, client, controlSocket); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.lab.wiring.A.Detach(context.WithoutCancel(ctx))) }()
	if block.gates {
		if err := s.setSchedule(ctx); err != nil {
			return err
		}
	}
	for _, run := range block.runs {
		if err := s.performRun(ctx, run); err != nil {
			return fmt.Errorf("%s, %s, %d B: %w", run.workload, run.path, run.payloadBytes, err)
		}
	}
	if block.idle {
		if err := s.idle(ctx); err != nil {
			return err
		}
	}
	s.collectWarnings()
	return nil
}

func settingOf(block block, pinning pinning) daemonSetting {
	setting := daemonSetting{cpu: pinning.sender, keepAwake: block.keepAwake}
	if block.gates {
		setting.linkSpeed = gatesLinkSpeed
	}
	return setting
}

func (s *session) setSchedule(ctx context.Context) error {
	schedule, err := s.lab.daemon.setSchedule(ctx, s.lab.cycle)
	if err != nil {
		return err
	}
	s.summary.Setup.Gates = &results.GateSetup{LeadNs: leadOf(WorkloadGates, s.lab.cycle).Nanoseconds(),
		LinkSpeedBps: schedule.LinkSpeedBps, GuardBandNs: schedule.GuardBandNs}
	return nil
}

// collectWarnings keeps each thing that ktsnd says once.
func (s *session) collectWarnings() {
	if s.lab.daemon == nil {
		return
	}
	for _, warning := range s.lab.daemon.process.Said() {
		if !slices.Contains(s.summary.Warnings, warning) {
			s.summary.Warnings = append(s.summary.Warnings, warning)
		}
	}
}

func (s *session) performRun(ctx context.Context, run run) error {
	s.progress.starts(run)
	outcome, err := s.lab.perform(ctx, run)
	if err != nil {
		return err
	}
	if err := s.progress.ended(run, outcome.samples.latency); err != nil {
		return err
	}
	if run.alternation == 0 {
		return nil
	}
	return s.recorder.add(run, outcome)
}

func (s *session) describeDaemon(ctx context.Context) error {
	status, err := s.lab.daemon.client.Status(ctx)
	if err != nil {
		return err
	}
	host := &s.summary.Host
	host.KtsndVersion, host.SpinNs = status.KtsndVersion, status.SpinNs
	host.Scheduler, host.SchedulerPriority = status.Scheduler, status.SchedulerPriority
	return nil
}

func (s *session) idle(ctx context.Context) error {
	s.progress.idles()
	cores, err := s.lab.daemon.idleCores(ctx, idleTime)
	if err != nil {
		return err
	}
	s.summary.Idle = &results.Idle{
		DurationNs: idleTime.Nanoseconds(),
		CPUCores:   map[string]float64{"ktsnd": cores},
	}
	return nil
}
