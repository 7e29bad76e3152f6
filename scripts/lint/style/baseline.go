// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cell is a rule in an area, which is a folder of the first two levels.
type cell struct{ rule, area string }

// proseRule is the prefix of the rules that Vale checks.
const proseRule = "Kubernetsn."

func areaOf(file string) string {
	parts := strings.Split(file, "/")
	if len(parts) > 2 {
		parts = parts[:2]
	} else {
		parts = parts[:1]
	}
	return strings.Join(parts, "/")
}

func count(findings []finding) map[cell]int {
	counts := map[cell]int{}
	for i := range findings {
		counts[cell{findings[i].rule, areaOf(findings[i].file)}]++
	}
	return counts
}

// grown returns the rules that have more findings than are allowed in all areas together.
func grown(findings []finding, allowed map[cell]int) []string {
	totals := map[string]int{}
	for where, number := range allowed {
		totals[where.rule] -= number
	}
	for i := range findings {
		totals[findings[i].rule]++
	}
	var rules []string
	for rule, more := range totals {
		if more > 0 {
			rules = append(rules, rule)
		}
	}
	return rules
}

// report prints the findings of cells with more than are allowed, and returns whether there are none.
func report(out io.Writer, findings []finding, allowed map[cell]int, all bool) bool {
	counts, smaller := count(findings), 0
	for i := range findings {
		f := &findings[i]
		if where := (cell{f.rule, areaOf(f.file)}); all || counts[where] > allowed[where] {
			fmt.Fprintf(out, "%s:%d: %s (%s)\n", f.file, f.line, f.text, f.rule)
		}
	}
	ok := true
	for where, count := range counts {
		if count > allowed[where] {
			fmt.Fprintf(out, "style: %s has %d findings of %s, and %d are allowed\n", where.area, count, where.rule, allowed[where])
			ok = false
		}
	}
	for where, number := range allowed {
		if counts[where] < number {
			smaller++
		}
	}
	if ok && smaller > 0 {
		fmt.Fprintf(out, "style: %d numbers of the baseline can become smaller: make style-baseline\n", smaller)
	}
	return ok
}

func readBaseline() (map[cell]int, error) {
	text, err := os.ReadFile(filepath.Join(folder, "baseline"))
	if err != nil {
		return nil, err
	}
	allowed := map[cell]int{}
	for number, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var where cell
		var count int
		if _, err := fmt.Sscanf(line, "%d %s %s", &count, &where.rule, &where.area); err != nil {
			return nil, fmt.Errorf("line %d of the baseline: %w", number+1, err)
		}
		allowed[where] = count
	}
	return allowed, nil
}

const baselineHead = `# Findings that are still allowed: number, rule, area. The numbers only become smaller (make style-baseline).
`

// writeBaseline writes the present numbers. Numbers of prose rules stay if the prose was not checked.
func writeBaseline(findings []finding, allowed map[cell]int, prose bool) error {
	counts := count(findings)
	for where, number := range allowed {
		if !prose && strings.HasPrefix(where.rule, proseRule) {
			counts[where] = number
		}
	}
	var lines []string
	for where, number := range counts {
		lines = append(lines, fmt.Sprintf("%d\t%s\t%s\n", number, where.rule, where.area))
	}
	slices.SortFunc(lines, func(a, b string) int {
		_, cellA, _ := strings.Cut(a, "\t")
		_, cellB, _ := strings.Cut(b, "\t")
		return strings.Compare(cellA, cellB)
	})
	return os.WriteFile(filepath.Join(folder, "baseline"), []byte(baselineHead+strings.Join(lines, "")), 0o644)
}
