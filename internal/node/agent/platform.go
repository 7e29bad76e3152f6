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

// Platform is what an agent has of its process and of the kernel. Programs with many agents give each one of its own.
type Platform struct {
	// Reduce gives up capabilities for the whole process.
	Reduce func(keep ...privilege.Capability) error
	// Overlay opens the kernel's side of the node's networks.
	Overlay func() (peers.Overlay, error)
	// Registry gets the agent's metrics.
	Registry prometheus.Registerer
	// Uptime is for how long the machine has been up.
	Uptime func() time.Duration
	// Clock follows the machine's clock until ctx ends: hear gets an estimate once a second, and at once what has changed. nil: the
	// agent says nothing of the clock.
	Clock func(ctx context.Context, hear func(clock.Estimate), log *slog.Logger) error
	// Shared tells that other agents run in the process, with controllers of the same names.
	Shared bool
}

// platform is that of an agent whose process serves one node.
func (o *Options) platform() *Platform {
	return &Platform{
		Reduce:   privilege.Reduce,
		Overlay:  func() (peers.Overlay, error) { return attachment.OpenNode(o.StateDir, daemon.Patience) },
		Registry: ctrlmetrics.Registry,
		Uptime:   uptime,
		Clock:    o.watchClock,
	}
}

// uptime includes the time in which the machine was suspended.
func uptime() time.Duration {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return 0 // the longer wait is the safer one
	}
	return time.Duration(since.Nano())
}
