// SPDX-License-Identifier: Apache-2.0

package guestrig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// namespaces matches the names of namespaces that `ktsn vm attach` created for a bench, with the number of its process.
var namespaces = regexp.MustCompile(`^ktsn-vm-[ab][trg](\d+)$`)

// machineName is unique on this machine, and of at most 10 characters.
func machineName(letter, name string) string {
	return fmt.Sprintf("%s%.1s%d", letter, name, os.Getpid())
}

// sweep removes the network namespaces of killed benches. Their other parts are removed with the nodes.
func sweep() error {
	leftovers, err := filepath.Glob("/run/netns/ktsn-vm-*")
	if err != nil {
		return err
	}
	for _, path := range leftovers {
		match := namespaces.FindStringSubmatch(filepath.Base(path))
		if match == nil {
			continue
		}
		if _, err := os.Stat("/proc/" + match[1]); err == nil {
			continue
		}
		if err := errors.Join(unix.Unmount(path, unix.MNT_DETACH), os.Remove(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove a network namespace that an earlier bench left: %w", err)
		}
	}
	return nil
}
