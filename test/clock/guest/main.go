// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

// Guest is the first process of a virtual machine with a clock of its own. It writes what the clock says into memory that it
// shares with its host, and does what the host asks for by a serial line: it changes the clock, and runs ptp4l and whoever watches
// it. See the package test/clock/lab for who starts it.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

const (
	modulesFile = "/modules"
	lineDevice  = "/dev/ttyS1"
	networkCard = "eth0"
	// addressOption is how the kernel's command line gives the network card's address.
	addressOption = "guest.address="
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := setUp(); err != nil {
		return err
	}
	page, err := openPage()
	if err != nil {
		return err
	}
	line, err := openLine()
	if err != nil {
		return err
	}
	defer line.Close()
	go func() { fmt.Fprintln(os.Stderr, "guest:", guestclock.Sampling(page)) }()
	return newServer(page, line).serve()
}

func setUp() error {
	for _, filesystem := range []struct{ kind, where string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}} {
		if err := mount(filesystem.kind, filesystem.where); err != nil {
			return err
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	return setUpNetwork()
}

func mount(kind, where string) error {
	if err := os.MkdirAll(where, 0o755); err != nil {
		return fmt.Errorf("mount %s: %w", where, err)
	}
	if err := unix.Mount(kind, where, kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount %s: %w", where, err)
	}
	return nil
}

// loadModules loads what modulesFile lists, each after what it needs.
func loadModules() error {
	list, err := os.ReadFile(modulesFile)
	if err != nil {
		return fmt.Errorf("read list of modules: %w", err)
	}
	for _, path := range strings.Fields(string(list)) {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("load module: %w", err)
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil {
			return fmt.Errorf("load module %s: %w", path, err)
		}
	}
	return nil
}

func setUpNetwork() error {
	address, err := addressOfCommandLine()
	if err != nil {
		return err
	}
	for _, name := range []string{"lo", networkCard} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
		if name == networkCard {
			if err := netlink.AddrAdd(link, address); err != nil {
				return fmt.Errorf("give %s the address %s: %w", name, address, err)
			}
		}
	}
	return nil
}

func addressOfCommandLine() (*netlink.Addr, error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	for _, word := range strings.Fields(string(text)) {
		if address, ok := strings.CutPrefix(word, addressOption); ok {
			return netlink.ParseAddr(address)
		}
	}
	return nil, fmt.Errorf("the kernel's command line has no %s", addressOption)
}

// openLine opens the serial line as it is: without echo, and no byte has a meaning.
func openLine() (*os.File, error) {
	line, err := os.OpenFile(lineDevice, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	settings := &unix.Termios{Cflag: unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200, Cc: [19]uint8{unix.VMIN: 1}}
	if err := unix.IoctlSetTermios(int(line.Fd()), unix.TCSETS, settings); err != nil {
		line.Close()
		return nil, fmt.Errorf("make %s a raw line: %w", lineDevice, err)
	}
	return line, nil
}

// openPage finds the memory that the host shares by its size.
func openPage() (*guestclock.Page, error) {
	page, err := guestclock.FindPage()
	if err != nil {
		return nil, fmt.Errorf("memory that the host shares: %w", err)
	}
	return page, nil
}
