// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// entry is a file, directory or symbolic link of the layer.
type entry struct {
	// source is the file on this machine, "" for a directory and for a link to target.
	source, target string
	mode           fs.FileMode
	size           int64
}

// collect returns all entries of the image by path.
func collect(definition *Definition, sources Sources) (map[string]entry, error) {
	entries := map[string]entry{}
	for _, file := range definition.Files {
		existing, err := sources.expand(file)
		if err != nil {
			return nil, err
		}
		for _, source := range existing {
			if err := addWithLibraries(entries, place(file, source), source); err != nil {
				return nil, err
			}
		}
	}
	for _, directory := range definition.Directories {
		mode, err := strconv.ParseUint(directory.Mode, 8, 12)
		if err != nil {
			return nil, fmt.Errorf("directory %s: mode %q is no octal number", directory.Path, directory.Mode)
		}
		entries[path.Clean(directory.Path)] = entry{mode: fs.ModeDir | fs.FileMode(mode)}
	}
	for _, link := range definition.Links {
		entries[path.Clean(link.Path)] = entry{target: link.To, mode: fs.ModeSymlink | 0o777}
	}
	linkEqual(entries)
	addParents(entries)
	return entries, nil
}

func place(file File, source string) string {
	if strings.HasSuffix(file.Path, "/") {
		return path.Join(file.Path, path.Base(source))
	}
	return file.Path
}

func addWithLibraries(entries map[string]entry, at, source string) error {
	if err := addFile(entries, at, source); err != nil {
		return err
	}
	needed, err := libraries(source)
	if err != nil {
		return err
	}
	for _, library := range needed {
		if err := addFile(entries, library, library); err != nil {
			return err
		}
	}
	return nil
}

// addFile follows symbolic links: the image has the file itself under the given name.
func addFile(entries map[string]entry, at, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("look at %s: %w", source, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", source)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	entries[at] = entry{source: source, mode: mode, size: info.Size()}
	return nil
}

// linkEqual keeps the first of several names of a file, and makes the others links: a library with two names must not
// become two libraries, which a program would load both.
func linkEqual(entries map[string]entry) {
	first := map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(entries)) {
		source, err := filepath.EvalSymlinks(entries[at].source)
		if err != nil || entries[at].source == "" {
			continue // reading it later fails
		}
		if other, there := first[source]; there {
			entries[at] = entry{target: other, mode: fs.ModeSymlink | 0o777}
			continue
		}
		first[source] = at
	}
}

// addParents adds the parent directories, which some runtimes otherwise create for root only.
func addParents(entries map[string]entry) {
	for at := range entries {
		for parent := path.Dir(at); parent != "/"; parent = path.Dir(parent) {
			if _, there := entries[parent]; !there {
				entries[parent] = entry{mode: fs.ModeDir | 0o755}
			}
		}
	}
}
