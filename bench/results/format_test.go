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

func TestAmount(t *testing.T) {
	for unit, want := range map[string]string{UnitNs: "0.20 µs", UnitMessages: "200", UnitCores: "200.0000", UnitRatio: "200.00"} {
		figure := Figure{Unit: unit}
		if got := figure.Amount(200); got != want {
			t.Errorf("200 %s is %q, want %q", unit, got, want)
		}
	}
}
