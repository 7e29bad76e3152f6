// SPDX-License-Identifier: Apache-2.0

// Package version says which KuberneTSN a program is of: the number in the file VERSION, which the programs in C read too, and
// the commit, which the Makefile gives to the linker.
package version

import (
	_ "embed"
	"fmt"
	"runtime"
	"strings"
)

//go:embed VERSION
var number string

// commit is what scripts/commit.sh said when the program was built.
var commit = "unknown commit"

// Number is the version's, such as 0.1.0.
func Number() string { return strings.TrimSpace(number) }

// Line is what a program answers to --version, without the end of the line.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, Number(), commit, runtime.Version())
}
