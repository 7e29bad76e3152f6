// SPDX-License-Identifier: Apache-2.0

// Package netdev has the requests about network devices that several packages make of the kernel: finding a device, repeating an
// interrupted dump, switching features off, and attaching BPF programs by tc.
//
// Threads: the functions work in the network namespace of the calling thread, or in that of the handle that they get.
package netdev

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Find returns the device of a name, nil if there is none.
func Find(name string) (netlink.Link, error) { return FindBy(Here, name) }

// FindBy is Find with a handle.
func FindBy(kernel *netlink.Handle, name string) (netlink.Link, error) {
	link, err := kernel.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	return link, nil
}

// maxDumps limits how often an interrupted dump, which may be incomplete, is repeated.
const maxDumps = 10

// Dump repeats a dump of the kernel that was interrupted by a change.
func Dump[T any](dump func() (T, error)) (result T, err error) {
	for range maxDumps {
		if result, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return result, err
}
