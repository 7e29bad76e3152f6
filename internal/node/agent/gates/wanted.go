// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// wanted are the gates that the networks ask for, with their base time: those of the network that the operator has
// accepted, else the default. known is false while an accepted schedule is no longer the one in the network's spec:
// the operator is about to say more, or the new one is wrong, and what is in force stays.
func wanted(networks []v1alpha1.TSNNetwork) (gates *tsnnetwork.Gates, known bool) {
	for i := range networks {
		request := networks[i].Status.Schedule
		if request == nil {
			continue
		}
		gates, err := tsnnetwork.GatesOf(&networks[i])
		if err != nil || gates.Hash() != request.Hash {
			return nil, false
		}
		return gates.At(request.BaseTime), true
	}
	return tsnnetwork.DefaultGates(), true
}

// asked tells whether ktsnd was asked for a table.
func asked(state *control.GateParameterState, table *control.GateParameterTable) bool {
	return state.GateEnabled == table.GateEnabled && state.AdminGateStates == table.AdminGateStates &&
		slices.Equal(state.AdminControlList.Entries, table.AdminControlList.Entries) &&
		state.AdminCycleTime.Nanoseconds() == table.AdminCycleTime.Nanoseconds() &&
		state.AdminCycleTimeExtension == table.AdminCycleTimeExtension &&
		(!table.GateEnabled || state.AdminBaseTime == table.AdminBaseTime) &&
		limits(state.QueueMaxSDUTable) == limitsAsked(table.QueueMaxSDUTable)
}

func limits(states []control.QueueState) (of [control.TrafficClasses]uint32) {
	for _, state := range states {
		of[state.TrafficClass%control.TrafficClasses] = state.QueueMaxSDU.QueueMaxSDU
	}
	return of
}

func limitsAsked(states []control.QueueMaxSDU) (of [control.TrafficClasses]uint32) {
	for _, state := range states {
		of[state.TrafficClass%control.TrafficClasses] = state.QueueMaxSDU
	}
	return of
}
