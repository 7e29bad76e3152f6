// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/images/builder"
)

// lock has the options for the lock file: report differences, fail on them, or write the file.
type lock struct {
	file          string
	strict, renew bool
}

// check compares the packages of images with the lock file.
func (l lock) check(here builder.Packages, definitions []string, stderr io.Writer) error {
	left, err := l.leftOut(definitions)
	if err != nil {
		return err
	}
	if l.renew {
		if len(left) > 0 {
			return fmt.Errorf("--write-lock needs all definitions beside %s; these were not named: %s", l.file, strings.Join(left, " "))
		}
		return builder.WriteLock(l.file, here)
	}
	locked, err := builder.ReadLock(l.file)
	if err != nil {
		return err
	}
	differences := builder.Differences(locked, here, len(left) == 0)
	if l.strict && len(differences) > 0 {
		return l.refusal(differences)
	}
	for _, difference := range differences {
		fmt.Fprintf(stderr, "ktsn-images: warning: %v\n", difference)
	}
	return nil
}

// refusal returns an error with all differences.
func (l lock) refusal(differences []builder.Difference) error {
	var text strings.Builder
	fmt.Fprintf(&text, "no image was made, because packages differ from %s:\n", l.file)
	for _, difference := range differences {
		fmt.Fprintf(&text, "  %v\n", difference)
	}
	text.WriteString("Install what is locked (images/README.md says how), or lock what is here with --write-lock")
	return errors.New(text.String())
}

// leftOut returns the definitions next to the lock file that the command line does not name.
func (l lock) leftOut(definitions []string) ([]string, error) {
	named := map[string]bool{}
	for _, definition := range definitions {
		absolute, err := filepath.Abs(definition)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", definition, err)
		}
		named[absolute] = true
	}
	folder, err := filepath.Abs(filepath.Dir(l.file))
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", l.file, err)
	}
	beside, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	return slices.DeleteFunc(beside, func(file string) bool { return named[file] }), nil
}
