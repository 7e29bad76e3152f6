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
)

// Machine is what the virtual machine consists of.
type Machine struct {
	// Base has vmlinuz and base.cpio, as scripts/guest-kernel.sh makes them.
	Base string
	// Guest is the program of test/conformance/guest.
	Guest string
	// Dir is for files, this run's own.
	Dir string
}

// RunKernel plays scenarios in the machine and returns a report of each.
func (m *Machine) RunKernel(ctx context.Context, scenarios []scenario.Scenario) ([]scenario.Report, error) {
	if err := m.pack(ctx, scenarios); err != nil {
		return nil, fmt.Errorf("pack initial file system: %w", err)
	}
	reports := filepath.Join(m.Dir, "reports")
	console, err := m.boot(ctx, reports)
	if err != nil {
		return nil, fmt.Errorf("run qemu: %w; the console says:\n%s", err, console)
	}
	read, err := readReports(reports)
	if err == nil && len(read) != len(scenarios) {
		err = fmt.Errorf("%d reports of %d scenarios", len(read), len(scenarios))
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the console says:\n%s", err, console)
	}
	return read, nil
}

// Version of the kernel and of tc.
func (m *Machine) Version() (string, error) {
	content, err := os.ReadFile(filepath.Join(m.Base, "version"))
	return strings.Join(strings.Split(strings.TrimSpace(string(content)), "\n"), ", "), err
}

// pack adds the guest's program and the scenarios to the base.
func (m *Machine) pack(ctx context.Context, scenarios []scenario.Scenario) error {
	content, err := scenario.Marshal(scenarios)
	if err != nil {
		return err
	}
	return m.packFiles(ctx, []file{{"scenarios.json", content, 0o644}})
}

// file is one that the machine finds in its root folder.
type file struct {
	name    string
	content []byte
	mode    os.FileMode
}

// packFiles adds the guest's program and these files: archives behind each other are one file system.
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

// boot runs the machine until it turns itself off, and returns what its console said.
//
// Its clock counts instructions, eight nanoseconds each, and not the host's time: how fast the emulation is, and
// what else the host does, decides nothing, and where the guest sleeps no time passes here. That works with
// one processor only.
func (m *Machine) boot(ctx context.Context, reports string) (string, error) {
	// The death signal is sent when the thread ends that started the machine.
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

func readReports(path string) ([]scenario.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	defer file.Close()
	var reports []scenario.Report
	for decoder := json.NewDecoder(file); ; {
		var report scenario.Report
		if err := decoder.Decode(&report); errors.Is(err, io.EOF) {
			return reports, nil
		} else if err != nil {
			return nil, fmt.Errorf("read reports: %w", err)
		}
		reports = append(reports, report)
	}
}
