// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"
	"unicode"
)

// printable writes text of clusters without control characters of terminals.
type printable struct{ io.Writer }

// Write replaces control characters other than line feeds and tabs by spaces.
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
