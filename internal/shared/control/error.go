// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// Error is a refusal by ktsnd. The request changed nothing.
type Error struct {
	// Field is the field at fault; empty for the message as a whole.
	Field string `json:"field"`
	// Message explains the fault and the remedy.
	Message string `json:"message"`
}

// Error returns ktsnd's message with its field.
func (e *Error) Error() string {
	if e.Field == "" {
		return "ktsnd refused: " + e.Message
	}
	return fmt.Sprintf("ktsnd refused %s: %s", e.Field, e.Message)
}

// unknownField reports whether ktsnd does not know a field of the request: it is an older release.
func (e *Error) unknownField() bool {
	return e.Field == "" && strings.HasPrefix(e.Message, "unknown field ")
}
