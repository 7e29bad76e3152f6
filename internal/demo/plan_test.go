// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/results"
)

func TestPathsTakeTurns(t *testing.T) {
	config := validConfig()
	blocks := plan(&config)
	if len(blocks) != 3 || blocks[0].keepAwake || !blocks[1].keepAwake || !blocks[0].idle || blocks[1].idle ||
		blocks[0].gates || blocks[1].gates || !blocks[2].gates {
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
		if key.workload == WorkloadKeepAwake {
			want = keepAwakeMessages
		}
		if messages != want {
			t.Errorf("%+v gets %d messages, want %d", key, messages, want)
		}
	}
	if len(sent) != 3*3+3+3 {
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

func TestWorkloadsWithGatesTakeTurnsInShortRuns(t *testing.T) {
	config := validConfig()
	config.Workloads = []string{WorkloadKernelSaturated, WorkloadGates}
	blocks := plan(&config)
	if len(blocks) != 1 || !blocks[0].gates {
		t.Fatalf("blocks are %+v", blocks)
	}
	turns := []string{WorkloadGates, WorkloadKernelSaturated}
	for i, r := range blocks[0].runs {
		messages := 500
		if i < 2 {
			messages = warmUpMessages
		}
		if r != (run{PathDirect, turns[i%2], gatesPayload, messages, i / 2}) {
			t.Errorf("run %d is %+v", i, r)
		}
	}
	if got := len(blocks[0].runs); got != 2*(1+10) {
		t.Errorf("%d runs, want a warm-up and 10 alternations of each", got)
	}
}

func TestRunsWithGatesAreAsShortAsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change               func(*Config)
		messages, alternates int
	}{
		"a few messages":       {func(c *Config) { c.Messages, c.Alternations = 200, 1 }, 200, 1},
		"a number not divided": {func(c *Config) { c.Messages, c.Alternations = 700, 1 }, 500, 2},
		"a short cycle":        {func(c *Config) { c.Cycle = 100 * time.Microsecond }, 1000, 5},
		"a long cycle":         {func(c *Config) { c.Cycle = 100 * time.Millisecond }, 5, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			config := validConfig()
			config.Workloads = []string{WorkloadGates}
			test.change(&config)
			runs := plan(&config)[0].runs
			last := runs[len(runs)-1]
			if last.messages != test.messages || last.alternation != test.alternates {
				t.Errorf("the last run is %+v, want %d messages in alternation %d", last, test.messages, test.alternates)
			}
		})
	}
}
