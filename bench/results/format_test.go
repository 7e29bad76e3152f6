// SPDX-License-Identifier: Apache-2.0

package results

import "testing"

func TestMicros(t *testing.T) {
	for ns, want := range map[int64]string{0: "0.00", 10: "0.01", -250: "-0.25", 9_990: "9.99", 12_340: "12.3",
		-12_340: "-12.3", 123_400: "123", 27_557_352: "27557"} {
		if got := Micros(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
}
