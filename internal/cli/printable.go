// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"
	"unicode"
)

// printable is a place for texts that clusters have written, of which a terminal obeys nothing.
type printable struct{ io.Writer }

// Write writes lines and columns, and spaces in the place of all else that controls a terminal.
func (p printable) Write(data []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, withoutControls(string(data))); err != nil {
		return 0, err
	}
	return len(data), nil
}

func withoutControls(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text)
}
