// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"testing"
	"time"
)

// Eventually calls condition until it returns nil, with a pause of interval between two calls. After timeout it fails
// the test with the last error. The condition may call t.Fatal itself.
func Eventually(t testing.TB, timeout, interval time.Duration, condition func() error) {
	t.Helper()
	EventuallyValue(t, timeout, interval, func() (struct{}, error) { return struct{}{}, condition() })
}

// EventuallyValue is Eventually for a condition that returns a value. It returns the value that came with the first nil
// error.
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
