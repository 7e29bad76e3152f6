// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"fmt"
	"testing"
	"time"
)

// failing is a testing.TB that records Fatalf instead of ending the test.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, arguments ...any) {
	f.message = fmt.Sprintf(format, arguments...)
	panic(f)
}

// failure returns the message with which Eventually ends a test.
func failure(timeout time.Duration, condition func() error) (message string) {
	f := &failing{}
	defer func() {
		_ = recover()
		message = f.message
	}()
	Eventually(f, timeout, time.Millisecond, condition)
	return ""
}

func TestEventually(t *testing.T) {
	calls := 0
	counting := func(until int) func() error {
		calls = 0
		return func() error {
			if calls++; calls < until {
				return fmt.Errorf("%d calls", calls)
			}
			return nil
		}
	}
	if message := failure(time.Minute, counting(3)); message != "" || calls != 3 {
		t.Errorf("%q after %d calls", message, calls)
	}
	if message := failure(0, counting(3)); message != "1 calls; gave up after 0s" {
		t.Errorf("the last error is not reported: %q", message)
	}
	if value := EventuallyValue(t, time.Minute, 0, func() (int, error) { return 7, nil }); value != 7 {
		t.Errorf("got %d", value)
	}
}
