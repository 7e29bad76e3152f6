// SPDX-License-Identifier: Apache-2.0

// Package retry asks again what was refused. Both halves of a removal do: helm would not ask again when an API server is
// restarted, or has too much to do, or has not yet heard of an account's rights.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrFinal is in errors that asking again does not mend.
var ErrFinal = errors.New("failed")

// Until asks, with a pause between, until there is no error, or a final one, or ctx ends. The error is then the last that says what was
// wrong, and not that the time was over in the middle of a question.
func Until(ctx context.Context, pause time.Duration, ask func() error) error {
	var last error
	for {
		err := ask()
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
