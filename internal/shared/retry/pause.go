// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"time"
)

// Pause waits for so long. The error is that of ctx, when that ends before.
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
