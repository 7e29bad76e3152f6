// SPDX-License-Identifier: Apache-2.0

package xfrm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Try reports whether the kernel can encrypt, by trying it in a new network namespace.
func Try() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("look at the node's network namespace: %w", err)
			return
		}
		err = try()
		if errBack := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); errBack != nil {
			err = errors.Join(err, errBack) // the thread, which stays locked, ends
		} else {
			runtime.UnlockOSThread()
		}
		done <- errors.Join(err, home.Close())
	}()
	return <-done
}

// try leaves the thread in another network namespace.
func try() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace to try the kernel's encryption: %w", err)
	}
	const port = 1
	kernel, err := Open(port)
	if err != nil {
		return err
	}
	defer kernel.Close()
	if err := kernel.Protect(); err != nil {
		return err
	}
	state := &State{Name: Name{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), 256}, Incoming: true}
	_, _ = rand.Read(state.Key[:]) // never fails
	return kernel.AddState(state)
}
