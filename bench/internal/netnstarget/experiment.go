// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// The following methods are for experiments, which run their own programs. Experiments keep nothing beyond their case.

// Nodes are the two nodes and their pods.
func (l *Target) Nodes() *topology.Topology { return l.nodes }

// Wiring attaches pods; those of Nodes are attached.
func (l *Target) Wiring() *cniruntime.Wiring { return l.wiring }

// Daemon returns ktsnd's client and process on node a, nil if the setting has none.
func (l *Target) Daemon() (client *control.Client, pid int) {
	if l.daemon == nil {
		return nil, 0
	}
	return l.daemon.client, l.daemon.process.PID()
}

// Processors are those of sender and listener, traffic.NotPinned if they were not chosen.
func (l *Target) Processors() (sender, listener int) { return l.pinning.sender, l.pinning.listener }
