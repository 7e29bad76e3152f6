// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netns"
)

const netnsDir = "/run/netns"

func namespacePath(name string) string { return filepath.Join(netnsDir, name) }

// makeNamespace makes a network namespace that `ip netns` knows.
func makeNamespace(name string) error {
	made := make(chan error)
	go func() {
		// The thread is in the namespace then, and ends with this function.
		runtime.LockOSThread()
		handle, err := netns.NewNamed(name)
		if err == nil {
			err = handle.Close()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return fmt.Errorf("make the network namespace %s: %w", name, err)
	}
	return nil
}

// removeNamespace removes it; that it is not there is no error.
func removeNamespace(name string) error {
	if _, err := os.Stat(namespacePath(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := netns.DeleteNamed(name); err != nil {
		return fmt.Errorf("remove the network namespace %s: %w", name, err)
	}
	return nil
}
