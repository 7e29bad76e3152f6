// SPDX-License-Identifier: Apache-2.0

package txtime

// Differences are those known, by ID of the case and by fact.
var Differences = map[string]map[string]Difference{
	"set-options": {
		"CLOCK_BOOTTIME":            {"0", "EINVAL", anyClock},
		"a clock that there is not": {"0", "EINVAL", anyClock},
		"a negative clock":          {"0", "EINVAL", anyClock},
	},
	"no-time": {
		"reported": {"EINVAL", Nothing, noTime},
		"arrived":  {"", "no-time", noTime},
	},
	"twenty-ten, deadlines": {
		"reported": {"EINVAL", Nothing, beforeTheLast},
		"arrived":  {"twenty-ten-20", "twenty-ten-20 twenty-ten-10", beforeTheLast},
	},
}

const (
	anyClock = "Until Linux 6.9 SO_TXTIME took any number for a clock from who may use other clocks than CLOCK_MONOTONIC. " +
		"What libktsn answers is what the kernel below it does."
	beforeTheLast = "etf refuses a time before that of the last message that left, which with deadlines can be long " +
		"before its time. ktsnd sends what can leave before its deadline."
	noTime = "A message without a transmit time is the kernel's, and no etf stands in its way: it leaves at once. " +
		"etf takes it for one with the time 0, and drops it."
)
