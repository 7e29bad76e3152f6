// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// gatesLinkSpeed is the configured speed of the link: a veth reports 10 Gbit/s, which ktsnd cannot fill from one core.
// With this speed the window of a class is full when the link is, not when the processor is.
const gatesLinkSpeed = "1Gbit"

// scheduleTimeout limits the wait for the schedule: no cycle is that long.
const scheduleTimeout = 5 * time.Second

// setSchedule returns once the schedule is in force.
func (d *daemon) setSchedule(ctx context.Context, cycle time.Duration, window engine.Window) (*control.Schedule, error) {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	if err := d.client.ScheduleSet(ctx, traffic.ScheduleOf(cycle, window)); err != nil {
		return nil, fmt.Errorf("set schedule: %w", err)
	}
	var schedule *control.Schedule
	err := retry.Until(ctx, readyPoll, func() (err error) {
		if schedule, err = d.client.Schedule(ctx); err == nil && schedule.Table.ConfigPending {
			err = errors.New("the schedule is not in force yet")
		}
		return err
	})
	return schedule, err
}

// overruns returns the counters of transmission-overrun by class.
func (d *daemon) overruns(ctx context.Context) (counts [control.TrafficClasses]uint64, err error) {
	schedule, err := d.client.Schedule(ctx)
	if err != nil {
		return counts, err
	}
	for _, queue := range schedule.Table.QueueMaxSDUTable {
		if queue.TrafficClass >= control.TrafficClasses {
			return counts, errors.New("ktsnd reports a traffic class above 7")
		}
		counts[queue.TrafficClass] = queue.TransmissionOverrun
	}
	return counts, nil
}
