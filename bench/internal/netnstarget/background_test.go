// SPDX-License-Identifier: Apache-2.0

package netnstarget

import "testing"

func TestShares(t *testing.T) {
	for name, test := range map[string]struct {
		background Background
		processes  int
	}{
		"one flow":                   {Background{Pods: 1, FlowsPerPod: 1}, 1},
		"as many as a process takes": {Background{Pods: 1, FlowsPerPod: 250}, 1},
		"one more":                   {Background{Pods: 1, FlowsPerPod: 251}, 2},
		"a thousand":                 {Background{Pods: 1, FlowsPerPod: 1000}, 4},
		"of several pods":            {Background{Pods: 3, FlowsPerPod: 300}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			all := test.background.shares(make([]pod, test.background.Pods))
			flows := 0
			for _, current := range all {
				flows += current.flows
				if current.flows < 1 || current.flows > flowsPerProcess {
					t.Errorf("a process with %d flows", current.flows)
				}
			}
			if len(all) != test.processes || flows != test.background.Pods*test.background.FlowsPerPod {
				t.Errorf("%d processes with %d flows", len(all), flows)
			}
		})
	}
}
