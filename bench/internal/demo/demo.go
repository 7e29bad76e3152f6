// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstarget"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// storeName is the folder for the runs in the target's own, which is removed with it.
const storeName = "bench"

// Run measures, writes the results to config.OutDir and the report to config.Report, and always removes everything that
// it created. Results are written also if messages were lost or early; then an error says so.
func Run(ctx context.Context, config *Config) (err error) {
	if err := config.check(); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		config.leaveOVS(ctx, netnstarget.OVSMissing)
	}
	if err := config.check(); err != nil {
		return err
	}
	profile := config.profile()
	programs, err := netnstarget.FindPrograms(config.BinDir, slices.ContainsFunc(config.Paths, results.ThroughKtsnd))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(config.OutDir, 0o755); err != nil {
		return fmt.Errorf("make folder for results: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := topology.Sweep(config.Progress); err != nil {
			return err
		}
	}
	target, err := netnstarget.Open(ctx, programs, profile)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, target.Close(ctx)) }()
	store, err := measure(ctx, config, profile, target)
	if err != nil {
		return interrupted(ctx, err)
	}
	return errors.Join(conclude(config, store), store.Close())
}

// leaveOVS leaves path ovs out if it is not available, and records why.
func (c *Config) leaveOVS(ctx context.Context, missing func(context.Context) error) {
	at := slices.Index(c.Paths, results.PathOVS)
	if at < 0 {
		return
	}
	if err := missing(ctx); err != nil {
		fmt.Fprintf(c.Report, "Path ovs is skipped: %v\n", err)
		c.Paths = slices.Delete(slices.Clone(c.Paths), at, at+1)
		c.Workloads = slices.DeleteFunc(slices.Clone(c.Workloads), func(name string) bool { return name == results.WorkloadPMDSleep })
	}
}

// interrupted replaces an error if the demo was interrupted.
func interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the demo was stopped before its end and removed what it had made: %w", cause)
	}
	return err
}

// measure performs all runs into a store in the target's folder.
func measure(ctx context.Context, config *Config, profile *engine.Profile, target *netnstarget.Target) (*engine.Store, error) {
	host, err := results.DescribeHost(config.Now())
	if err != nil {
		return nil, err
	}
	blocks := engine.Plan(profile)
	store, err := engine.OpenStore(filepath.Join(target.Dir(), storeName), engine.NewManifest(profile, host, target.Environment()))
	if err != nil {
		return nil, err
	}
	runner := &engine.Runner{Store: store, Target: target, Now: config.Now,
		Progress: engine.NewProgress(config.Progress, config.ProgressColumns, config.Now)}
	if err := runner.Perform(ctx, blocks); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}
