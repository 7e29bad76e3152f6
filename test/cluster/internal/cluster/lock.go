// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the cluster's folder for this program, making it if need be. It never waits.
func lock(name, dir string) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("lock cluster %s: %w", name, err)
		}
		folder, err := os.Open(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue // a down has just removed it
		}
		if err != nil {
			return nil, fmt.Errorf("lock cluster %s: %w", name, err)
		}
		err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			folder.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = errBusy
			}
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(folder.Fd()), &stat); err == nil && stat.Nlink == 0 {
			folder.Close() // what was locked has been removed meanwhile
			continue
		}
		return func() { folder.Close() }, nil
	}
}
