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

// makeNamespace creates a named network namespace, as `ip netns add` does.
func makeNamespace(name string) error {
	result := make(chan error)
	go func() {
		// The thread enters the namespace and ends with this function.
		runtime.LockOSThread()
		handle, err := netns.NewNamed(name)
		if err == nil {
			err = handle.Close()
		}
		result <- err
	}()
	if err := <-result; err != nil {
		return fmt.Errorf("make the network namespace %s: %w", name, err)
	}
	return nil
}

// removeNamespace removes a network namespace. A missing one is not an error.
func removeNamespace(name string) error {
	if _, err := os.Stat(namespacePath(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := netns.DeleteNamed(name); err != nil {
		return fmt.Errorf("remove the network namespace %s: %w", name, err)
	}
	return nil
}
