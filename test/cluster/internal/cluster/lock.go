// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPatience is how long a lock may take to be free. A program that is killed while it starts another one leaves its descriptors, and
// with them the lock, to the copy of itself that is about to become the other: on a busy machine for a tenth of a second.
const (
	lockPatience = 2 * time.Second
	lockPoll     = 10 * time.Millisecond
)

// lock takes the cluster's folder for this program, making it if need be. It does not wait for others to finish their work.
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
