// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// aloneEvery is how soon the end of another agent is seen.
const aloneEvery = 250 * time.Millisecond

// awaitAlone returns when no other agent serves the node. A pod that was deleted by force is gone from the API server before its
// agent has ended, and that one may serve its kubelet for half a minute more. Its health address tells, whatever its version; an
// agent without one does not wait.
func awaitAlone(ctx context.Context, health string, log *slog.Logger) error {
	if health == "" || health == "0" {
		return nil
	}
	for said := false; ; said = true {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", health)
		if err == nil {
			return listener.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("listen for probes: %w", err)
		}
		if !said {
			log.Info("waiting until another agent of this node has ended, or the program that has its address", "address", health)
		}
		if err := retry.Pause(ctx, aloneEvery); err != nil {
			return err
		}
	}
}
