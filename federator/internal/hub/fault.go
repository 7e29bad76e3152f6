// SPDX-License-Identifier: Apache-2.0

package hub

import "fmt"

// Fault is a rejected request: the reason, and the status for the response.
type Fault struct {
	// Status is the HTTP status.
	Status int
	// Message says what is wrong and what to do.
	Message string
	// Details are the separate errors, if there are several.
	Details []string
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// Faultf returns a Fault with a formatted message.
func Faultf(status int, format string, arguments ...any) *Fault {
	return &Fault{Status: status, Message: fmt.Sprintf(format, arguments...)}
}
