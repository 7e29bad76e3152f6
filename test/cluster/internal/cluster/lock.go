// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPatience is how long lock waits for a lock. A program that is killed while it starts another leaves its
// descriptors, and so the lock, to the forked child that is about to exec: on a busy machine for a tenth of a second.
const (
	lockPatience = 2 * time.Second
	lockPoll     = 10 * time.Millisecond
)

// lock takes the cluster's folder for this program, creating it if needed. It does not wait for others to finish their
// work.
func lock(name, dir string) (unlock func(), err error) {
	for began := time.Now(); ; {
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
		if errors.Is(err, unix.EWOULDBLOCK) && time.Since(began) < lockPatience {
			folder.Close()
			time.Sleep(lockPoll)
			continue
		}
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
