// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// FormatNs writes a duration exactly, in the largest unit in which it needs no more than three decimals: "300 µs",
// "1.5 ms". With ascii the micro sign is a u.
func FormatNs(ns int64, ascii bool) string {
	micro := "µs"
	if ascii {
		micro = "us"
	}
	for _, unit := range []struct {
		name string
		ns   int64
	}{{"s", 1e9}, {"ms", 1e6}, {micro, 1e3}} {
		if step := unit.ns / 1000; ns >= unit.ns && ns%step == 0 {
			return decimal(ns/unit.ns, ns%unit.ns/step) + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ns", ns)
}

func decimal(whole, thousandths int64) string {
	if thousandths == 0 {
		return strconv.FormatInt(whole, 10)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", whole, thousandths), "0")
}

// FormatTime writes a time as date and time of day of the scale that it counts, TAI, which is 37 s ahead of UTC since
// 2017, and the nanoseconds.
func FormatTime(at control.PTPTime) string {
	return fmt.Sprintf("%s TAI + %d ns", time.Unix(int64(at.Seconds), 0).UTC().Format("2006-01-02T15:04:05"),
		at.Nanoseconds)
}
