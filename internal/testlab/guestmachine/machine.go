// SPDX-License-Identifier: Apache-2.0

package guestmachine

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
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Machine describes a virtual machine.
type Machine struct {
	// Base is the folder that scripts/guest-kernel.sh prints.
	Base string
	// First is the program ktsn-test-first.
	First string
	// Out is a folder of this machine that the virtual machine can write, as OutDir.
	Out string
	// Processors and MemoryMiB are its size.
	Processors, MemoryMiB int
	// Shown are folders and files of this machine that are visible at the same path in the virtual machine, read-only.
	Shown []string
	// QEMU is the program with its first arguments; empty for this machine's QEMU.
	QEMU []string
	// Chipset is QEMU's machine type; empty for pc.
	Chipset string
	// Devices are more arguments of QEMU, KernelOptions of the kernel.
	Devices, KernelOptions []string
}

// Command is the command that the machine runs.
type Command struct {
	Dir         string
	Arguments   []string
	Environment []string
}

// Run boots the machine, runs a command there as root, and returns the command's exit status after the machine has
// turned itself off. LogFile in Out has the command's output.
func (m *Machine) Run(ctx context.Context, command Command) (int, error) {
	initial, err := m.pack(ctx, command)
	if err != nil {
		return 0, fmt.Errorf("pack initial file system: %w", err)
	}
	status := filepath.Join(m.Out, statusFile)
	if err := os.RemoveAll(status); err != nil {
		return 0, err
	}
	console, err := m.boot(ctx, initial)
	if err != nil {
		return 0, fmt.Errorf("run qemu: %w; the console says:\n%s", err, console)
	}
	text, err := os.ReadFile(status)
	if err != nil {
		return 0, fmt.Errorf("the machine ended without running its command: %w; the console says:\n%s", err, console)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// pack writes the initial file system: concatenated archives are one.
func (m *Machine) pack(ctx context.Context, command Command) (string, error) {
	modules := filepath.Join(m.Base, "kernel")
	text, err := json.Marshal(order{
		Shown: append([]string{modules}, m.Shown...), Modules: modules,
		Dir: command.Dir, Command: command.Arguments, Environment: command.Environment,
	})
	if err != nil {
		return "", err
	}
	root := filepath.Join(m.Out, "initial")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(root, orderFile), text, 0o644); err != nil {
		return "", err
	}
	if err := copyFile(m.First, filepath.Join(root, "init"), 0o755); err != nil {
		return "", err
	}
	pack := exec.CommandContext(ctx, "cpio", "-o", "-H", "newc", "--quiet", "-D", root)
	pack.Stdin = strings.NewReader("init\n" + strings.TrimPrefix(orderFile, "/") + "\n")
	archive, err := pack.Output()
	if err != nil {
		return "", fmt.Errorf("cpio: %w", err)
	}
	to := filepath.Join(m.Out, "initial.cpio")
	return to, concatenate(to, filepath.Join(m.Base, "node.cpio"), archive)
}

func copyFile(from, to string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode)
}

func concatenate(to, base string, archive []byte) (err error) {
	first, err := os.Open(base)
	if err != nil {
		return err
	}
	defer first.Close()
	both, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, both.Close()) }()
	_, err = io.Copy(both, io.MultiReader(first, bytes.NewReader(archive)))
	return err
}

// boot runs the machine until it turns itself off, and returns the output of its console.
func (m *Machine) boot(ctx context.Context, initial string) (string, error) {
	// The death signal is sent when the thread that started the machine ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := m.qemu(initial)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var console bytes.Buffer
	command.Stdout, command.Stderr = &console, &console
	if err := command.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() }) // it may have just ended
	err := command.Wait()
	stop()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	return console.String(), err
}

// qemu returns the command that runs the machine, with more arguments.
func (m *Machine) qemu(initial string, more ...string) *exec.Cmd {
	share := func(tag, path, more string) []string {
		return []string{"-fsdev", "local,id=" + tag + ",path=" + path + ",security_model=none,multidevs=remap" + more,
			"-device", "virtio-9p-pci,fsdev=" + tag + ",mount_tag=" + tag}
	}
	// One thread emulates all processors in turn. With a thread for each, the machine once hung while both were busy:
	// nothing in it continued after kubelet had started.
	qemu, chipset := m.QEMU, m.Chipset
	if len(qemu) == 0 {
		qemu = []string{"qemu-system-x86_64"}
	}
	if chipset == "" {
		chipset = "pc"
	}
	// On a busy machine the emulated timer is too late for the kernel's check of it (no_timer_check), after which it panics.
	options := append([]string{"console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check"}, m.KernelOptions...)
	arguments := append(slices.Clone(qemu[1:]), "-nodefaults", "-display", "none", "-no-reboot",
		"-machine", chipset, "-accel", "tcg,thread=single", "-cpu", "max",
		"-smp", strconv.Itoa(m.Processors), "-m", strconv.Itoa(m.MemoryMiB),
		"-kernel", filepath.Join(m.Base, "vmlinuz"), "-initrd", initial,
		"-append", strings.Join(options, " "), "-serial", "stdio")
	arguments = append(arguments, share(hostTag, "/", ",readonly=on")...)
	arguments = append(arguments, share(outTag, m.Out, "")...)
	return exec.Command(qemu[0], append(append(arguments, more...), m.Devices...)...)
}

// QEMUOf returns Machine.QEMU for the folder that scripts/guest-qemu.sh prints.
func QEMUOf(folder string) []string {
	usr := filepath.Join(folder, "qemu", "usr")
	// The last one is the path of Debian 12's ROMs for network cards.
	return []string{
		filepath.Join(usr, "bin", "qemu-system-x86_64"), "-L", filepath.Join(usr, "share", "qemu"), "-L", filepath.Join(usr, "share", "seabios"),
		"-L", "/usr/share/qemu",
	}
}
