// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// SweepStale removes what topologies of ended processes have left, and returns the names. Their programs are dead
// already (Namespace.Start). Concurrent sweeps are safe.
func SweepStale() (removed []string, err error) {
	namespaces, errList := staleNames(netnsDir)
	err = errors.Join(err, errList)
	for _, name := range namespaces {
		if errRemove := removeName(name); errRemove != nil {
			err = errors.Join(err, fmt.Errorf("remove stale network namespace: %w", errRemove))
			continue
		}
		removed = append(removed, filepath.Join(netnsDir, name))
	}
	dirs, errList := staleNames(runDir)
	err = errors.Join(err, errList)
	for _, name := range dirs {
		dir := filepath.Join(runDir, name)
		if errRemove := errors.Join(releaseHugepages(dir), os.RemoveAll(dir)); errRemove != nil {
			err = errors.Join(err, fmt.Errorf("remove stale directory: %w", errRemove))
			continue
		}
		removed = append(removed, dir)
	}
	return removed, err
}

// staleNames returns the entries of dir with the ID of a process that has ended.
func staleNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("look for stale topologies: %w", err)
	}
	var stale []string
	for _, entry := range entries {
		if id, ok := parseID(entry.Name()); ok && !id.alive() {
			stale = append(stale, entry.Name())
		}
	}
	return stale, nil
}

// Sweep calls SweepStale before a measurement, and reports what it removed.
func Sweep(progress io.Writer) error {
	removed, err := SweepStale()
	if err != nil {
		return fmt.Errorf("remove what an earlier measurement left: %w", err)
	}
	if len(removed) > 0 {
		fmt.Fprintf(progress, "removed what an earlier measurement left: %v\n", removed)
	}
	return nil
}
