// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/masters"
)

// refuseKeepers fails if another program keeps the clock. With RoleGrandmaster it fails only for programs of linuxptp. It needs the
// privileges to read other processes' configurations. A program whose configuration cannot be read is refused if it may keep the clock.
func (o *Options) refuseKeepers(proc string) error {
	if o.FreeRunning {
		return nil
	}
	keepers, err := masters.Find(proc)
	if err != nil {
		return err
	}
	for _, master := range keepers {
		if o.Role == RoleGrandmaster && master.Program != "ptp4l" && master.Program != "phc2sys" {
			continue
		}
		if master.Unread != "" {
			return fmt.Errorf("%s may keep this node's clock already, and a clock cannot have two masters: end it, or say on its command line "+
				"that it does not (--time_stamping=hardware or --free_running=1)", master)
		}
		return fmt.Errorf("%s keeps this node's clock already, and a clock cannot have two masters: "+
			"end it, or leave the clock to it (clock.mode: external); a node that only serves its time has the role grandmaster", master)
	}
	return nil
}

// lockFolder fails if another instance uses the folder. The lock ends with the file or the program.
func lockFolder(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of ptp4l's socket: %w", err)
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

// clearSocket removes a socket that no process serves. It fails if a process serves it.
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
