// SPDX-License-Identifier: Apache-2.0

// Package version provides the version of KuberneTSN: the number in the file VERSION, which the programs in C use too, and the commit
// and the release, which the Makefile passes to the linker.
package version

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var number string

// commit is the output of scripts/commit.sh at build time.
var commit = "unknown commit"

// release is the output of scripts/release-version.sh at build time, or unknown.
var release = "unknown"

// Number returns the version number, such as 0.1.0.
func Number() string { return strings.TrimSpace(number) }

// Line returns the output of --version, without the newline.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, Number(), commit, runtime.Version())
}

// Release returns the version in the names of a release's files: the number at a tagged commit, else for example 0.1.0-dev.g0123456789ab.
func Release() string { return release }

// BuildFlags returns the flags and the environment of the Go build, such as "-trimpath=true CGO_ENABLED=0".
func BuildFlags() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown flags"
	}
	var flags []string
	for _, setting := range info.Settings {
		flags = append(flags, setting.Key+"="+setting.Value)
	}
	return strings.Join(flags, " ")
}
