// SPDX-License-Identifier: Apache-2.0

package control

import "testing"

func TestGatedPriorities(t *testing.T) {
	list := func(states ...uint8) (l GateControlList) {
		for _, state := range states {
			l.Entries = append(l.Entries, GateControlEntry{GateStatesValue: state})
		}
		return l
	}
	classes := TrafficClassMap{1, 0, 2, 3, 4, 5, 6, 7}
	for name, test := range map[string]struct {
		strategy string
		table    GateParameterState
		want     uint64
	}{
		"no list":              {"tas", GateParameterState{OperGateStates: 0xff}, 0},
		"gates that are shut":  {"tas", GateParameterState{OperGateStates: 0xfd}, 1},
		"a list":               {"tas", GateParameterState{GateEnabled: true, OperGateStates: 0xff, OperControlList: list(0xff, 0x7f)}, 1 << 7},
		"a list to come":       {"tas", GateParameterState{GateEnabled: true, OperGateStates: 0xff, ConfigPending: true, AdminControlList: list(0xfb)}, 1 << 2},
		"shut gates to come":   {"tas", GateParameterState{OperGateStates: 0xff, ConfigPending: true, AdminGateStates: 0xf7}, 1 << 3},
		"a list that is over":  {"tas", GateParameterState{OperGateStates: 0xff, AdminGateStates: 0, AdminControlList: list(0)}, 0},
		"a class of many":      {"tas", GateParameterState{OperGateStates: 0xfe}, 0xff02},
		"a strategy of others": {"strict-priority", GateParameterState{OperGateStates: 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			status := &Status{Strategy: test.strategy, TrafficClassMap: classes}
			if got := GatedPriorities(status, &Schedule{Table: test.table}); got != test.want {
				t.Errorf("%#x, want %#x", got, test.want)
			}
		})
	}
}
