// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// sendCall measures the median of a send call, in ns, in a process with so many threads, each with a socket of its own.
func (l *lab) sendCall(t *testing.T, threads int) float64 {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-threads"), topology.PodAddressB.String(), strconv.Itoa(hostilePort),
		strconv.Itoa(threads), "1000")
	command.Env = l.preloaded(t)
	output := &bytes.Buffer{}
	command.Stdout = output
	if err := finish(t, start(t, l.PodA, "ktsn-test-threads", command)); err != nil {
		t.Fatal(err)
	}
	var p50, p99 float64
	if _, err := fmt.Sscan(output.String(), &p50, &p99); err != nil {
		t.Fatalf("ktsn-test-threads said %q: %v", output, err)
	}
	return p50
}

func median(sample []float64) float64 {
	slices.Sort(sample)
	return sample[len(sample)/2]
}

// A measurement, and no verdict. Each thread sends one message a millisecond, their phases spread evenly. The turns
// alternate, so that what disturbs the machine disturbs both; what counts is the median over the turns.
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
