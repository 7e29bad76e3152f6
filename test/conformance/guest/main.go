// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Guest is the first and only process of a virtual machine: it runs scenarios through the kernel's taprio and etf and
// reports what left, in which order and when. Package conformance starts it.
//
// It has a single thread, so that only the kernel decides the order of events.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// Files of the initial file system, and the serial line for the reports.
const (
	modulesFile   = "/modules"
	scenariosFile = "/scenarios.json"
	reportLine    = "/dev/ttyS1"
	tcProgram     = "/sbin/tc"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() (err error) {
	if err := guestmachine.MountSystem(); err != nil {
		return err
	}
	if err := errors.Join(guestmachine.LoadModules(modulesFile), setClock(), withoutIPv6()); err != nil {
		return err
	}
	content, err := os.ReadFile(scenariosFile)
	if err != nil {
		return fmt.Errorf("read scenarios: %w", err)
	}
	var scenarios []scenario.Scenario
	if err := json.Unmarshal(content, &scenarios); err != nil {
		return fmt.Errorf("read scenarios: %w", err)
	}
	line, err := os.OpenFile(reportLine, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the line for reports: %w", err)
	}
	defer func() { err = errors.Join(err, line.Close()) }()
	reports := json.NewEncoder(line)
	if err := runAll(scenarios, reports); err != nil {
		return err
	}
	return runCases(reports)
}

// runAll writes a report for each scenario, whether or not it succeeded.
func runAll(scenarios []scenario.Scenario, reports *json.Encoder) error {
	for i := range scenarios {
		if err := reports.Encode(runUndisturbed(&scenarios[i])); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

// runUndisturbed repeats a scenario for which the machine was too slow: now and then the kernel is busy for some tens
// of milliseconds. The outcome of the messages does not matter.
func runUndisturbed(what *scenario.Scenario) *scenario.Report {
	const most = 5
	for attempt := 1; ; attempt++ {
		report := &scenario.Report{Name: what.Name}
		if err := runOne(what, report); err != nil {
			report.Failure = err.Error()
			return report
		}
		disturbed := report.Disturbed(what)
		if disturbed == nil || attempt == most {
			return report
		}
		fmt.Fprintf(os.Stderr, "guest: %s: %v; again\n", what.Name, disturbed)
	}
}

// withoutIPv6 disables neighbour discovery on the devices: every frame there is a message.
func withoutIPv6() error {
	return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
}
