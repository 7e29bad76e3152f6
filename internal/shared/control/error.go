// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// Error is a refusal by ktsnd: the request was understood as far as the named field, and changed nothing.
type Error struct {
	// Field is the request's field that was at fault; empty when it was the message as a whole.
	Field string `json:"field"`
	// Message says what was wrong and what to do.
	Message string `json:"message"`
}

// Error returns the daemon's own sentence, with the field it is about.
func (e *Error) Error() string {
	if e.Field == "" {
		return "ktsnd refused: " + e.Message
	}
	return fmt.Sprintf("ktsnd refused %s: %s", e.Field, e.Message)
}

// unknownField tells whether ktsnd does not know a field of the request: it is of an older release.
func (e *Error) unknownField() bool {
	return e.Field == "" && strings.HasPrefix(e.Message, "unknown field ")
}
