// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package shared

import "syscall"

// Request is a host's request to a guest: one JSON object a line. Exactly one of the pointers is set.
type Request struct {
	ID int `json:"id"`
	// Write writes a file.
	Write *File `json:"write,omitempty"`
	// Run runs a program to its end; the reply has its output. Start leaves it running and sends its lines.
	Run   *Program `json:"run,omitempty"`
	Start *Program `json:"start,omitempty"`
	// Signal is sent to a started program.
	Signal *Signal `json:"signal,omitempty"`
	// Clock changes the guest's clock.
	Clock *Clock `json:"clock,omitempty"`
	// Answer answers that many exchanges of counters (Page.Answer); the reply comes first.
	Answer *int `json:"answer,omitempty"`
}

// File is a file of a guest.
type File struct {
	Path, Content string
}

// Program is a program of a guest. Other requests refer to it by Name.
type Program struct {
	Name      string
	Arguments []string
}

// Signal is a signal for a program.
type Signal struct {
	Name   string
	Number syscall.Signal
}

// Clock changes a guest's clock; zero fields change nothing.
type Clock struct {
	// StepNanoseconds is added to CLOCK_REALTIME.
	StepNanoseconds int64
	// Tick is the length of the clock's tick, in microseconds at 100 Hz: 10001 is 100 ppm fast. Servos set the
	// frequency, and leave the tick unchanged.
	Tick int64
	// TAISeconds is CLOCK_TAI - CLOCK_REALTIME.
	TAISeconds int64
}

// Message is a guest's message: the reply to a request, or, with Name, a line of a program or its end.
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
