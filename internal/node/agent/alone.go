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

// aloneRetryInterval is the time between two checks for another agent.
const aloneRetryInterval = 250 * time.Millisecond

// awaitAlone waits until no other agent serves the node. A pod that was deleted by force disappears from the API server
// before its agent has ended, which may serve kubelet for another 30 s. An agent of any version is detected by its
// health address; an agent without a health address does not wait.
func awaitAlone(ctx context.Context, health string, log *slog.Logger) error {
	if health == "" || health == "0" {
		return nil
	}
	for logged := false; ; logged = true {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", health)
		if err == nil {
			return listener.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("listen for probes: %w", err)
		}
		if !logged {
			log.Info("waiting for another agent, or another program, to release the health address", "address", health)
		}
		if err := retry.Pause(ctx, aloneRetryInterval); err != nil {
			return err
		}
	}
}
