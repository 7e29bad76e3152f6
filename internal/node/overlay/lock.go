// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock waits, at most as long as the node's patience, until no other process changes the node's networks.
// The kernel releases it when this process ends, however it does.
func (n *Node) lock(ctx context.Context) (unlock func(), err error) {
	file, err := n.openLock()
	if err != nil {
		return nil, err
	}
	taken, abandoned := make(chan error), make(chan struct{})
	go func() {
		err := waitForLock(file)
		select {
		case taken <- err:
		case <-abandoned:
			file.Close()
		}
	}()
	limit := time.NewTimer(n.patience)
	defer limit.Stop()
	select {
	case err := <-taken:
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		return func() { file.Close() }, nil
	case <-ctx.Done():
		err = fmt.Errorf("wait for %s: %w", file.Name(), context.Cause(ctx))
	case <-limit.C:
		err = failed(Busy, "%s was held by other processes for %v; try again later", file.Name(), n.patience)
	}
	close(abandoned)
	return nil, err
}

func waitForLock(file *os.File) error {
	for {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

func (n *Node) openLock() (*os.File, error) {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(n.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	return file, nil
}
