// SPDX-License-Identifier: Apache-2.0

// Package testlab and the packages below it are shared by the tests and by the laboratory ktsn-bench.
//
// testlab itself has requirements that not every machine meets: root, and programs that were built. A test whose requirement is
// missing is skipped with the reason; it fails where CI=true or KTSN_REQUIRE=1 is set. The packages below it make network
// namespaces (topology), run programs in them (process) and read what they print (tsnperf, ping, iperf3), attach pods by the network
// plugin (cniruntime), record frames (wiretap), and run Open vSwitch (ovsnode) and virtual machines (guestmachine, guestclock).
package testlab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Required tells that no test may be skipped.
func Required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("KTSN_REQUIRE") == "1"
}

// Sanitized tells that the programs were built with sanitizers (scripts/sanitize.sh): they are slow, and what they have freed
// they keep for a while.
func Sanitized() bool {
	return os.Getenv("KTSN_SANITIZED") == "1"
}

// Missing ends a test that cannot run, with the reason and what to do about it.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if Required() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Root ends a test that makes network namespaces and may not.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "needs root to make network namespaces")
	}
}

// BinDir is the absolute path of the folder of what `make build` makes: KTSN_BIN_DIR, else the source tree's.
func BinDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("KTSN_BIN_DIR")
	if dir == "" {
		dir = filepath.Join(sourceTree(t), "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Program is the path of a program or library that was built. That of a library can be an entry of LD_PRELOAD.
func Program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(BinDir(t), name)
	if _, err := os.Stat(path); err != nil {
		Missing(t, path+" is missing; run `make build`")
	}
	if filepath.Ext(name) != ".so" || !strings.ContainsAny(path, " :") {
		return path
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// sourceTree is the repository's root, by its meson.build: tests run in their package's folder, whose module may be one within the
// repository.
func sourceTree(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "meson.build")); err == nil {
			return at
		}
	}
	t.Fatalf("no meson.build in %s or above it", dir)
	return ""
}
