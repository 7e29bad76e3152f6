// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"time"
)

// Pause waits for a duration. It returns the error of ctx if that is done first.
func Pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
