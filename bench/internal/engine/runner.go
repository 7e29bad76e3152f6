// SPDX-License-Identifier: Apache-2.0

// Package engine turns a profile into measurements and measurements into figures. A Target performs the runs (package
// netnstarget has one with network namespaces).
//
//	profile ──► plan ──► engine ──► target: one run after the other
//	                       │
//	                       ▼
//	                     store        one file per run, written at once, with every message
//	                       │
//	                       ▼
//	            collect: figures, ratios ──► report, comparison, assertions
//
// The order of a plan depends only on its profile, so an interrupted bench can be continued: runs in the store are not
// repeated. All results are computed from the store, whether the bench has just ended, was interrupted, or ran
// elsewhere.
//
// The files: profile and parse (the request), workload (the choices), plan (the order of runs), runner and
// progress (performing them), store (the data), collect, samples, ratios and figures (the results), assert and compare
// (questions about them).
package engine

import (
	"context"
	"fmt"
	"time"
)

// Runner performs the runs of a plan that its store does not have yet.
type Runner struct {
	Store    *Store
	Target   Target
	Progress *Progress
	Now      func() time.Time
}

// Perform performs the runs. After an error, or when ctx ends, the store has all measurements so far.
func (r *Runner) Perform(ctx context.Context, blocks []Block) error {
	planned := measured(blocks)
	blocks = r.missing(blocks)
	r.Progress.plan(blocks, r.Store.Manifest.Profile.means().Overhead)
	defer r.Progress.clear()
	if skipped := planned - measured(blocks); skipped > 0 {
		r.Progress.resumes(skipped, planned)
	}
	for _, block := range blocks {
		if err := r.performBlock(ctx, block); err != nil {
			return err
		}
	}
	return nil
}

// missing drops measured runs, and blocks and warm-ups without any run left.
func (r *Runner) missing(blocks []Block) []Block {
	var left []Block
	for _, block := range blocks {
		remaining := Block{Setting: block.Setting}
		paths := map[string]bool{}
		for _, run := range block.Runs {
			if run.Number > 0 && !r.Store.Has(run) {
				paths[run.Path] = true
			}
		}
		for _, run := range block.Runs {
			if (run.Number == 0 && paths[run.Path]) || (run.Number > 0 && !r.Store.Has(run)) {
				remaining.Runs = append(remaining.Runs, run)
			}
		}
		if len(paths) > 0 {
			left = append(left, remaining)
		}
	}
	return left
}

func (r *Runner) performBlock(ctx context.Context, block Block) error {
	if err := r.Target.Prepare(ctx, block.Setting); err != nil {
		return err
	}
	r.Progress.prepared()
	if err := r.Store.learn(r.Target.Environment()); err != nil {
		return err
	}
	for _, run := range block.Runs {
		if err := r.performRun(ctx, run); err != nil {
			return fmt.Errorf("%s: %w", run.what(), err)
		}
	}
	return nil
}

func (r *Runner) performRun(ctx context.Context, run Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Progress.starts(run)
	begin := r.Now()
	outcome, err := r.Target.Perform(ctx, run)
	if err != nil {
		return err
	}
	outcome.TookNs = int64(r.Now().Sub(begin))
	if err := r.Progress.ended(run, samplesOf(outcome.Messages, &run).latency); err != nil {
		return err
	}
	if run.Number == 0 {
		return nil
	}
	if !HasGates(run.Workload) {
		outcome.Observed.AddSendingCores(run.Path)
	}
	return r.Store.Add(run, outcome)
}
