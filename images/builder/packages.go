// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// packagesLabel of an image has the Debian packages of its files, with their versions.
const packagesLabel = "kubernetsn.io/debian-packages"

// Packages are the versions of Debian packages by name.
type Packages map[string]string

// String returns the packages sorted, in apt-get's syntax: "a=1 b=2".
func (p Packages) String() string {
	var named []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		named = append(named, name+"="+p[name])
	}
	return strings.Join(named, " ")
}

// parsePackages reads fields of the form "package=version".
func parsePackages(text string) (Packages, error) {
	packages := Packages{}
	for field := range strings.FieldsSeq(text) {
		name, version, _ := strings.Cut(field, "=")
		if name == "" || version == "" {
			return nil, fmt.Errorf("%q is not PACKAGE=VERSION", field)
		}
		if other, twice := packages[name]; twice && other != version {
			return nil, fmt.Errorf("package %s has two versions, %s and %s", name, other, version)
		}
		packages[name] = version
	}
	return packages, nil
}

// PackagesOf returns the packages in an image's label.
func PackagesOf(image v1.Image) (Packages, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read packages of an image: %w", err)
	}
	return parsePackages(config.Config.Labels[packagesLabel])
}

// installedPackages returns the Debian packages of the files of an image, and none on a machine without dpkg.
func installedPackages(entries map[string]entry) (Packages, error) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		return nil, nil //nolint:nilerr // another distribution
	}
	names := map[string]bool{}
	for _, e := range entries {
		if e.source == "" {
			continue
		}
		for _, path := range namesOf(e.source) {
			names[path] = true
		}
	}
	// dpkg reports an error for files of no package, such as programs that were just built.
	data, err := exec.Command("dpkg-query", append([]string{"--search", "--"}, slices.Sorted(maps.Keys(names))...)...).Output()
	if _, unknown := errors.AsType[*exec.ExitError](err); err != nil && !unknown {
		return nil, fmt.Errorf("ask dpkg for packages: %w", err)
	}
	owners := parseOwners(string(data), names)
	if len(owners) == 0 {
		return nil, nil
	}
	versions, err := exec.Command("dpkg-query", append([]string{"--show", "--showformat=${Package}=${Version}\n", "--"}, owners...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("ask dpkg for versions: %w", err)
	}
	return parsePackages(string(versions))
}

// namesOf returns the names by which dpkg may know a file: folders below / have become links to those below /usr.
func namesOf(source string) []string {
	names := []string{source}
	if resolved, err := filepath.EvalSymlinks(source); err == nil {
		names = append(names, resolved, strings.TrimPrefix(resolved, "/usr"))
	}
	return names
}

// parseOwners reads lines of the form "package, package: path" for the requested paths.
func parseOwners(text string, asked map[string]bool) []string {
	owners := map[string]bool{}
	for line := range strings.Lines(text) {
		who, path, exists := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !exists || !asked[path] || strings.HasPrefix(who, "diversion ") {
			continue
		}
		for name := range strings.SplitSeq(who, ", ") {
			owners[name] = true
		}
	}
	return slices.Sorted(maps.Keys(owners))
}
