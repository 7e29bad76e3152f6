// SPDX-License-Identifier: Apache-2.0

//go:build bench

package netns_test

import (
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

// What ktsn-test-calls says: nanoseconds.
type callCosts struct {
	// Alone and Beside are what libktsn adds to calls on a socket that never asked for SO_TXTIME, in a process without
	// and with another that did.
	Alone  map[string]float64        `json:"alone"`
	Sends  map[string]map[string]int `json:"sends"`
	Beside map[string]float64        `json:"beside"`
}

// make bench: what calls cost an application, with the kernel's own path beside it.
func TestCallCost(t *testing.T) {
	lab := newLab(t)
	lab.startDaemon(t)
	listener := lab.listenForTexts(t)
	defer listener.Close()
	command := exec.Command(program(t, "ktsn-test-calls"), topology.PodAddressB.String(), strconv.Itoa(listenPort))
	command.Env = lab.preloaded(t)
	var output []byte
	if err := lab.PodA.Do(func() (err error) { output, err = runFor(3*patience, command); return err }); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
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
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, output, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
