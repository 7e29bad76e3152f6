// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"github.com/kubernetsn/kubernetsn/internal/control"
	"github.com/kubernetsn/kubernetsn/internal/podnet"
	"github.com/kubernetsn/kubernetsn/internal/topology"
)

// What follows is for experiments, which bring programs of their own. They hold nothing of it beyond their case.

// Nodes are the two nodes and their pods.
func (l *Lab) Nodes() *topology.Topology { return l.nodes }

// Wiring attaches pods; those of Nodes are attached.
func (l *Lab) Wiring() *podnet.Wiring { return l.wiring }

// Daemon is ktsnd on node a, how to talk to it and its process; nil where the setting has none.
func (l *Lab) Daemon() (client *control.Client, pid int) {
	if l.daemon == nil {
		return nil, 0
	}
	return l.daemon.client, l.daemon.process.PID()
}

// Processors are those of what sends and of what listens, traffic.NotPinned where they were not chosen.
func (l *Lab) Processors() (sender, listener int) { return l.pinning.sender, l.pinning.listener }
