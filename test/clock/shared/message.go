// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package shared

import "syscall"

// Request is what the host asks of a guest: one JSON object a line. Exactly one of the pointers is set.
type Request struct {
	ID int `json:"id"`
	// Write makes a file.
	Write *File `json:"write,omitempty"`
	// Run runs a program to its end; the reply has its output. Start leaves it running and sends its lines.
	Run   *Program `json:"run,omitempty"`
	Start *Program `json:"start,omitempty"`
	// Signal is sent to a program that was started.
	Signal *Signal `json:"signal,omitempty"`
	// Clock changes the guest's clock.
	Clock *Clock `json:"clock,omitempty"`
	// Answer answers so many exchanges of counters (Page.Answer); the reply comes first.
	Answer *int `json:"answer,omitempty"`
}

// File of a guest.
type File struct {
	Path, Content string
}

// Program of a guest. Name is how it is referred to.
type Program struct {
	Name      string
	Arguments []string
}

// Signal to a program.
type Signal struct {
	Name   string
	Number syscall.Signal
}

// Clock is a change of a guest's clock; what is zero stays.
type Clock struct {
	// StepNanoseconds is added to CLOCK_REALTIME.
	StepNanoseconds int64
	// Tick is the length of the clock's tick, in microseconds at 100 Hz: 10001 is 100 ppm fast. Servos set the frequency, and
	// leave the tick.
	Tick int64
	// TAISeconds is CLOCK_TAI - CLOCK_REALTIME.
	TAISeconds int64
}

// Message is what a guest sends: the reply to a request, or, with Name, what a program said or that it ended.
type Message struct {
	ID     int    `json:"id,omitempty"`
	Error  string `json:"error,omitempty"`
	Output string `json:"output,omitempty"`

	Name string `json:"name,omitempty"`
	Line string `json:"line,omitempty"`
	// TSC is the guest's counter when the line was read.
	TSC   uint64 `json:"tsc,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}
