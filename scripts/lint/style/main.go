// SPDX-License-Identifier: Apache-2.0

// Command style checks what no other linter checks: names in Go and C, headers with a single prototype, small packages, and prose, which
// Vale reads. The file baseline has the number of findings that each rule still allows in each area. A number may only become smaller:
// more findings fail. --update writes the present numbers if no rule has more findings than before in all areas together, so that files
// can move.
//
//	go run ./scripts/lint/style [--vale PROGRAM] [--update] [--all]
//
// --all also prints the findings that the baseline allows.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const folder = "scripts/lint/style"

// finding is one place that breaks a rule.
type finding struct {
	rule, file string
	line       int
	text       string
}

func main() {
	vale := flag.String("vale", "", "the program that reads the prose; prose is not checked without it")
	update := flag.Bool("update", false, "write smaller numbers to the baseline")
	all := flag.Bool("all", false, "also print the findings that the baseline allows")
	flag.Parse()
	ok, err := run(*vale, *update, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(vale string, update, all bool) (bool, error) {
	files, err := trackedFiles()
	if err != nil {
		return false, err
	}
	findings, err := checkFiles(files)
	if err != nil {
		return false, err
	}
	if vale != "" {
		prose, err := checkProse(vale, files)
		if err != nil {
			return false, err
		}
		findings = append(findings, prose...)
	}
	allowed, err := readBaseline()
	if err != nil {
		return false, err
	}
	if update && len(grown(findings, allowed)) == 0 {
		return true, writeBaseline(findings, allowed, vale != "")
	}
	return report(os.Stdout, findings, allowed, all), nil
}

// trackedFiles returns the files that git tracks or would add, without generated and third-party ones.
func trackedFiles() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(file string) bool {
		_, err := os.Stat(file)
		return err != nil || isForeign(file)
	}), nil
}

func isForeign(file string) bool {
	return strings.Contains(file, "/testdata/") || strings.Contains(file, "/seeds/") || strings.HasPrefix(file, "docs/measurements/results/") ||
		strings.HasPrefix(filepath.Base(file), "zz_generated")
}

func isC(file string) bool { return strings.HasSuffix(file, ".c") || strings.HasSuffix(file, ".h") }

func isGo(file string) bool { return strings.HasSuffix(file, ".go") }
