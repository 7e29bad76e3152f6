// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// desiredGates returns the gates that the node's TSNNode asks for, with their base time: those of the network that it names, else the
// default. known is false while that network is not known, or the operator has not accepted its present spec: the schedule in force stays.
func desiredGates(state *network.Cluster) (gates *tsnnetwork.Gates, known bool) {
	if state.Node.Spec.Gates == "" {
		return tsnnetwork.DefaultGates(), true
	}
	if state.Gates == nil || state.Gates.Status.Schedule == nil {
		return nil, false
	}
	request := state.Gates.Status.Schedule
	gates, err := tsnnetwork.GatesOf(state.Gates)
	if err != nil || gates.Hash() != request.Hash {
		return nil, false
	}
	return gates.WithBaseTime(request.BaseTime), true
}

// hasTable reports whether a table was set in ktsnd.
func hasTable(state *control.GateParameterState, table *control.GateParameterTable) bool {
	return state.GateEnabled == table.GateEnabled && state.AdminGateStates == table.AdminGateStates &&
		slices.Equal(state.AdminControlList.Entries, table.AdminControlList.Entries) &&
		state.AdminCycleTime.Nanoseconds() == table.AdminCycleTime.Nanoseconds() &&
		state.AdminCycleTimeExtension == table.AdminCycleTimeExtension &&
		(!table.GateEnabled || state.AdminBaseTime == table.AdminBaseTime) &&
		limits(state.QueueMaxSDUTable) == limitsAsked(table.QueueMaxSDUTable)
}

func limits(states []control.QueueState) (bytes [control.TrafficClasses]uint32) {
	for _, state := range states {
		bytes[state.TrafficClass%control.TrafficClasses] = state.QueueMaxSDU.QueueMaxSDU
	}
	return bytes
}

func limitsAsked(states []control.QueueMaxSDU) (bytes [control.TrafficClasses]uint32) {
	for _, state := range states {
		bytes[state.TrafficClass%control.TrafficClasses] = state.QueueMaxSDU
	}
	return bytes
}
