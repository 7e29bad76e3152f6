// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"testing"
	"time"
)

// Eventually calls condition until it returns nil, with a pause of interval between two calls. It ends the test with the last error
// if that takes longer than timeout. The condition may end the test itself by t.Fatal.
func Eventually(t testing.TB, timeout, interval time.Duration, condition func() error) {
	t.Helper()
	EventuallyValue(t, timeout, interval, func() (struct{}, error) { return struct{}{}, condition() })
}

// EventuallyValue is Eventually for a condition that returns a value; it returns the value that came with the first nil error.
func EventuallyValue[T any](t testing.TB, timeout, interval time.Duration, condition func() (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(interval) {
		value, err := condition()
		if err == nil {
			return value
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v; gave up after %v", err, timeout)
		}
	}
}
