// SPDX-License-Identifier: Apache-2.0

package txtime

// Setup is what the messages of a case go through.
type Setup string

// The strategies of ktsnd are named like the kernel's qdiscs that they follow.
const (
	// Any is for cases in which nothing is sent that a qdisc could treat in one way or the other.
	Any Setup = "any"
	// ETF sends each message at its time, over a fast link.
	ETF Setup = "etf"
	// ETFSlow does so over a link of 1 Mbit/s, on which one message makes another miss its time.
	ETFSlow Setup = "etf-slow"
	// ETFDeadline takes times as deadlines.
	ETFDeadline Setup = "etf-deadline"
)

// Setups in the order in which they are run.
var Setups = []Setup{Any, ETF, ETFSlow, ETFDeadline}

// Case is one run of ktsn-test-txtime.
type Case struct {
	Name  string `json:"name"`
	Setup Setup  `json:"setup"`
	// Arrived tells that it says something which messages arrived, and in which order.
	Arrived bool `json:"arrived"`
	// Short is run by `make test` in the virtual machine as well.
	Short bool `json:"short"`
}

// ID names the case and, unless it is the usual one, its setup.
func (c Case) ID() string {
	if c.Setup == ETFDeadline {
		return c.Name + ", deadlines"
	}
	return c.Name
}

// Cases are all there are.
var Cases = []Case{
	{"set-options", Any, false, true},
	{"get-options", Any, false, true},
	{"control-messages", Any, false, true},

	{"no-time", ETF, true, true},
	{"zero-time", ETF, true, true},
	{"ten", ETF, true, true},
	{"ten-twenty", ETF, true, true},
	{"twenty-ten", ETF, true, true},
	{"threads", ETF, true, false},
	{"full-buffer", ETF, true, true},
	{"full-buffer-blocks", ETF, true, false},
	{"full-buffer-edge", ETF, true, true},

	{"error-contents", ETF, true, true},
	{"error-narrow", ETF, false, true},
	{"error-several", ETF, false, true},
	{"error-not-asked-for", ETF, true, false},
	{"error-socket-error", ETF, false, true},
	{"error-asked-again", ETF, false, false},
	{"error-two-sockets", ETF, false, false},
	{"error-missed", ETFSlow, false, true},

	{"wait-poll", ETF, false, true},
	{"wait-poll-of-many", ETF, false, true},
	{"wait-ppoll", ETF, false, true},
	{"wait-select", ETF, false, true},
	{"wait-pselect", ETF, false, true},
	{"wait-epoll", ETF, false, true},
	{"wait-epoll-edge", ETF, false, true},
	{"wait-epoll-oneshot", ETF, false, true},
	{"wait-epoll-exclusive", ETF, false, true},
	{"wait-epoll-changes", ETF, false, true},
	{"wait-exceptions", ETF, false, true},
	{"wait-fork", ETF, false, false},

	{"ten", ETFDeadline, true, true},
	{"twenty-ten", ETFDeadline, true, true},
	{"zero-time", ETFDeadline, true, false},
	{"error-contents", ETFDeadline, false, false},
}
