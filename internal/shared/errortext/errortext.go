// SPDX-License-Identifier: Apache-2.0

// Package errortext formats errors for users: the place of a fault in a file that a user wrote, and errors with several lines for logs and
// condition messages, which have one.
package errortext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// OneLine returns the text of an error on one line. errors.Join puts each error on a line of its own; they are separated by "; " instead.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// FileError is the first fault that was found in a file.
type FileError struct {
	File string
	// Line counts from 1; 0 if the file as a whole is at fault.
	Line int
	// Field is the full path of the field, such as gate-parameter-table.admin-cycle-time; empty if no field is at fault.
	Field string
	// Message says what is wrong and what is allowed.
	Message string
}

// Error returns "FILE:LINE: FIELD: MESSAGE", without the parts that are unknown.
func (e *FileError) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, e.Line)
	}
	if e.Field != "" {
		text += ": " + e.Field
	}
	return text + ": " + e.Message
}

// yamlError is the format of the errors of go.yaml.in/yaml.
var yamlError = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?(.*)$`)

// Syntax converts an error of go.yaml.in/yaml. prefix begins the message, such as "is no YAML".
func Syntax(prefix string, err error) *FileError {
	fault := &FileError{Message: prefix + ": " + err.Error()}
	if parts := yamlError.FindStringSubmatch(err.Error()); parts != nil {
		fault.Message = prefix + ": " + parts[2]
		fault.Line, _ = strconv.Atoi(parts[1]) // 0 without a line
	}
	return fault
}
