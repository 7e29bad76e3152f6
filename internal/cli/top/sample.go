// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Source is the part of the control client that Take uses.
type Source interface {
	Status(ctx context.Context) (*control.Status, error)
	Pods(ctx context.Context) ([]control.Pod, error)
	Flows(ctx context.Context) ([]control.Flow, error)
	Departures(ctx context.Context, after uint64) ([]control.Departure, uint64, error)
}

// Sample is the state of ktsnd at one time.
type Sample struct {
	At       time.Time
	Counters control.Counters
	Clock    control.Clock
	Pods     []control.Pod
	Flows    []control.Flow
	// Departures are the departures since the previous sample, Overwritten the number that ktsnd no longer had.
	Departures  []control.Departure
	Overwritten uint64
	// last is the number of the last departure that was read.
	last uint64
}

// Take takes a sample; before is the previous one, or nil for the first, which has no departures.
func Take(ctx context.Context, source Source, now func() time.Time, before *Sample) (*Sample, error) {
	status, err := source.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	sample := &Sample{At: now(), Counters: status.Counters, Clock: status.Clock}
	if sample.Flows, err = source.Flows(ctx); err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	if sample.Pods, err = source.Pods(ctx); err != nil {
		return nil, fmt.Errorf("read pods: %w", err)
	}
	if before == nil {
		// Each message that is sent is a departure.
		sample.last = status.Counters.Sent
		return sample, nil
	}
	sample.last = before.last
	if sample.Departures, sample.Overwritten, err = source.Departures(ctx, before.last); err != nil {
		return nil, fmt.Errorf("read departures: %w", err)
	}
	if count := len(sample.Departures); count > 0 {
		sample.last = sample.Departures[count-1].Sequence
	}
	return sample, nil
}
