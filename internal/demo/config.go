// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/internal/podnet"
)

// The paths a message can take; they are the "path" of the results.
const (
	PathDirect      = "direct"
	PathKernelVXLAN = "kernel-vxlan"
	PathHost        = "host"
)

// AllPaths are the paths in the order in which they take turns.
var AllPaths = []string{PathDirect, PathKernelVXLAN, PathHost}

const (
	// maxMessagesPerAlternation keeps a run below what ktsnd remembers of departures (65,535).
	maxMessagesPerAlternation = 60_000
	// maxPayload is what the overlay carries without fragments: 1450 - 20 - 8 bytes.
	maxPayload = 1422
	// minCycle is what a sleeping talker can keep.
	minCycle = 100 * time.Microsecond
	// maxGatesCycle keeps a few cycles with gates below what ktsnd remembers of departures while one class
	// saturates its window.
	maxGatesCycle = 100 * time.Millisecond
)

// Config says what to measure and where to put it.
type Config struct {
	// OutDir gets report.html, summary.json and messages.csv.
	OutDir string
	// BinDir holds ktsnd, libktsn.so, tsnperf and the network plugins.
	BinDir string
	// Messages are sent per path and payload, in Alternations pieces.
	Messages     int
	Alternations int
	// Payloads are bytes of UDP payload.
	Payloads []int
	Cycle    time.Duration
	Paths    []string
	// Workloads are the conditions under which to measure. All but the plain one need path direct, and are left
	// out without it.
	Workloads []string
	// Report gets the table, Progress a line from time to time. ProgressColumns is the width of the terminal
	// behind Progress, on which that line is overwritten; 0 when there is none.
	Report          io.Writer
	Progress        io.Writer
	ProgressColumns int
	// Now is the clock for the date and for how long everything takes; no message is measured with it.
	Now func() time.Time
}

// perAlternation is the number of messages in one run.
func (c *Config) perAlternation() int {
	return c.Messages / c.Alternations
}

// check finds what cannot be measured, in a sentence.
func (c *Config) check() error {
	switch {
	case c.Alternations < 1:
		return fmt.Errorf("%d alternations; give at least 1", c.Alternations)
	case c.perAlternation() < 2:
		return fmt.Errorf("%d messages in %d alternations are too few; give at least two for each",
			c.Messages, c.Alternations)
	case c.perAlternation() > maxMessagesPerAlternation:
		return fmt.Errorf("%d messages in %d alternations are too many; give at most %d for each",
			c.Messages, c.Alternations, maxMessagesPerAlternation)
	case c.Cycle < minCycle || c.Cycle > time.Second:
		return fmt.Errorf("a cycle of %v; give %v to 1s", c.Cycle, minCycle)
	case len(c.Payloads) == 0:
		return fmt.Errorf("no payload; give at least one")
	}
	for i, payload := range c.Payloads {
		if payload < perf.MinPayload || payload > maxPayload {
			return fmt.Errorf("a payload of %d bytes; give %d to %d", payload, perf.MinPayload, maxPayload)
		}
		if slices.Contains(c.Payloads[:i], payload) {
			return fmt.Errorf("a payload of %d bytes is given twice; give each once", payload)
		}
	}
	if err := checkNames("path", c.Paths, AllPaths); err != nil {
		return err
	}
	if err := checkNames("workload", c.Workloads, AllWorkloads); err != nil {
		return err
	}
	if !slices.Contains(c.Paths, PathDirect) && !slices.Contains(c.Workloads, WorkloadPlain) {
		return fmt.Errorf("workloads %v and not path %s, without which they mean nothing; add it, or workload %s",
			c.Workloads, PathDirect, WorkloadPlain)
	}
	if i := slices.IndexFunc(c.Workloads, hasGates); i >= 0 && c.Cycle > maxGatesCycle {
		return fmt.Errorf("a cycle of %v with workload %s; give at most %v, or leave that workload out",
			c.Cycle, c.Workloads[i], maxGatesCycle)
	}
	return nil
}

// checkNames checks a list of names, of which there must be one at least.
func checkNames(what string, given, known []string) error {
	if len(given) == 0 {
		return fmt.Errorf("no %s; give at least one of %v", what, known)
	}
	for i, name := range given {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no %s is called %q; give some of %v", what, name, known)
		}
		if slices.Contains(given[:i], name) {
			return fmt.Errorf("%s %s is given twice; give each once", what, name)
		}
	}
	return nil
}

// programs are the absolute paths of what was built.
type programs struct {
	ktsnd   string
	library string
	tsnperf string
	// plugins is the folder of the network plugins.
	plugins string
}

// findPrograms looks for what the paths need, and says how to make what is missing.
func findPrograms(binDir string, needDaemon bool) (programs, error) {
	dir, err := filepath.Abs(binDir)
	if err != nil {
		return programs{}, fmt.Errorf("find programs: %w", err)
	}
	found := programs{
		ktsnd:   filepath.Join(dir, "ktsnd"),
		library: filepath.Join(dir, "libktsn.so"),
		tsnperf: filepath.Join(dir, "tsnperf"),
		plugins: dir,
	}
	needed := []string{found.tsnperf}
	for _, plugin := range podnet.Plugins {
		needed = append(needed, filepath.Join(dir, plugin))
	}
	if needDaemon {
		needed = append(needed, found.ktsnd, found.library)
	}
	for _, path := range needed {
		if _, err := os.Stat(path); err != nil {
			return programs{}, fmt.Errorf("%s is missing; run `make build`, or name its folder with --bin-dir",
				path)
		}
	}
	return found, nil
}
