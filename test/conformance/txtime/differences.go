// SPDX-License-Identifier: Apache-2.0

package txtime

// Differences are those known, by ID of the case and by fact.
var Differences = map[string]map[string]Difference{
	"set-options":             otherClocks,
	"set-options, IPv6":       otherClocks,
	"set-options, SOCK_DGRAM": otherClocks,
	"set-options, SOCK_RAW":   otherClocks,
	"no-time": {
		"reported": {"EINVAL", Nothing, noTime},
		"arrived":  {"", "no-time", noTime},
	},
	"told-at-once":             {"too late": {"ENOBUFS", "4", toldLater}},
	"told-at-once, IPv6":       {"too late": {"ENOBUFS", "4", toldLater}},
	"told-at-once, SOCK_DGRAM": {"too late": {"ENOBUFS", "4", toldLater}},
	"told-at-once, SOCK_RAW":   {"too late": {"ENOBUFS", "18", toldLater}},

	"twenty-ten, deadlines":             deadlinesSwapped("13", "13"),
	"twenty-ten, IPv6, deadlines":       deadlinesSwapped("13", "13"),
	"twenty-ten, SOCK_DGRAM, deadlines": deadlinesSwapped("ENOBUFS", "13"),
	"twenty-ten, SOCK_RAW, deadlines":   deadlinesSwapped("ENOBUFS", "27"),
}

var otherClocks = map[string]Difference{
	"CLOCK_BOOTTIME":            {"0", "EINVAL", anyClock},
	"a clock that there is not": {"0", "EINVAL", anyClock},
	"a negative clock":          {"0", "EINVAL", anyClock},
}

// deadlinesSwapped are the differences of a case in which the second message has the earlier deadline, with what the
// two answer to sending that.
func deadlinesSwapped(kernel, libktsn string) map[string]Difference {
	differences := map[string]Difference{
		"reported": {"EINVAL", Nothing, beforeTheLast},
		"arrived":  {"twenty-ten-20", "twenty-ten-20 twenty-ten-10", beforeTheLast},
	}
	if kernel != libktsn {
		differences["twenty-ten-10"] = Difference{kernel, libktsn, beforeTheLast}
	}
	return differences
}

const (
	toldLater = "What etf refuses as soon as it has it, packet sockets are told by sendmsg already, and other sockets if " +
		"they have IP_RECVERR or IPV6_RECVERR. ktsnd looks at a message when it takes it out of the ring."
	anyClock = "Until Linux 6.9 SO_TXTIME took any number for a clock from who may use other clocks than CLOCK_MONOTONIC. " +
		"What libktsn answers is what the kernel below it does."
	beforeTheLast = "etf refuses a time before that of the last message that left, which with deadlines can be long " +
		"before its time. ktsnd sends what can leave before its deadline."
	noTime = "A message without a transmit time is the kernel's, and no etf stands in its way: it leaves at once. " +
		"etf takes it for one with the time 0, and drops it."
)
