// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"io"
	"os"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// maxFileBytes is far above the length of the longest control list.
const maxFileBytes = 1 << 20

// Error is the first fault that was found in a file.
type Error = errortext.FileError

// Document is a schedule from a file.
type Document struct {
	Table *control.GateParameterTable
	file  string
	root  place
}

// Read reads and parses a file.
func Read(path string) (*Document, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the schedule: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the schedule: %w", err)
	}
	return Parse(path, data)
}

// Parse parses the contents of a file, with YANG's defaults for missing fields. Check checks the values that depend on
// the link. Errors are *Error and name the file as name.
func Parse(name string, data []byte) (*Document, error) {
	if len(data) > maxFileBytes {
		return nil, &Error{File: name, Message: fmt.Sprintf("is longer than %d bytes, and no schedule is", maxFileBytes)}
	}
	tree, fault := parseTree(data)
	if fault == nil {
		var root place
		if root, fault = unwrap(tree); fault == nil {
			decoder := decoder{}
			table := decoder.table(root)
			if fault = decoder.fault; fault == nil {
				return &Document{Table: table, file: name, root: root}, nil
			}
		}
	}
	fault.File = name
	return nil, fault
}
