// SPDX-License-Identifier: Apache-2.0

package hub

import "fmt"

// Fault is why something that was asked for is not done, for the answer to who asked.
type Fault struct {
	// Status is that of HTTP.
	Status int
	// Sentence says what was wrong, and what to do.
	Sentence string
	// Details are single things that are wrong.
	Details []string
}

// Error returns the sentence.
func (f *Fault) Error() string { return f.Sentence }

// Faultf makes one.
func Faultf(status int, format string, arguments ...any) *Fault {
	return &Fault{Status: status, Sentence: fmt.Sprintf(format, arguments...)}
}
