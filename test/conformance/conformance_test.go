// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/conformance"
	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

const (
	scenarioDir = "scenarios"
	// patience bounds the run of the machine, which takes about ten seconds on an idle host.
	patience = 5 * time.Minute
	// fetchPatience bounds the download of the machine's packages.
	fetchPatience = 5 * time.Minute
)

// machine prepares the virtual machine.
func machine(t *testing.T) *conformance.Machine {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		testlab.Missing(t, "qemu-system-x86_64 is missing; run scripts/install-deps.sh conformance")
	}
	ctx, cancel := context.WithTimeout(t.Context(), fetchPatience)
	defer cancel()
	command := exec.CommandContext(ctx, "../../scripts/guest-kernel.sh")
	command.Stderr = os.Stderr
	folder, err := command.Output()
	if err != nil {
		testlab.Missing(t, "scripts/guest-kernel.sh: "+err.Error())
	}
	return &conformance.Machine{
		Base: strings.TrimSpace(string(folder)), Guest: testlab.Program(t, "ktsn-conformance-guest"), Dir: t.TempDir(),
	}
}

// chosen returns the scenarios of this run: with -short, the short ones.
func chosen(t *testing.T) []scenario.Scenario {
	t.Helper()
	all, err := scenario.Load(scenarioDir)
	if err != nil {
		t.Fatal(err)
	}
	var chosen []scenario.Scenario
	for _, candidate := range all {
		if candidate.Short || !testing.Short() {
			chosen = append(chosen, candidate)
		}
	}
	return chosen
}

// All scenarios share one boot, which takes most of the time.
func TestTheShaperDoesWhatTheKernelDoes(t *testing.T) {
	scenarios := chosen(t)
	replay := testlab.Program(t, "ktsn-shaper-replay")
	machine := machine(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reports, err := machine.RunKernel(ctx, scenarios)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]conformance.Row, len(scenarios))
	for i := range scenarios {
		what, report := &scenarios[i], &reports[i]
		t.Run(what.Name, func(t *testing.T) {
			rows[i] = conformance.Row{Scenario: what, Complaints: judge(ctx, replay, what, report)}
			for _, complaint := range rows[i].Complaints {
				t.Error(complaint)
			}
		})
	}
	publish(t, machine, rows)
}

// judge returns the differences.
func judge(ctx context.Context, replay string, what *scenario.Scenario, report *scenario.Report) []string {
	shaper, err := conformance.RunShaper(ctx, replay, what)
	if err != nil {
		return []string{err.Error()}
	}
	kernel, err := conformance.KernelResult(what, report)
	if err != nil {
		return []string{err.Error()}
	}
	return conformance.Compare(what, shaper, kernel)
}

// publish writes the table to the file that `make conformance` names.
func publish(t *testing.T, machine *conformance.Machine, rows []conformance.Row) {
	t.Helper()
	path := os.Getenv("KTSN_CONFORMANCE_TABLE")
	if path == "" {
		return
	}
	version, err := machine.Version()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(conformance.Table(version, rows)), 0o644); err != nil {
		t.Fatal(err)
	}
}
