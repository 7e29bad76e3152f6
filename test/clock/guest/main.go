// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

// Guest is the first process of a virtual machine with its own clock. It writes the clock's readings into memory that
// it shares with its host, and executes the host's requests from a serial line: it changes the clock, and runs ptp4l
// and its monitor. Package test/clock/lab starts it.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

const (
	modulesFile = "/modules"
	lineDevice  = "/dev/ttyS1"
	networkCard = "eth0"
	// addressOption is the option of the kernel's command line with the network card's address.
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
	page, err := guestclock.FindPage() // the memory that the host shares
	if err != nil {
		return fmt.Errorf("memory that the host shares: %w", err)
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
	if err := guestmachine.MountSystem(); err != nil {
		return err
	}
	for _, at := range []string{"/run", "/tmp"} {
		if err := errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, "")); err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	if err := guestmachine.LoadModules(modulesFile); err != nil {
		return err
	}
	return setUpNetwork()
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

// openLine opens the serial line in raw mode.
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
