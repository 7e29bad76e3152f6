// SPDX-License-Identifier: Apache-2.0

// Package retry repeats operations that fail, for programs that helm runs once: an API server may be restarting, overloaded, or not know
// an account's rights yet.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrFinal marks errors for which a retry does not help.
var ErrFinal = errors.New("failed")

// Until calls attempt, with a pause between calls, until it succeeds, fails with ErrFinal, or ctx is done. Then it returns the last error
// that was not caused by ctx.
func Until(ctx context.Context, pause time.Duration, attempt func() error) error {
	var last error
	for {
		err := attempt()
		if err == nil || errors.Is(err, ErrFinal) {
			return err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %w", last)
		case <-time.After(pause):
		}
	}
}
