// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bind gives a device to vfio-pci, unless Check has reasons against it, and notes its driver for Unbind. If a step
// fails the former driver gets the device back. A device that vfio-pci already has stays as it is.
func (b *Bus) Bind(ctx context.Context, address string) (*Device, error) {
	device, reasons, err := b.Check(address)
	if err != nil {
		return nil, err
	}
	if len(reasons) > 0 {
		return nil, fmt.Errorf("%s stays with the kernel: %s", address, strings.Join(reasons, "; "))
	}
	if device.Driver == VFIO {
		return device, nil
	}
	if err := b.loadVFIO(ctx); err != nil {
		return nil, err
	}
	if err := b.note(device); err != nil {
		return nil, err
	}
	if err := b.move(device, VFIO); err != nil {
		return nil, errors.Join(fmt.Errorf("give %s to %s: %w", address, VFIO, err), b.giveBack(address, device.Driver))
	}
	return b.Read(address)
}

// Unbind gives a device back to the driver that it had before Bind, or lets the kernel choose if that is unknown. It
// fails for a device with an owner, whose machine may be about to open it.
func (b *Bus) Unbind(address string) (*Device, error) {
	if owner := b.Claimed(address); owner != "" {
		return nil, fmt.Errorf("%s belongs to %s (network, container, interface and pod), whose machine may just start: remove the pod, which gives it back",
			address, owner)
	}
	return b.UnbindAnyway(address)
}

// UnbindAnyway unbinds a device with or without an owner, and removes the owner.
func (b *Bus) UnbindAnyway(address string) (*Device, error) {
	device, err := b.Read(address)
	if err != nil {
		return nil, err
	}
	if device.Driver != VFIO && device.Driver != "" {
		// A killed Bind may have said already whose it was to be.
		return device, errors.Join(b.write(b.path(address, "driver_override"), "\n"), b.forget(address))
	}
	if err := b.unused(device); err != nil {
		return nil, err
	}
	if err := b.giveBack(address, b.noted(address)); err != nil {
		return nil, fmt.Errorf("give %s back to the kernel: %w", address, err)
	}
	if device, err = b.Read(address); err != nil {
		return nil, err
	}
	if device.Driver == "" || device.Driver == VFIO {
		return nil, fmt.Errorf("no driver of this kernel takes %s back; load its module, and repeat the command", address)
	}
	return device, b.forget(address)
}

// loadVFIO loads the driver's module, if necessary.
func (b *Bus) loadVFIO(ctx context.Context) error {
	if b.hasVFIO() {
		return nil
	}
	output, err := exec.CommandContext(ctx, "modprobe", VFIO).CombinedOutput()
	if err != nil {
		return fmt.Errorf("load %s: modprobe: %w: %s", VFIO, err, strings.TrimSpace(string(output)))
	}
	if !b.hasVFIO() {
		return fmt.Errorf("the kernel has no driver %s, even after modprobe", VFIO)
	}
	return nil
}

func (b *Bus) hasVFIO() bool {
	_, err := os.Stat(filepath.Join(b.Sys, "bus", "pci", "drivers", VFIO))
	return err == nil
}

// move takes a device from its driver and gives it to another; if that is empty, the kernel chooses.
func (b *Bus) move(device *Device, driver string) error {
	override := driver
	if override == "" {
		override = "\n" // takes an override away
	}
	if err := b.write(b.path(device.Address, "driver_override"), override); err != nil {
		return err
	}
	if device.Driver != "" {
		if err := b.write(b.path(device.Address, "driver/unbind"), device.Address); err != nil {
			return err
		}
	}
	if err := b.write(filepath.Join(b.Sys, "bus", "pci", "drivers_probe"), device.Address); err != nil {
		return err
	}
	if now := b.driver(device.Address); driver != "" && now != driver {
		return fmt.Errorf("the kernel gave it to %q; `dmesg` says why", now)
	}
	return nil
}

// giveBack undoes move: it tries the former driver, then lets the kernel choose.
func (b *Bus) giveBack(address, former string) error {
	device, err := b.Read(address)
	if err != nil {
		return err
	}
	if former != "" && device.Driver == former {
		return b.write(b.path(address, "driver_override"), "\n")
	}
	if err := b.move(device, ""); err != nil {
		return err
	}
	if former == "" || b.driver(address) != "" {
		return nil
	}
	return b.write(filepath.Join(b.Sys, "bus", "pci", "drivers", former, "bind"), address)
}

// unused fails for a device that a process has open: the kernel would wait for the process, and block all other
// unbinding.
func (b *Bus) unused(device *Device) error {
	if device.Driver != VFIO || device.Group < 0 {
		return nil
	}
	group := filepath.Join(b.Dev, "vfio", strconv.Itoa(device.Group))
	fd, err := unix.Open(group, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s is in use (%s): end the ktsnd or virtual machine that has it first", device.Address, group)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil // no file to be open
	}
	if err != nil {
		return fmt.Errorf("look whether %s is in use: open %s: %w", device.Address, group, err)
	}
	return unix.Close(fd)
}

// write writes to an existing file of the kernel's.
func (b *Bus) write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

func (b *Bus) notePath(address string) string { return filepath.Join(b.StateDir, address) }

// note records the device's driver. Without a driver it keeps an older note.
func (b *Bus) note(device *Device) error {
	if device.Driver == "" {
		return nil
	}
	if err := os.MkdirAll(b.StateDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.notePath(device.Address), []byte(device.Driver+"\n"), 0o644)
}

// noted returns the driver of a note, or "".
func (b *Bus) noted(address string) string {
	text, err := os.ReadFile(b.notePath(address))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// forget removes the notes of a card: its driver and its owner.
func (b *Bus) forget(address string) error {
	for _, path := range []string{b.notePath(address), b.claimPath(address)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
