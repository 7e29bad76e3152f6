// SPDX-License-Identifier: Apache-2.0

package network

import (
	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

// Card is a network card of the machine.
type Card struct {
	// Tap is in the pod's network namespace.
	Tap       string
	Queues    int
	Interface protocol.Interface
}
