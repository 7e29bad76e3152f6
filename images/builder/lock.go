// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// lockHeader is the beginning of a lock file.
const lockHeader = "# The Debian packages (amd64) whose files are in images, with their versions; see README.md.\n" +
	"# `make images IMAGES_FLAGS=--write-lock` writes this file.\n"

// ReadLock reads a lock file: a package per line, and comments that begin with "#".
func ReadLock(file string) (Packages, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no lock file %s; --write-lock writes one", file)
	}
	if err != nil {
		return nil, fmt.Errorf("read lock file: %w", err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
	locked, err := parsePackages(strings.Join(lines, ""))
	if err != nil {
		return nil, fmt.Errorf("lock file %s: %w", file, err)
	}
	return locked, nil
}

// WriteLock writes a lock file.
func WriteLock(file string, packages Packages) error {
	lines := strings.ReplaceAll(packages.String(), " ", "\n")
	if err := os.WriteFile(file, []byte(lockHeader+lines+"\n"), 0o644); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// Difference is a package that differs from the lock file.
type Difference struct {
	Package string
	// Locked is "" if the lock file does not have the package, Here if images have no file of it.
	Locked, Here string
}

func (d Difference) String() string {
	switch {
	case d.Locked == "":
		return fmt.Sprintf("package %s is not locked, and %s is here", d.Package, d.Here)
	case d.Here == "":
		return fmt.Sprintf("package %s is locked at %s, and images made here have no file of it", d.Package, d.Locked)
	}
	return fmt.Sprintf("package %s is locked at %s, and %s is here", d.Package, d.Locked, d.Here)
}

// Differences returns the differences between the lock file and the images built here, by package. If only some images
// were built, packages without a file in them are not reported.
func Differences(locked, here Packages, all bool) []Difference {
	names := maps.Clone(here)
	if all {
		maps.Copy(names, locked)
	}
	var differences []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if locked[name] != here[name] {
			differences = append(differences, Difference{name, locked[name], here[name]})
		}
	}
	return differences
}
