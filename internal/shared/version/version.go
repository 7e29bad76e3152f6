// SPDX-License-Identifier: Apache-2.0

// Package version provides the version of KuberneTSN: the number in the file VERSION, which the programs in C use too, and the commit,
// which the Makefile passes to the linker.
package version

import (
	_ "embed"
	"fmt"
	"runtime"
	"strings"
)

//go:embed VERSION
var number string

// commit is the output of scripts/commit.sh at build time.
var commit = "unknown commit"

// Number returns the version number, such as 0.1.0.
func Number() string { return strings.TrimSpace(number) }

// Line returns the output of --version, without the newline.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, Number(), commit, runtime.Version())
}
