// SPDX-License-Identifier: Apache-2.0

// Package devices repairs bridges, tunnels and ports of the node's networks that other programs change.
package devices

import (
	"context"
	"log/slog"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
)

// Repairer repairs the devices of all networks periodically and after changes.
type Repairer struct {
	// Repair repairs all networks. It returns what it repaired, and by VNI why a network could not be repaired: nil if that is not known of
	// all.
	Repair func(ctx context.Context) (repaired []string, faults map[uint32]error, err error)
	// Watch calls changed for changes that may have to be repaired, until ctx ends.
	Watch func(ctx context.Context, changed func()) error
	// Report gets the faults after each attempt.
	Report func(faults map[uint32]error)
	// Repaired is called after devices were repaired.
	Repaired func(what []string)
	Log      *slog.Logger
}

const (
	// settle is how long after a change devices are repaired: network plugins and others make several changes. It doubles while each
	// change has to be repaired, because another program changes the devices again and again.
	settle = 500 * time.Millisecond
	// watchAgain is the time until a failed watch is started again.
	watchAgain = 5 * time.Second
)

// Run repairs until ctx ends.
func (r *Repairer) Run(ctx context.Context) error {
	changes := make(chan struct{}, 1)
	go r.watch(ctx, changes)
	for pause := settle; ; {
		if r.repair(ctx) {
			pause = min(2*pause, repeat.Every)
		} else {
			pause = settle
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(repeat.Every):
		case <-changes:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pause):
			}
		}
	}
}

func (r *Repairer) watch(ctx context.Context, changes chan<- struct{}) {
	for ctx.Err() == nil {
		err := r.Watch(ctx, func() {
			select {
			case changes <- struct{}{}:
			default: // one is enough
			}
		})
		if ctx.Err() == nil {
			r.Log.Warn("changes of devices are noticed later", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// repair reports whether something had to be repaired.
func (r *Repairer) repair(ctx context.Context) bool {
	repaired, faults, err := r.Repair(ctx)
	if ctx.Err() != nil {
		return false
	}
	if len(repaired) > 0 {
		r.Log.Info("repaired devices that another program changed", "repairs", repaired)
		r.Repaired(repaired)
	}
	if err != nil {
		r.Log.Warn("devices cannot be repaired", "error", err)
	}
	if err == nil || faults != nil {
		r.Report(faults) // otherwise the last report stays
	}
	return len(repaired) > 0
}
