// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"strconv"
	"time"
)

// Program must be on the path; Package contains it. Environment is the variable with the configuration's path.
const (
	Program     = "ddsperf"
	Package     = "cyclonedds-tools"
	Environment = "CYCLONEDDS_URI"
)

// The sizes of ddsperf's samples: 12 B of each are its own.
const (
	MinBytes = 12
	MaxBytes = 1 << 20
)

const (
	// discovery is how long a publisher waits for its subscribers.
	discovery = 15 * time.Second
	// settling is how much longer subscribers run than the publisher measures.
	settling = 2 * time.Second
)

// Test is a run of a publisher with its subscribers.
type Test struct {
	// Latency measures ping and pong, otherwise throughput.
	Latency     bool
	BestEffort  bool
	SampleBytes int
	Subscribers int
	// Duration is how long the publisher publishes, in whole seconds.
	Duration time.Duration
}

func (t *Test) common(duration time.Duration) []string {
	arguments := []string{"-D", strconv.Itoa(int(duration / time.Second))}
	if t.BestEffort {
		arguments = append(arguments, "-u")
	}
	return arguments
}

// Publisher returns the arguments of the publisher, which ends by itself.
func (t *Test) Publisher() []string {
	mode := "pub"
	if t.Latency {
		mode = "ping"
	}
	return append(t.common(t.Duration), "-Q", "minmatch:"+strconv.Itoa(t.Subscribers),
		"-Q", "initwait:"+strconv.Itoa(int(discovery/time.Second)), mode, "size", strconv.Itoa(t.SampleBytes))
}

// Subscriber returns the arguments of each subscriber, which is stopped when the publisher has ended, and otherwise
// ends by itself.
func (t *Test) Subscriber() []string {
	arguments := t.common(t.Longest())
	if t.Latency {
		return append(arguments, "pong")
	}
	return append(arguments, "-1", "sub")
}

// Longest returns the duration of a test with the longest discovery.
func (t *Test) Longest() time.Duration {
	return t.Duration + discovery + settling
}
