// SPDX-License-Identifier: Apache-2.0

package guestmachine

// agentPort is the virtio port between a session and its agent.
const agentPort = "org.kubernetsn.agent"

// AgentArguments make the first program the agent.
var AgentArguments = []string{"agent"}

// request is a request of a session to the agent, one JSON object per line. The session chooses ID; one of the other
// fields is set.
type request struct {
	ID int `json:"id"`
	// Run runs a program to its end. Its lines are sent as they are written, and last its status.
	Run []string `json:"run,omitempty"`
	// Stop asks the program of an earlier request to end.
	Stop bool `json:"stop,omitempty"`
	// Answer answers a number of exchanges of counters (guestclock.Page.Answer).
	Answer int `json:"answer,omitempty"`
	// Step adds nanoseconds, which can be negative, to the machine's clock.
	Step int64 `json:"step,omitempty"`
}

// reply belongs to the request with its ID. The first message of an agent has none.
type reply struct {
	ID int `json:"id"`
	// Line is a line of a program's output.
	Line string `json:"line,omitempty"`
	// Ended is the last reply to a request; Error says why it failed.
	Ended bool   `json:"ended,omitempty"`
	Error string `json:"error,omitempty"`
}
