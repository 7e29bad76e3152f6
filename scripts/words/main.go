// SPDX-License-Identifier: Apache-2.0

// Command words refuses words that docs/glossary.md replaces by the field's. The list beside it says which, and where they are
// right. It reads the files that git knows, and prints one line for each finding.
//
//	go run ./scripts/words          all files
//	go run ./scripts/words FILES    these
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed list
var list string

func main() {
	found, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	for _, one := range found {
		fmt.Println(one)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "words: %d of these; docs/glossary.md says why, scripts/words/list what is allowed\n", len(found))
		os.Exit(1)
	}
}

func run(files []string) ([]string, error) {
	rules, err := parse(list)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		if files, err = tracked(); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, file := range files {
		if skipped(file) {
			continue
		}
		content, err := os.ReadFile(file)
		if os.IsNotExist(err) { // removed and not committed yet
			continue
		}
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(content, []byte{0}) {
			found = append(found, check(file, string(content), rules)...)
		}
	}
	return found, nil
}

func tracked() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(files)
	return slices.Compact(files), nil
}

// skipped are the glossary and the list, where the words stand; what others wrote; what programs wrote.
func skipped(file string) bool {
	return file == "docs/glossary.md" || file == "scripts/words/list" || strings.HasPrefix(file, "docs/results/") ||
		strings.Contains(file, "/testdata/") || strings.Contains(file, "/seeds/") ||
		slices.Contains([]string{"go.sum", "go.mod", "LICENSE"}, filepath.Base(file))
}
