// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// What follows is for experiments, which bring programs of their own. They hold nothing of it beyond their case.

// Nodes are the two nodes and their pods.
func (l *Target) Nodes() *topology.Topology { return l.nodes }

// Wiring attaches pods; those of Nodes are attached.
func (l *Target) Wiring() *cniruntime.Wiring { return l.wiring }

// Daemon is ktsnd on node a, how to talk to it and its process; nil where the setting has none.
func (l *Target) Daemon() (client *control.Client, pid int) {
	if l.daemon == nil {
		return nil, 0
	}
	return l.daemon.client, l.daemon.process.PID()
}

// Processors are those of what sends and of what listens, traffic.NotPinned where they were not chosen.
func (l *Target) Processors() (sender, listener int) { return l.pinning.sender, l.pinning.listener }
