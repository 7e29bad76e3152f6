// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
	"github.com/kubernetsn/kubernetsn/test/conformance/txtime"
)

// Machine has the parts of the virtual machine.
type Machine struct {
	// Base has vmlinuz and base.cpio from scripts/guest-kernel.sh.
	Base string
	// Guest is the program of test/conformance/guest.
	Guest string
	// Dir is a folder for files of this run.
	Dir string
}

// RunKernel plays scenarios in the machine and returns a report of each.
func (m *Machine) RunKernel(ctx context.Context, scenarios []scenario.Scenario) ([]scenario.Report, error) {
	content, err := scenario.Marshal(scenarios)
	if err != nil {
		return nil, err
	}
	return run[scenario.Report](ctx, m, []file{{"scenarios.json", content, 0o644}}, len(scenarios))
}

// RunCases runs cases of SO_TXTIME by a program in the machine and returns a report of each.
func (m *Machine) RunCases(ctx context.Context, program string, cases []txtime.Case) ([]txtime.Report, error) {
	list, err := json.Marshal(cases)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	return run[txtime.Report](ctx, m, []file{{"txtime-cases.json", list, 0o644}, {"txtime", content, 0o755}, {"scenarios.json", []byte("[]"), 0o644}},
		len(cases))
}

// run boots the machine with these files and returns its reports.
func run[Report any](ctx context.Context, m *Machine, files []file, want int) ([]Report, error) {
	if err := m.packFiles(ctx, files); err != nil {
		return nil, fmt.Errorf("pack initial file system: %w", err)
	}
	path := filepath.Join(m.Dir, "reports")
	console, err := m.boot(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("run qemu: %w; its console:\n%s", err, console)
	}
	reports, err := readReports[Report](path)
	if err == nil && len(reports) != want {
		err = fmt.Errorf("%d reports, want %d", len(reports), want)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; its console:\n%s", err, console)
	}
	return reports, nil
}

// Version returns the versions of the kernel and of tc.
func (m *Machine) Version() (string, error) {
	content, err := os.ReadFile(filepath.Join(m.Base, "version"))
	return strings.Join(strings.Split(strings.TrimSpace(string(content)), "\n"), ", "), err
}

// file is a file in the root folder of the machine.
type file struct {
	name    string
	content []byte
	mode    os.FileMode
}

// packFiles adds the guest's program and these files to the base: concatenated archives are one file system.
func (m *Machine) packFiles(ctx context.Context, files []file) error {
	program, err := os.ReadFile(m.Guest)
	if err != nil {
		return err
	}
	root := filepath.Join(m.Dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	var names strings.Builder
	for _, packed := range append(files, file{"init", program, 0o755}) {
		if err := os.WriteFile(filepath.Join(root, packed.name), packed.content, packed.mode); err != nil {
			return err
		}
		fmt.Fprintln(&names, packed.name)
	}
	command := exec.CommandContext(ctx, "cpio", "-o", "-H", "newc", "--quiet", "-D", root)
	command.Stdin = strings.NewReader(names.String())
	archive, err := command.Output()
	if err != nil {
		return fmt.Errorf("cpio: %w", err)
	}
	return m.append(archive)
}

func (m *Machine) append(archive []byte) (err error) {
	base, err := os.Open(filepath.Join(m.Base, "base.cpio"))
	if err != nil {
		return err
	}
	defer base.Close()
	initial, err := os.Create(m.initial())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, initial.Close()) }()
	_, err = io.Copy(initial, io.MultiReader(base, bytes.NewReader(archive)))
	return err
}

func (m *Machine) initial() string { return filepath.Join(m.Dir, "initial.cpio") }

// boot runs the machine until it powers off, and returns its console output.
//
// The machine's clock counts instructions, eight nanoseconds each, instead of the host's time: the speed of the
// emulation and other load of the host do not matter, and the guest's sleeps take no time here. This works with one
// processor only.
func (m *Machine) boot(ctx context.Context, reports string) (string, error) {
	// The kernel sends the death signal when the thread that started the machine ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", "pc,accel=tcg", "-cpu", "max", "-smp", "1", "-m", "768",
		"-icount", "shift=3,sleep=off", "-rtc", "base=2026-01-01,clock=vm",
		"-kernel", filepath.Join(m.Base, "vmlinuz"), "-initrd", m.initial(),
		"-append", "console=ttyS0 quiet panic=-1 nokaslr",
		"-serial", "stdio", "-serial", "file:"+reports)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console, err := command.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	return string(console), err
}

func readReports[Report any](path string) ([]Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	defer file.Close()
	var reports []Report
	for decoder := json.NewDecoder(file); ; {
		var report Report
		if err := decoder.Decode(&report); errors.Is(err, io.EOF) {
			return reports, nil
		} else if err != nil {
			return nil, fmt.Errorf("read reports: %w", err)
		}
		reports = append(reports, report)
	}
}
