// SPDX-License-Identifier: Apache-2.0

package overlay

import "fmt"

// Kind distinguishes errors that callers handle differently.
type Kind int

// Kinds of errors.
const (
	// Busy: the lock was held by others for too long.
	Busy Kind = iota + 1
	// NoUplink: the interface towards the other nodes is missing or unusable.
	NoUplink
	// Foreign: a device has a name or number that the network needs, and is something else.
	Foreign
	// Exists: the attachment, or an interface of its name in the pod, is there already.
	Exists
	// AddressTaken: another port of the bridge has the address.
	AddressTaken
	// TooLarge: the MTU does not fit through the tunnel.
	TooLarge
	// NoFilter: the kernel cannot keep foreign packets out of the tunnel.
	NoFilter
	// NoEncryption: the kernel cannot encrypt what the network has encrypted.
	NoEncryption
)

// Error is an error of a kind.
type Error struct {
	Kind Kind
	err  error
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

func failed(kind Kind, format string, arguments ...any) error {
	return &Error{kind, fmt.Errorf(format, arguments...)}
}
