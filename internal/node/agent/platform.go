// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/peers"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/clock"
)

// Platform provides an agent's process and kernel. A process with several agents gives each its own.
type Platform struct {
	// Reduce drops capabilities of the whole process.
	Reduce func(keep ...privilege.Capability) error
	// Overlay opens the kernel's side of the node's networks.
	Overlay func() (peers.Overlay, error)
	// Registry gets the agent's metrics.
	Registry prometheus.Registerer
	// Uptime returns how long the machine has been up.
	Uptime func() time.Duration
	// Clock follows the machine's clock until ctx ends: report gets an estimate once per second and after each change.
	// nil: the agent reports no clock.
	Clock func(ctx context.Context, hear func(clock.Estimate), log *slog.Logger) error
	// Shared means that other agents in this process have controllers of the same names.
	Shared bool
}

// platform returns the platform of a process with one agent.
func (o *Options) platform() *Platform {
	return &Platform{
		Reduce:   privilege.Reduce,
		Overlay:  func() (peers.Overlay, error) { return attachment.OpenNode(o.StateDir, daemon.LockTimeout) },
		Registry: ctrlmetrics.Registry,
		Uptime:   uptime,
		Clock:    o.watchClock,
	}
}

// uptime includes the time while the machine was suspended.
func uptime() time.Duration {
	var uptime unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &uptime); err != nil {
		return 0 // the longer wait is the safer one
	}
	return time.Duration(uptime.Nano())
}
