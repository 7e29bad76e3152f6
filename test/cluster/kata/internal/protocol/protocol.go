// SPDX-License-Identifier: Apache-2.0

package protocol

// Names by which the machine finds what its host gives it.
const (
	// AgentPort is the virtio port of these messages. ClockPort is the one that ktsn-guest opens.
	AgentPort = "org.kubernetsn.kata"
	ClockPort = "org.kubernetsn.clock"
	// SharedTag is the file system with the containers' roots.
	SharedTag = "kataShared"
)

// RootOf is where the root of a container is, in the file system that the machine shares.
func RootOf(container string) string { return container + "/rootfs" }

// Request asks for one of the things in it.
type Request struct {
	Number    int
	Interface *Interface `json:",omitempty"`
	Start     *Process   `json:",omitempty"`
	Signal    *Signal    `json:",omitempty"`
}

// Reply answers the request of that number, or says something of a process. The first one, of number 0, says that the machine is there.
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

// Process is one to start. ID is unique among those that run.
type Process struct {
	ID, Container string
	Arguments     []string
	Environment   []string
	Dir           string
	UID, GID      uint32
	Groups        []uint32
}

// Signal goes to a process and to those that it has started.
type Signal struct {
	Process string
	Number  int
}

// Interface is a network card of the machine, and how it is set up.
type Interface struct {
	Name, Address string
	MTU           int
	// IPs have the lengths of their prefixes.
	IPs       []string
	Routes    []Route
	Neighbors []Neighbor
}

// Route without a destination is a default route. Scope is rtm_scope.
type Route struct {
	Destination, Gateway, Source string
	Scope                        int
}

// Neighbor need not be looked for. State is ndm_state.
type Neighbor struct {
	IP, Address string
	State       int
}
