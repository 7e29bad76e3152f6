// SPDX-License-Identifier: Apache-2.0

package iperf3

import (
	"net/netip"
	"strconv"
	"time"
)

// Program must be on the path; Package contains it.
const (
	Program = "iperf3"
	Package = "iperf3"
)

// MaxUDPBytes is the largest buffer for UDP: the payload of an IPv4 datagram.
const MaxUDPBytes = 65507

// Test is one transfer.
type Test struct {
	Server netip.Addr
	Port   uint16
	// UDP sends datagrams of BufferBytes as fast as possible; otherwise the test uses TCP, whose buffer iperf3 chooses.
	UDP         bool
	BufferBytes int
	// Duration begins after Omit, during which nothing is counted; whole seconds.
	Duration, Omit time.Duration
}

// ServerArguments returns the arguments of a server for one test.
func ServerArguments(at netip.Addr, port uint16) []string {
	return []string{"--server", "--one-off", "--bind", at.String(), "--port", strconv.Itoa(int(port)), "--json"}
}

// ClientArguments returns the arguments of the client, whose output Parse reads.
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
