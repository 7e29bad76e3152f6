// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// sendCall measures the median of a send call in ns in a process with a number of threads, each with its own socket.
func (l *lab) sendCall(t *testing.T, threads int) float64 {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-threads"), topology.PodAddressB.String(), strconv.Itoa(hostilePort),
		strconv.Itoa(threads), "1000")
	command.Env = l.preloaded(t)
	output := &bytes.Buffer{}
	command.Stdout = output
	must(t, finish(t, start(t, l.PodA, "ktsn-test-threads", command)))
	var p50, p99 float64
	if _, err := fmt.Sscan(output.String(), &p50, &p99); err != nil {
		t.Fatalf("ktsn-test-threads reports %q: %v", output, err)
	}
	return p50
}

func median(sample []float64) float64 {
	slices.Sort(sample)
	return sample[len(sample)/2]
}

// TestBenchSendCallOfEightThreads measures send calls; it has no limit. Each thread sends one message a millisecond,
// with evenly spread phases. The turns alternate, so that a disturbance of the machine affects both. The result is the
// median over the turns.
func TestBenchSendCallOfEightThreads(t *testing.T) {
	const turns = 9
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	lab.startCounter(t)
	var single, eight, ratios []float64
	for range turns {
		alone, among := lab.sendCall(t, 1), lab.sendCall(t, 8)
		single, eight, ratios = append(single, alone), append(eight, among), append(ratios, among/alone)
	}
	if counted := awaitSettled(t, client); counted.Sent == 0 || counted.KernelPath != 0 {
		t.Fatalf("the messages did not go through ktsnd: %+v", counted)
	}
	record(t,
		reported("send call p50, one thread", median(single), "ns"),
		reported("send call p50, 8 threads on 8 sockets", median(eight), "ns"),
		limited("send call p50, 8 threads, times that of one", median(ratios), "", 1.3))
}

// callCosts are the results of ktsn-test-calls in ns.
type callCosts struct {
	// Alone and Beside are what libktsn adds to calls on a socket that never asked for SO_TXTIME, in a process without
	// and with another that did.
	Alone  map[string]float64        `json:"alone"`
	Sends  map[string]map[string]int `json:"sends"`
	Beside map[string]float64        `json:"beside"`
}

// TestCallCost measures the cost of calls for an application, compared with the kernel's path (make bench).
func TestCallCost(t *testing.T) {
	lab := newLab(t)
	lab.startDaemon(t)
	listener := lab.listenForTexts(t)
	defer listener.Close()
	command := exec.Command(program(t, "ktsn-test-calls"), topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = lab.preloaded(t)
	output := []byte(lab.outputOf(t, 3*patience, command))
	var costs callCosts
	if err := json.Unmarshal(output, &costs); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, name := range []string{"timed-send", "kernel-send"} {
		fmt.Printf("%-12s p50 %6d  p90 %6d  p99 %6d ns\n", name, costs.Sends[name]["p50"], costs.Sends[name]["p90"],
			costs.Sends[name]["p99"])
	}
	fmt.Printf("timed-send / kernel-send, p50: %.3f\n",
		float64(costs.Sends["timed-send"]["p50"])/float64(costs.Sends["kernel-send"]["p50"]))
	for _, name := range slices.Sorted(maps.Keys(costs.Alone)) {
		fmt.Printf("added to %-10s %5.1f ns, beside a timed socket %5.1f ns\n", name, costs.Alone[name], costs.Beside[name])
	}
	if path := os.Getenv("KTSN_BENCH_CALLS"); path != "" {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, output, 0o644))
	}
}
