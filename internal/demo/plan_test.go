// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

func TestPathsTakeTurns(t *testing.T) {
	config := validConfig()
	blocks := plan(&config)
	if len(blocks) != 2 || blocks[0].keepAwake || !blocks[1].keepAwake || !blocks[0].idle || blocks[1].idle {
		t.Fatalf("blocks are %+v", blocks)
	}
	runs := blocks[0].runs
	if want := 3 + 5*3*3; len(runs) != want {
		t.Fatalf("%d runs, want %d", len(runs), want)
	}
	for i, path := range AllPaths {
		if runs[i] != (run{path, results.WorkloadPlain, 64, warmUpMessages, 0}) {
			t.Errorf("run %d is %+v instead of a warm-up of %s", i, runs[i], path)
		}
	}
	measured := runs[3:]
	for i, r := range measured {
		want := run{AllPaths[i%3], results.WorkloadPlain, config.Payloads[i/3%3], 1000, i/9 + 1}
		if r != want {
			t.Errorf("run %d is %+v, want %+v", i, r, want)
		}
	}
}

func TestEveryMessageAskedForIsSent(t *testing.T) {
	config := validConfig()
	sent := map[run]int{}
	for _, block := range plan(&config) {
		for _, r := range block.runs {
			if r.alternation > 0 {
				sent[run{path: r.path, workload: r.workload, payloadBytes: r.payloadBytes}] += r.messages
			}
		}
	}
	for key, messages := range sent {
		want := 5000
		if key.workload == workloadKeepAwake {
			want = keepAwakeMessages
		}
		if messages != want {
			t.Errorf("%+v gets %d messages, want %d", key, messages, want)
		}
	}
	if len(sent) != 3*3+3 {
		t.Errorf("%d different runs", len(sent))
	}
}

func TestWithoutPathDirectThereIsNoDaemonToWatch(t *testing.T) {
	config := validConfig()
	config.Paths = []string{PathHost}
	blocks := plan(&config)
	if len(blocks) != 1 || blocks[0].idle {
		t.Errorf("blocks are %+v", blocks)
	}
}
