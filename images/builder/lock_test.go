// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDifferencesFromTheLock(t *testing.T) {
	locked := Packages{"libc6": "2.36-9", "libcap2": "1:2.66-4"}
	with := func(change func(Packages)) Packages {
		here := maps.Clone(locked)
		change(here)
		return here
	}
	lost := with(func(here Packages) { delete(here, "libcap2") })
	for name, test := range map[string]struct {
		here Packages
		// part: only some of the images were built.
		part bool
		want []string
	}{
		"none":                                 {with(func(Packages) {}), false, nil},
		"another version":                      {with(func(here Packages) { here["libc6"] = "2.36-10" }), false, []string{"package libc6 is locked at 2.36-9, and 2.36-10 is here"}},
		"a new package":                        {with(func(here Packages) { here["dash"] = "0.5" }), false, []string{"package dash is not locked, and 0.5 is here"}},
		"a package less":                       {lost, false, []string{"package libcap2 is locked at 1:2.66-4, and images made here have no file of it"}},
		"a package less, in one of the images": {lost, true, nil},
		"another version in one of the images": {Packages{"libc6": "3"}, true, []string{"package libc6 is locked at 2.36-9, and 3 is here"}},
		"all at once, by name": {Packages{"libc6": "3", "dash": "0.5"}, false, []string{
			"package dash is not locked, and 0.5 is here",
			"package libc6 is locked at 2.36-9, and 3 is here",
			"package libcap2 is locked at 1:2.66-4, and images made here have no file of it"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, difference := range Differences(locked, test.here, !test.part) {
				got = append(got, fmt.Sprint(difference))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLockRoundTrip(t *testing.T) {
	file, packages := filepath.Join(t.TempDir(), "debian.lock"), Packages{"libc6": "2.36-9", "dash": "0.5", "libcap2": "1:2.66-4"}
	if err := WriteLock(file, packages); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadLock(file); err != nil || !maps.Equal(got, packages) {
		t.Errorf("got %v, %v", got, err)
	}
	text, err := os.ReadFile(file)
	if want := "\ndash=0.5\nlibc6=2.36-9\nlibcap2=1:2.66-4\n"; err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("it is %q, %v", text, err)
	}
}

func TestInvalidLockIsRejected(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a package without a version": {"# a comment\nlibc6\n", `"libc6" is not PACKAGE=VERSION`},
		"a version without a package": {"=2.36\n", `"=2.36" is not PACKAGE=VERSION`},
		"a package of two versions":   {"libc6=1\nlibc6=2\n", "package libc6 has two versions, 1 and 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadLock(write(t, "debian.lock", test.text, 0o644))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := ReadLock(filepath.Join(t.TempDir(), "debian.lock")); err == nil || !strings.Contains(err.Error(), "--write-lock writes one") {
		t.Errorf("of a file that is not there it says %v", err)
	}
}

func TestProjectLock(t *testing.T) {
	locked, err := ReadLock("../debian.lock")
	if err != nil || locked["libc6"] == "" {
		t.Errorf("it locks %v, %v", locked, err)
	}
}
