// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"regexp"
	"strconv"
)

const (
	minLinkSpeedBps = 1_000_000
	maxLinkSpeedBps = 1_000_000_000_000
)

var (
	rate      = regexp.MustCompile(`^([0-9]{1,13})(Mbit|Gbit)$`)
	rateUnits = map[string]int64{"Mbit": 1e6, "Gbit": 1e9}
)

// ParseLinkSpeed reads a rate such as 1Gbit or 2500Mbit, in bits per second.
func ParseLinkSpeed(text string) (int64, error) {
	if parts := rate.FindStringSubmatch(text); parts != nil {
		number, err := strconv.ParseInt(parts[1], 10, 64)
		unit := rateUnits[parts[2]]
		if err == nil && number <= maxLinkSpeedBps/unit && number*unit >= minLinkSpeedBps {
			return number * unit, nil
		}
	}
	return 0, fmt.Errorf("%q is no link speed; give a number with the unit Mbit or Gbit, from 1Mbit to 1000Gbit", text)
}

// FormatLinkSpeed writes a rate in the largest unit that leaves a whole number, such as "2500 Mbit/s".
func FormatLinkSpeed(bps int64) string {
	units := []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s"}
	unit := 0
	for ; unit < len(units)-1 && bps > 0 && bps%1000 == 0; unit++ {
		bps /= 1000
	}
	return fmt.Sprintf("%d %s", bps, units[unit])
}

// LinkSpeed writes a rate as ParseLinkSpeed reads it, such as 2500Mbit.
func LinkSpeed(bps int64) string {
	if bps%rateUnits["Gbit"] == 0 {
		return fmt.Sprintf("%dGbit", bps/rateUnits["Gbit"])
	}
	return fmt.Sprintf("%dMbit", bps/rateUnits["Mbit"])
}
