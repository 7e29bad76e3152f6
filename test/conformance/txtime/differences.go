// SPDX-License-Identifier: Apache-2.0

package txtime

// Differences are the known differences, by case ID and fact.
var Differences = map[string]map[string]Difference{
	"set-options":             otherClocks,
	"set-options, IPv6":       otherClocks,
	"set-options, SOCK_DGRAM": otherClocks,
	"set-options, SOCK_RAW":   otherClocks,
	"no-time": {
		"reported": {Kernel: "EINVAL", Libktsn: Nothing, Reason: noTime},
		"arrived":  {Kernel: "", Libktsn: "no-time", Reason: noTime},
	},
	"told-at-once":             {"too late": {Kernel: "ENOBUFS", Libktsn: "4", Reason: toldLater}},
	"told-at-once, IPv6":       {"too late": {Kernel: "ENOBUFS", Libktsn: "4", Reason: toldLater}},
	"told-at-once, SOCK_DGRAM": {"too late": {Kernel: "ENOBUFS", Libktsn: "4", Reason: toldLater}},
	"told-at-once, SOCK_RAW":   {"too late": {Kernel: "ENOBUFS", Libktsn: "18", Reason: toldLater}},

	"twenty-ten, deadlines":             deadlinesSwapped("13", "13"),
	"twenty-ten, IPv6, deadlines":       deadlinesSwapped("13", "13"),
	"twenty-ten, SOCK_DGRAM, deadlines": deadlinesSwapped("ENOBUFS", "13"),
	"twenty-ten, SOCK_RAW, deadlines":   deadlinesSwapped("ENOBUFS", "27"),
}

var otherClocks = map[string]Difference{
	"CLOCK_BOOTTIME":            {Kernel: "0", Libktsn: "EINVAL", Reason: anyClock},
	"a clock that there is not": {Kernel: "0", Libktsn: "EINVAL", Reason: anyClock},
	"a negative clock":          {Kernel: "0", Libktsn: "EINVAL", Reason: anyClock},
}

// deadlinesSwapped returns the differences of a case in which the second message has the earlier deadline, with the
// results of sending it.
func deadlinesSwapped(kernel, libktsn string) map[string]Difference {
	differences := map[string]Difference{
		"reported": {Kernel: "EINVAL", Libktsn: Nothing, Reason: beforeTheLast},
		// The order is reversed if ktsnd was not awake before the second arrived.
		"arrived": {Kernel: "twenty-ten-20", Libktsn: "twenty-ten-20 twenty-ten-10", Or: "twenty-ten-10 twenty-ten-20",
			Reason: beforeTheLast},
	}
	if kernel != libktsn {
		differences["twenty-ten-10"] = Difference{Kernel: kernel, Libktsn: libktsn, Reason: beforeTheLast}
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
