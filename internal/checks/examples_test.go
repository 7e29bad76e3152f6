// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"strings"
	"testing"
)

// TestReadmeShowsMinimalProgram compares the lines of C in README.md with the marked lines of examples/c/minimal.c.
func TestReadmeShowsMinimalProgram(t *testing.T) {
	_, marked, ok := strings.Cut(read(t, "examples/c/minimal.c"), "/* README: begin */\n")
	marked, _, ended := strings.Cut(marked, "\t/* README: end */\n")
	if !ok || !ended {
		t.Fatal("minimal.c has no marks of README's lines")
	}
	marked = strings.TrimPrefix(strings.ReplaceAll(marked, "\n\t", "\n"), "\t")
	if !strings.Contains(read(t, "README.md"), "```c\n"+strings.ReplaceAll(marked, "\t", "        ")+"```\n") {
		t.Errorf("README.md does not show these lines of minimal.c:\n%s", marked)
	}
}
