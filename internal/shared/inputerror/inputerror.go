// SPDX-License-Identifier: Apache-2.0

// Package inputerror says what is wrong with a file that a user wrote, and where: the same way for schedules, profiles and
// whatever else is read from one.
package inputerror

import (
	"fmt"
	"regexp"
	"strconv"
)

// Error is what is wrong with a file: the first thing that was found.
type Error struct {
	File string
	// Line counts from 1; 0 when the file as a whole is at fault.
	Line int
	// Field is its whole path, such as gate-parameter-table.admin-cycle-time; empty when no field is at fault.
	Field string
	// Message says what is wrong and what is allowed.
	Message string
}

// Error returns file, line, field and sentence.
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, e.Line)
	}
	if e.Field != "" {
		text += ": " + e.Field
	}
	return text + ": " + e.Message
}

// yamlError is how the library (go.yaml.in/yaml) writes one.
var yamlError = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)$`)

// Syntax makes an error of one of the YAML library's; is says what the file is not, such as "is no YAML".
func Syntax(is string, err error) *Error {
	fault := &Error{Message: is + ": " + err.Error()}
	if parts := yamlError.FindStringSubmatch(err.Error()); parts != nil {
		fault.Message = is + ": " + parts[2]
		fault.Line, _ = strconv.Atoi(parts[1]) // 0 where there is none
	}
	return fault
}
