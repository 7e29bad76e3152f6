// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../../.."
	module = "github.com/kubernetsn/kubernetsn/"
)

// arrows are the groups that each group imports.
type arrows map[string]map[string]bool

func (a arrows) add(from, to string) {
	if a[from] == nil {
		a[from] = map[string]bool{}
	}
	a[from][to] = true
}

// group is a folder of cmd, one of internal, or api; empty for what is drawn nowhere, such as tests.
var group = regexp.MustCompile(`^(cmd/[^/]+|internal/(?:node|cluster|cli|bench|shared)|api)(?:/|$)`)

func groupOf(folder string) string {
	if match := group.FindStringSubmatch(folder); match != nil {
		return match[1]
	}
	return ""
}

// imported reads the imports of all files but tests. Files of every build tag count.
func imported(t *testing.T) arrows {
	t.Helper()
	all := arrows{}
	for _, top := range []string{"api", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			return addFile(all, name)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func addFile(all arrows, name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	folder, err := filepath.Rel(root, filepath.Dir(name))
	if err != nil {
		return err
	}
	from := groupOf(folder)
	if from == "" {
		return nil
	}
	if all[from] == nil {
		all[from] = map[string]bool{}
	}
	for _, one := range file.Imports {
		path, own := strings.CutPrefix(strings.Trim(one.Path.Value, `"`), module)
		if to := groupOf(path); own && to != from {
			all.add(from, to)
		}
	}
	return nil
}

// drawn reads the lines "group -> group group" of the section on Go packages.
func drawn(t *testing.T) arrows {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Go packages\n")
	if !found {
		t.Fatal("docs/architecture.md has no section \"Go packages\"")
	}
	_, drawing, _ := strings.Cut(section, "\n```\n")
	drawing, _, _ = strings.Cut(drawing, "\n```\n")
	all := arrows{}
	for line := range strings.Lines(drawing) {
		from, to, found := strings.Cut(line, "->")
		if !found {
			t.Fatalf("%q is no line of the drawing", line)
		}
		from = strings.TrimSpace(from)
		all[from] = map[string]bool{}
		for _, one := range strings.Fields(to) {
			all.add(from, one)
		}
	}
	return all
}

func TestImportsAreThoseOfTheDrawing(t *testing.T) {
	are, want := imported(t), drawn(t)
	groups := maps.Clone(are)
	maps.Copy(groups, want)
	for _, from := range slices.Sorted(maps.Keys(groups)) {
		is, should := slices.Sorted(maps.Keys(are[from])), slices.Sorted(maps.Keys(want[from]))
		if _, known := want[from]; !known || !slices.Equal(is, should) {
			t.Errorf("%s imports %q, docs/architecture.md draws %q", from, is, should)
		}
	}
}

// TestTheProductDoesWithoutTheLaboratory follows the imports of each program but ktsn-bench.
func TestTheProductDoesWithoutTheLaboratory(t *testing.T) {
	are := imported(t)
	for program := range are {
		if !strings.HasPrefix(program, "cmd/") || program == "cmd/ktsn-bench" {
			continue
		}
		if reached(are, program)["internal/bench"] {
			t.Errorf("%s reaches internal/bench", program)
		}
	}
	if !reached(are, "cmd/ktsn-bench")["internal/bench"] {
		t.Error("cmd/ktsn-bench does not reach internal/bench")
	}
}

func reached(all arrows, from string) map[string]bool {
	seen := map[string]bool{}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for to := range all[queue[0]] {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}
