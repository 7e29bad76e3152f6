// SPDX-License-Identifier: Apache-2.0

package txtime

import (
	"net/netip"
	"strconv"
)

// Setup is the qdisc that the messages of a case pass.
type Setup string

// ktsnd's strategies have the names of the corresponding qdiscs.
const (
	// Any is for cases whose messages every qdisc treats alike.
	Any Setup = "any"
	// ETF sends each message at its time, over a fast link.
	ETF Setup = "etf"
	// ETFSlow is ETF over a link of 1 Mbit/s, on which one message makes another miss its time.
	ETFSlow Setup = "etf-slow"
	// ETFDeadline takes times as deadlines.
	ETFDeadline Setup = "etf-deadline"
)

// Setups are in the order of their runs.
var Setups = []Setup{Any, ETF, ETFSlow, ETFDeadline}

// Family is the kind of socket of a case.
type Family string

// IPv4 is the default.
const (
	IPv4   Family = ""
	IPv6   Family = "IPv6"
	Mapped Family = "IPv4 through IPv6"
	// Cooked and Raw are the two types of packet sockets.
	Cooked Family = "SOCK_DGRAM"
	Raw    Family = "SOCK_RAW"
)

// Packet reports whether it is AF_PACKET.
func (f Family) Packet() bool { return f == Cooked || f == Raw }

// Case is a run of ktsn-test-txtime.
type Case struct {
	Name  string `json:"name"`
	Setup Setup  `json:"setup"`
	// Arrived means that it checks which messages arrived, and in which order.
	Arrived bool `json:"arrived"`
	// Short means that `make test` also runs it in the virtual machine.
	Short  bool   `json:"short"`
	Family Family `json:"family,omitempty"`
}

// ID returns the case's name and, unless they are the defaults, its family and its setup.
func (c Case) ID() string {
	id := c.Name
	if c.Family != IPv4 {
		id += ", " + string(c.Family)
	}
	if c.Setup == ETFDeadline {
		id += ", deadlines"
	}
	return id
}

// EtherType of packet sockets' messages: one for experiments (IEEE Std 802, local experimental).
const EtherType = 0x88b5

// Receiver has the addresses to which cases send, in every family.
type Receiver struct {
	IPv4, IPv6 netip.Addr
	Port       int
	// Interface is the sender's. Frames are broadcast.
	Interface string
}

// Arguments returns the arguments of ktsn-test-txtime for the case.
func (c Case) Arguments(to Receiver) []string {
	var arguments []string
	if c.Setup == ETFDeadline {
		arguments = append(arguments, "--deadline")
	}
	switch c.Family {
	case Cooked:
		arguments = append(arguments, "--packet", "dgram")
	case Raw:
		arguments = append(arguments, "--packet", "raw")
	}
	if c.Family.Packet() {
		return append(arguments, "--interface", to.Interface, "ff:ff:ff:ff:ff:ff", strconv.Itoa(EtherType), c.Name)
	}
	address := to.IPv4
	switch c.Family {
	case IPv6:
		address = to.IPv6
	case Mapped:
		address = netip.AddrFrom16(to.IPv4.As16())
	}
	return append(arguments, address.String(), strconv.Itoa(to.Port), c.Name)
}

// Cases are all cases.
var Cases = []Case{
	{"set-options", Any, false, true, IPv4},
	{"get-options", Any, false, true, IPv4},
	{"control-messages", Any, false, true, IPv4},

	{"no-time", ETF, true, true, IPv4},
	{"zero-time", ETF, true, true, IPv4},
	{"ten", ETF, true, true, IPv4},
	{"ten-twenty", ETF, true, true, IPv4},
	{"twenty-ten", ETF, true, true, IPv4},
	{"threads", ETF, true, false, IPv4},
	{"full-buffer", ETF, true, true, IPv4},
	{"full-buffer-blocks", ETF, true, false, IPv4},
	{"full-buffer-edge", ETF, true, true, IPv4},
	{"full-buffer-edge-before", ETF, true, false, IPv4},
	{"full-buffer-shut-down", ETF, false, false, IPv4},
	{"shut-down", ETF, true, true, IPv4},
	{"shut-down-unconnected", ETF, true, true, IPv4},
	{"told-at-once", ETF, true, true, IPv4},

	{"error-contents", ETF, true, true, IPv4},
	{"error-narrow", ETF, false, true, IPv4},
	{"error-received", ETF, false, true, IPv4},
	{"error-several", ETF, false, true, IPv4},
	{"error-not-asked-for", ETF, true, false, IPv4},
	{"error-socket-error", ETF, false, true, IPv4},
	{"error-asked-again", ETF, false, false, IPv4},
	{"error-two-sockets", ETF, false, false, IPv4},
	{"error-missed", ETFSlow, false, true, IPv4},

	{"wait-poll", ETF, false, true, IPv4},
	{"wait-poll-of-many", ETF, false, true, IPv4},
	{"wait-ppoll", ETF, false, true, IPv4},
	{"wait-select", ETF, false, true, IPv4},
	{"wait-pselect", ETF, false, true, IPv4},
	{"wait-epoll", ETF, false, true, IPv4},
	{"wait-epoll-edge", ETF, false, true, IPv4},
	{"wait-epoll-oneshot", ETF, false, true, IPv4},
	{"wait-epoll-exclusive", ETF, false, true, IPv4},
	{"wait-epoll-changes", ETF, false, true, IPv4},
	{"wait-epoll-closed-sets", ETF, false, true, IPv4},
	{"wait-epoll-before", ETF, false, true, IPv4},
	{"wait-exceptions", ETF, false, true, IPv4},
	{"wait-fork", ETF, false, false, IPv4},

	{"ten", ETFDeadline, true, true, IPv4},
	{"twenty-ten", ETFDeadline, true, true, IPv4},
	{"zero-time", ETFDeadline, true, false, IPv4},
	{"error-contents", ETFDeadline, false, false, IPv4},

	{"set-options", Any, false, false, IPv6},
	{"get-options", Any, false, false, IPv6},
	{"control-messages", Any, false, true, IPv6},
	{"zero-time", ETF, true, false, IPv6},
	{"ten", ETF, true, true, IPv6},
	{"ten-twenty", ETF, true, false, IPv6},
	{"twenty-ten", ETF, true, true, IPv6},
	{"threads", ETF, true, false, IPv6},
	{"full-buffer", ETF, true, true, IPv6},
	{"full-buffer-blocks", ETF, true, false, IPv6},
	{"shut-down", ETF, true, false, IPv6},
	{"told-at-once", ETF, true, true, IPv6},
	{"error-contents", ETF, true, true, IPv6},
	{"error-narrow", ETF, false, true, IPv6},
	{"error-received", ETF, false, false, IPv6},
	{"error-several", ETF, false, false, IPv6},
	{"error-socket-error", ETF, false, false, IPv6},
	{"wait-poll", ETF, false, true, IPv6},
	{"wait-select", ETF, false, true, IPv6},
	{"wait-epoll", ETF, false, true, IPv6},
	{"wait-epoll-edge", ETF, false, false, IPv6},
	{"wait-exceptions", ETF, false, false, IPv6},
	{"error-missed", ETFSlow, false, true, IPv6},
	{"ten", ETFDeadline, true, false, IPv6},
	{"twenty-ten", ETFDeadline, true, true, IPv6},

	{"ten", ETF, true, true, Mapped},
	{"error-contents", ETF, true, true, Mapped},
	{"wait-epoll", ETF, false, false, Mapped},

	{"set-options", Any, false, false, Cooked},
	{"control-messages", Any, false, false, Cooked},
	{"zero-time", ETF, true, false, Cooked},
	{"ten", ETF, true, true, Cooked},
	{"ten-twenty", ETF, true, false, Cooked},
	{"twenty-ten", ETF, true, true, Cooked},
	{"full-buffer", ETF, true, true, Cooked},
	{"shut-down", ETF, true, false, Cooked},
	{"told-at-once", ETF, true, true, Cooked},
	{"error-contents", ETF, true, true, Cooked},
	{"error-narrow", ETF, false, true, Cooked},
	{"error-received", ETF, false, false, Cooked},
	{"error-several", ETF, false, false, Cooked},
	{"error-socket-error", ETF, false, false, Cooked},
	{"wait-poll", ETF, false, true, Cooked},
	{"wait-select", ETF, false, false, Cooked},
	{"wait-epoll", ETF, false, true, Cooked},
	{"error-missed", ETFSlow, false, false, Cooked},
	{"twenty-ten", ETFDeadline, true, false, Cooked},

	{"set-options", Any, false, false, Raw},
	{"control-messages", Any, false, true, Raw},
	{"zero-time", ETF, true, false, Raw},
	{"ten", ETF, true, true, Raw},
	{"ten-twenty", ETF, true, false, Raw},
	{"twenty-ten", ETF, true, true, Raw},
	{"full-buffer", ETF, true, true, Raw},
	{"shut-down", ETF, true, false, Raw},
	{"told-at-once", ETF, true, true, Raw},
	{"error-contents", ETF, true, true, Raw},
	{"error-narrow", ETF, false, true, Raw},
	{"error-received", ETF, false, false, Raw},
	{"error-several", ETF, false, false, Raw},
	{"error-socket-error", ETF, false, false, Raw},
	{"wait-poll", ETF, false, true, Raw},
	{"wait-select", ETF, false, false, Raw},
	{"wait-epoll", ETF, false, true, Raw},
	{"error-missed", ETFSlow, false, false, Raw},
	{"twenty-ten", ETFDeadline, true, false, Raw},
}
