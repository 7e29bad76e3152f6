// SPDX-License-Identifier: Apache-2.0

//go:build yardstick

package yardstick

import "testing"

// heuristics are the methods of tsnkit that need no solver.
const heuristics = "ls,ls_tb,ls_pl,dt"

// TestHeuristics compares with tsnkit's heuristics. Seeds from 100 on are not used in development.
func TestHeuristics(t *testing.T) {
	for name, from := range map[string]int{"development": 0, "held out": 100} {
		t.Run(name, func(t *testing.T) {
			s := summarize(compare(t, "full", heuristics, 10, from, from+100))
			s.record(t, name+" cases, heuristics with 10 s", 100)
			s.notWorse(t)
		})
	}
}

// TestExact compares with tsnkit's method for Z3, which may use eight queues with waiting frames (Craciunas et al., RTNS 2016).
func TestExact(t *testing.T) {
	s := summarize(compare(t, "small", "smt_wa", 600, 20, 40))
	s.record(t, "small cases, Z3 with 600 s", 20)
	if 100*s.solved["ktsn"] < 95*s.solved["smt_wa"] {
		t.Errorf("ktsn schedules %d cases, less than 95 %% of the exact method's %d", s.solved["ktsn"], s.solved["smt_wa"])
	}
	if s.median["ktsn"] > 0.1*s.median["smt_wa"] {
		t.Errorf("the median time of ktsn is %.3f s, that of the exact method %.3f s", s.median["ktsn"], s.median["smt_wa"])
	}
}
