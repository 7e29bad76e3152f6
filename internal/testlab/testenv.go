// SPDX-License-Identifier: Apache-2.0

// Package testlab and its subpackages are shared by the tests and by the laboratory ktsn-bench.
//
// testlab itself checks requirements that not every machine meets: root, and built programs. A test whose requirement
// is missing is skipped with the reason; it fails if CI=true or KTSN_REQUIRE=1 is set. The subpackages create network
// namespaces (topology), run programs in them (process) and parse their output (tsnperf, ping, iperf3), attach pods by
// the network plugin (cniruntime), record frames (wiretap), and run Open vSwitch (ovsnode) and virtual machines
// (guestmachine, guestclock).
package testlab

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Required reports whether tests must not be skipped.
func Required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("KTSN_REQUIRE") == "1"
}

// Sanitized reports whether the programs were built with sanitizers (scripts/sanitize.sh): they are slow, and keep
// freed memory for a while.
func Sanitized() bool {
	return os.Getenv("KTSN_SANITIZED") == "1"
}

// Long reports whether tests run every case of theirs (make nightly), and not every second of those that resemble others.
func Long() bool {
	return os.Getenv("KTSN_LONG") == "1"
}

// Missing skips or fails a test with the reason why it cannot run and what to do about it.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if Required() {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Must ends a test that cannot go on after an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Root skips or fails a test that needs root to create network namespaces.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "needs root to make network namespaces")
	}
}

// BinDir returns the absolute path of the output folder of `make build`: KTSN_BIN_DIR, or bin in the source tree.
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

// Program returns the path of a built program or library. The path of a library can be an entry of LD_PRELOAD.
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

// sourceTree returns the repository's root, recognised by its meson.build. Tests run in their package's folder, whose
// module may be a nested one.
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

// ReadFile reads a file by the given function.
func ReadFile[T any](t testing.TB, path string, from func(io.Reader) (T, error)) T {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := from(file)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// CheckError checks that an error contains a text.
func CheckError(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want %q", err, text)
	}
}
