// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// alert is a finding in Vale's output.
type alert struct {
	Check, Message string
	Line           int
}

// checkProse runs Vale on pages, and on the comments of C and Go.
func checkProse(program string, files []string) ([]finding, error) {
	files = slices.DeleteFunc(slices.Clone(files), func(file string) bool {
		return file == "docs/contributing/glossary.md" || !isC(file) && !isGo(file) && !strings.HasSuffix(file, ".md")
	})
	var all []finding
	for chunk := range slices.Chunk(files, 1000) { // a command line has a limited length
		out, err := exec.Command(program, append([]string{"--config", "scripts/lint/vale.ini", "--no-exit", "--output", "JSON"}, chunk...)...).Output()
		if err != nil {
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				return nil, fmt.Errorf("vale: %w\n%s%s", err, out, failed.Stderr)
			}
			return nil, fmt.Errorf("vale: %w", err)
		}
		alerts := map[string][]alert{}
		if err := json.Unmarshal(out, &alerts); err != nil {
			return nil, fmt.Errorf("read what vale found: %w", err)
		}
		for file, inFile := range alerts {
			for _, a := range inFile {
				all = append(all, finding{a.Check, file, a.Line, a.Message})
			}
		}
	}
	slices.SortFunc(all, func(a, b finding) int {
		if order := strings.Compare(a.file, b.file); order != 0 {
			return order
		}
		return a.line - b.line
	})
	return all, nil
}
