// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"log/slog"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// State is that of the program at a port.
type State interface {
	// SetRelay says which device captured frames go to; 0: none.
	SetRelay(index int) error
	// Relay is the device that was said.
	Relay() (int, error)
	// Heartbeat is how long ago the relay said that ktsnd takes frames without a transmit time; negative if it never did.
	Heartbeat() (time.Duration, error)
	// HeartbeatFD is a descriptor of what the relay writes: its heartbeat, and nothing else.
	HeartbeatFD() int
	Close() error
}

// New makes the supervisor of a node whose tsn-cni has a state directory.
func New(stateDir string, node *overlay.Node, program Program, log *slog.Logger) *Supervisor {
	changes := &cni.Changes{StateDir: stateDir}
	return &Supervisor{
		Program: program, Node: node, Log: log,
		List:    func() ([]cni.RelayedAttachment, error) { return cni.Relayed(stateDir) },
		Changed: changes.Any,
		Open:    openState,
	}
}

// openState keeps a pointer that is nil out of the interface.
func openState(portName string) (State, error) {
	state, err := capture.OpenState(portName)
	if err != nil {
		return nil, err
	}
	return state, nil
}
