// SPDX-License-Identifier: Apache-2.0

package iperf3

import (
	"net/netip"
	"strconv"
	"time"
)

// Program is what has to be on the path, and Package what brings it.
const (
	Program = "iperf3"
	Package = "iperf3"
)

// MaxUDPBytes is the largest buffer for UDP: what a datagram of IPv4 carries.
const MaxUDPBytes = 65507

// Test is one transfer.
type Test struct {
	Server netip.Addr
	Port   uint16
	// UDP sends as fast as it can, in datagrams of BufferBytes; else it is TCP, whose buffer iperf3 chooses.
	UDP         bool
	BufferBytes int
	// Duration counts after Omit, in which nothing is counted; whole seconds.
	Duration, Omit time.Duration
}

// ServerArguments are those of a server for one test.
func ServerArguments(at netip.Addr, port uint16) []string {
	return []string{"--server", "--one-off", "--bind", at.String(), "--port", strconv.Itoa(int(port)), "--json"}
}

// ClientArguments are those of the client, which prints what Parse reads.
func (t *Test) ClientArguments() []string {
	arguments := []string{"--client", t.Server.String(), "--port", strconv.Itoa(int(t.Port)), "--json",
		"--time", seconds(t.Duration), "--omit", seconds(t.Omit)}
	if t.UDP {
		arguments = append(arguments, "--udp", "--bitrate", "0", "--length", strconv.Itoa(t.BufferBytes))
	}
	return arguments
}

func seconds(duration time.Duration) string {
	return strconv.Itoa(int(duration / time.Second))
}
