// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"
)

// Engine makes the runs of a plan that its store does not have yet.
type Engine struct {
	Store    *Store
	Target   Target
	Progress *Progress
	Now      func() time.Time
}

// Perform makes the runs. After an error, or when ctx ends, everything measured until then is in the store.
func (e *Engine) Perform(ctx context.Context, blocks []Block) error {
	planned := measured(blocks)
	blocks = e.missing(blocks)
	e.Progress.plan(blocks, e.Store.Manifest.Profile.means().Overhead)
	defer e.Progress.clear()
	if skipped := planned - measured(blocks); skipped > 0 {
		e.Progress.resumes(skipped, planned)
	}
	for _, block := range blocks {
		if err := e.performBlock(ctx, block); err != nil {
			return err
		}
	}
	return nil
}

// missing leaves out what was measured, and blocks and warm-ups of which nothing is left.
func (e *Engine) missing(blocks []Block) []Block {
	var left []Block
	for _, block := range blocks {
		remaining := Block{Setting: block.Setting}
		paths := map[string]bool{}
		for _, run := range block.Runs {
			if run.Number > 0 && !e.Store.Has(run) {
				paths[run.Path] = true
			}
		}
		for _, run := range block.Runs {
			if (run.Number == 0 && paths[run.Path]) || (run.Number > 0 && !e.Store.Has(run)) {
				remaining.Runs = append(remaining.Runs, run)
			}
		}
		if len(paths) > 0 {
			left = append(left, remaining)
		}
	}
	return left
}

func (e *Engine) performBlock(ctx context.Context, block Block) error {
	if err := e.Target.Prepare(ctx, block.Setting); err != nil {
		return err
	}
	e.Progress.prepared()
	if err := e.Store.learn(e.Target.Environment()); err != nil {
		return err
	}
	for _, run := range block.Runs {
		if err := e.performRun(ctx, run); err != nil {
			return fmt.Errorf("%s: %w", run.what(), err)
		}
	}
	return nil
}

func (e *Engine) performRun(ctx context.Context, run Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.Progress.starts(run)
	begin := e.Now()
	outcome, err := e.Target.Perform(ctx, run)
	if err != nil {
		return err
	}
	outcome.TookNs = int64(e.Now().Sub(begin))
	if err := e.Progress.ended(run, samplesOf(outcome.Messages, run.CycleNs).latency); err != nil {
		return err
	}
	if run.Number == 0 {
		return nil
	}
	return e.Store.Add(run, outcome)
}
