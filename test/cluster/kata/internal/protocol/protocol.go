// SPDX-License-Identifier: Apache-2.0

package protocol

// The machine finds the host's devices by these names.
const (
	// AgentPort is the virtio port of these messages. ktsn-guest opens ClockPort.
	AgentPort = "org.kubernetsn.kata"
	ClockPort = "org.kubernetsn.clock"
	// SharedTag is the tag of the file system with the containers' roots.
	SharedTag = "kataShared"
)

// RootOf returns the path of a container's root in the shared file system.
func RootOf(container string) string { return container + "/rootfs" }

// Request asks for one of its fields.
type Request struct {
	Number    int
	Interface *Interface `json:",omitempty"`
	Start     *Process   `json:",omitempty"`
	Signal    *Signal    `json:",omitempty"`
}

// Reply answers the request of that number, or has news of a process. The first reply, with number 0, announces the
// agent.
type Reply struct {
	Number int
	Error  string `json:",omitempty"`

	// Process has written Data to Stream, or has ended with Status.
	Process string `json:",omitempty"`
	Stream  int    `json:",omitempty"`
	Data    []byte `json:",omitempty"`
	Ended   bool   `json:",omitempty"`
	Status  int    `json:",omitempty"`
}

// Streams of processes.
const (
	Stdout = 1
	Stderr = 2
)

// Process is a process to start. ID is unique among the running ones.
type Process struct {
	ID, Container string
	Arguments     []string
	Environment   []string
	Dir           string
	UID, GID      uint32
	Groups        []uint32
}

// Signal goes to a process and its children.
type Signal struct {
	Process string
	Number  int
}

// Interface is a network card of the machine, and its configuration.
type Interface struct {
	Name, Address string
	MTU           int
	// IPs include their prefix lengths.
	IPs       []string
	Routes    []Route
	Neighbors []Neighbor
}

// Route without a destination is a default route. Scope is rtm_scope.
type Route struct {
	Destination, Gateway, Source string
	Scope                        int
}

// Neighbor is a permanent neighbour. State is ndm_state.
type Neighbor struct {
	IP, Address string
	State       int
}
