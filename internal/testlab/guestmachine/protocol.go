// SPDX-License-Identifier: Apache-2.0

package guestmachine

// agentPort is the virtio port between a session and its agent.
const agentPort = "org.kubernetsn.agent"

// AgentArguments make the first program the agent.
var AgentArguments = []string{"agent"}

// request is what a session asks of the agent: one JSON object a line. ID is of the session's choice; one of the others is set.
type request struct {
	ID int `json:"id"`
	// Run runs a program to its end. Its lines are sent as it says them, and last its status.
	Run []string `json:"run,omitempty"`
	// Stop asks the program of an earlier request to end.
	Stop bool `json:"stop,omitempty"`
	// Answer answers so many exchanges of counters (guestclock.Page.Answer).
	Answer int `json:"answer,omitempty"`
	// Step sets the machine's clock forward, or back below 0, by so many nanoseconds.
	Step int64 `json:"step,omitempty"`
}

// reply belongs to the request with its ID. The first message of an agent has none.
type reply struct {
	ID int `json:"id"`
	// Line is what a program said.
	Line string `json:"line,omitempty"`
	// Ended is the last reply to a request; Error says why it failed.
	Ended bool   `json:"ended,omitempty"`
	Error string `json:"error,omitempty"`
}
