// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keepers are programs that set the system's clock, by the names that the kernel has of them (15 characters at most).
var keepers = []string{"chronyd", "ntpd", "ntp-daemon", "openntpd", "systemd-timesyn", "timemaster", "ptp4l", "phc2sys"}

// notKeeping are options with which chronyd only measures.
var notKeeping = []string{"-x", "-Q"}

// Keeper is a process that sets the system's clock.
type Keeper struct {
	Name string
	PID  int
}

// Keepers lists the processes in a /proc that set the clock. Those that end meanwhile are left out.
func Keepers(proc string) ([]Keeper, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look for other programs that keep the clock: %w", err)
	}
	var found []Keeper
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(proc, entry.Name(), "comm"))
		name := strings.TrimSpace(string(comm))
		if err != nil || !slices.Contains(keepers, name) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, entry.Name(), "cmdline"))
		if err != nil || len(line) == 0 || name == "chronyd" && onlyMeasures(line) { // a zombie has no command line
			continue
		}
		found = append(found, Keeper{name, pid})
	}
	return found, nil
}

func onlyMeasures(commandLine []byte) bool {
	return slices.ContainsFunc(bytes.Split(commandLine, []byte{0}), func(word []byte) bool {
		return slices.Contains(notKeeping, string(word))
	})
}

// refuseKeepers refuses a second master of the clock. Who only serves has another one that keeps its clock; two programs of
// linuxptp are too many there, too.
func (o *Options) refuseKeepers(proc string) error {
	if o.FreeRunning {
		return nil
	}
	found, err := Keepers(proc)
	if err != nil {
		return err
	}
	for _, one := range found {
		if o.Role == RoleGrandmaster && one.Name != "ptp4l" && one.Name != "phc2sys" && one.Name != "timemaster" {
			continue
		}
		return fmt.Errorf("%s (process %d) keeps this node's clock already, and a clock cannot have two masters: "+
			"end it, or leave the clock to it (clock.mode: external); a node that only serves its time has the role grandmaster", one.Name, one.PID)
	}
	return nil
}

// lockFolder makes sure that this is the only instance with that folder. The lock ends with the file, or with the program.
func lockFolder(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of ptp4l's socket: %w", err)
	}
	opened, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(opened.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return opened, nil
	}
	opened.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another ktsn-ptp runs on this node: it has %s; there can be one, so end it, or see to it that "+
			"only one entry of clock.ptp.interfaces selects this node", folder)
	}
	return nil, fmt.Errorf("lock %s: %w", folder, err)
}

// clearSocket removes a socket that nobody serves any more, and refuses one that somebody does.
func clearSocket(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	switch err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); {
	case err == nil:
		return fmt.Errorf("somebody else serves %s, which is no ktsn-ptp: end that ptp4l, or give it another uds_address", path)
	case errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("look at %s, which is to be ptp4l's socket: %w; remove it", path, err)
	}
	return removeFile(path)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what is left of a ptp4l: %w", err)
	}
	return nil
}
