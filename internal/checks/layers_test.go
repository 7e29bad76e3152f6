// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/kubernetsn/kubernetsn/"

// picture has the folders that each folder uses.
type picture map[string][]string

// pictureOf reads the first block of lines "folder -> folders" under a heading of docs/internals/map.md.
func pictureOf(t *testing.T, heading string) picture {
	t.Helper()
	_, section, ok := strings.Cut(read(t, "docs/internals/map.md"), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/internals/map.md has no heading %q", heading)
	}
	_, block, _ := strings.Cut(section, "\n```\n")
	block, _, ok = strings.Cut(block, "\n```\n")
	if !ok {
		t.Fatalf("docs/internals/map.md: no block of lines is under %q", heading)
	}
	arrows := picture{}
	for line := range strings.Lines(block) {
		from, to, ok := strings.Cut(line, "->")
		if from = strings.TrimSpace(from); !ok || from == "" || arrows[from] != nil {
			t.Fatalf("docs/internals/map.md, %s: %q is not the one line \"folder -> folders\" of its folder", heading, line)
		}
		arrows[from] = append([]string{}, strings.Fields(to)...)
	}
	for from, to := range arrows {
		for _, folder := range to {
			if arrows[folder] == nil {
				t.Errorf("docs/internals/map.md, %s: %s uses %s, which has no line of its own", heading, from, folder)
			}
		}
	}
	return arrows
}

// compare reports the differences between the drawn and the actual arrows.
func compare(t *testing.T, drawn, actual picture) {
	t.Helper()
	for _, from := range slices.Sorted(maps.Keys(actual)) {
		for _, to := range actual[from] {
			if !slices.Contains(drawn[from], to) {
				t.Errorf("%s uses %s, and docs/internals/map.md has no such arrow", from, to)
			}
		}
	}
	for _, from := range slices.Sorted(maps.Keys(drawn)) {
		for _, to := range drawn[from] {
			if !slices.Contains(actual[from], to) {
				t.Errorf("docs/internals/map.md has an arrow from %s to %s, and nothing there uses it", from, to)
			}
		}
	}
}

// circle returns a path along the arrows that ends where it began, nil if there is none.
func (p picture) circle() []string {
	done := map[string]bool{}
	var visit func(folder string, trail []string) []string
	visit = func(folder string, trail []string) []string {
		if at := slices.Index(trail, folder); at >= 0 {
			return append(trail[at:], folder)
		}
		if done[folder] {
			return nil
		}
		for _, next := range p[folder] {
			if circle := visit(next, append(slices.Clone(trail), folder)); circle != nil {
				return circle
			}
		}
		done[folder] = true
		return nil
	}
	for _, folder := range slices.Sorted(maps.Keys(p)) {
		if circle := visit(folder, nil); circle != nil {
			return circle
		}
	}
	return nil
}

// reached returns the folders to which arrows lead from a folder, directly or over others.
func (p picture) reached(from string) []string {
	var all []string
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, to := range p[queue[0]] {
			if !slices.Contains(all, to) {
				all = append(all, to)
				queue = append(queue, to)
			}
		}
	}
	return all
}

func (p picture) add(from, to string) {
	if from != to && !slices.Contains(p[from], to) {
		p[from] = append(p[from], to)
	}
}

// folderOf is the folder of the picture that a file or package is in: the one with the longest name. "" when none is.
func (p picture) folderOf(name string) string {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		if p[name] != nil {
			return name
		}
	}
	return ""
}

// files calls visit for the files under folders of root that have one of these endings, by their name below root.
func files(t *testing.T, root string, folders, endings []string, visit func(name string)) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains(endings, path.Ext(name)) {
				return err
			}
			relative, err := filepath.Rel(root, name)
			visit(filepath.ToSlash(relative))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

var include = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// includes reads which folders the C sources of each folder use. A header is the one in the including file's own folder, else the
// one that the picture lets it have.
func includes(t *testing.T, drawn picture) picture {
	t.Helper()
	headers := map[string][]string{}
	files(t, root, []string{"datapath"}, []string{".h", ".in"}, func(name string) {
		if folder := drawn.folderOf(strings.TrimPrefix(path.Dir(name), "datapath/")); folder != "" {
			header := strings.TrimSuffix(path.Base(name), ".in")
			headers[header] = append(headers[header], folder)
		}
	})
	actual := picture{}
	files(t, root, []string{"datapath"}, []string{".c", ".h"}, func(name string) {
		module := strings.TrimPrefix(path.Dir(name), "datapath/")
		if strings.HasPrefix(module+"/", "tests/") {
			return
		}
		if drawn[module] == nil {
			t.Errorf("%s: docs/internals/map.md has no line for its folder", name)
			return
		}
		for _, match := range include.FindAllStringSubmatch(read(t, name), -1) {
			if to := headerFolder(headers[match[1]], module, drawn[module]); to != "" {
				actual.add(module, to)
			} else {
				t.Errorf("%s includes %q: no folder has a header of that name, without a path", name, match[1])
			}
		}
	})
	return actual
}

func headerFolder(folders []string, including string, allowed []string) string {
	if slices.Contains(folders, including) {
		return including
	}
	for _, folder := range folders {
		if slices.Contains(allowed, folder) {
			return folder
		}
	}
	if len(folders) > 0 {
		return folders[0]
	}
	return ""
}

// fileIncludes reads which C files include which. A source and the header of its name are one file, named without ending. A header
// is the one in the including file's own folder, else the one in a folder that the picture lets it have.
func fileIncludes(t *testing.T, root string, drawn picture) picture {
	t.Helper()
	headers := map[string][]string{}
	texts := map[string]string{}
	files(t, root, []string{"datapath"}, []string{".c", ".h"}, func(name string) {
		folder := strings.TrimPrefix(path.Dir(name), "datapath/")
		if strings.HasPrefix(folder+"/", "tests/") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
		if path.Ext(name) == ".h" {
			headers[path.Base(name)] = append(headers[path.Base(name)], folder)
		}
	})
	actual := picture{}
	for name, text := range texts {
		folder := strings.TrimPrefix(path.Dir(name), "datapath/")
		for _, match := range include.FindAllStringSubmatch(text, -1) {
			if to := headerFolder(headers[match[1]], folder, drawn[folder]); to != "" {
				actual.add(strings.TrimSuffix(name, path.Ext(name)), path.Join("datapath", to, strings.TrimSuffix(match[1], ".h")))
			}
		}
	}
	return actual
}

// imports reads which folders the Go packages of each folder use, tests aside.
func imports(t *testing.T, drawn picture) picture {
	t.Helper()
	actual := picture{}
	files(t, root, []string{"api", "bench", "cmd", "internal"}, []string{".go"}, func(name string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		group := drawn.folderOf(path.Dir(name))
		for _, spec := range source.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			relative, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			to := drawn.folderOf(relative)
			if group == "" || to == "" {
				t.Errorf("%s imports %s: docs/internals/map.md has no line for one of the two", name, relative)
				continue
			}
			actual.add(group, to)
		}
	})
	return actual
}

func TestCIncludesMatchArchitecture(t *testing.T) {
	drawn := pictureOf(t, "C modules")
	compare(t, drawn, includes(t, drawn))
}

func TestGoImportsMatchArchitecture(t *testing.T) {
	drawn := pictureOf(t, "Go packages")
	compare(t, drawn, imports(t, drawn))
}

// TestProductDoesNotImportTheLaboratory follows the imports of each program of the product.
func TestProductDoesNotImportTheLaboratory(t *testing.T) {
	actual := imports(t, pictureOf(t, "Go packages"))
	for program := range actual {
		if !strings.HasPrefix(program, "cmd/") {
			continue
		}
		for _, folder := range []string{"bench", "internal/testlab"} {
			if slices.Contains(actual.reached(program), folder) {
				t.Errorf("%s reaches %s", program, folder)
			}
		}
	}
}

func TestArchitectureHasNoCircle(t *testing.T) {
	for _, heading := range []string{"C modules", "Go packages"} {
		if circle := pictureOf(t, heading).circle(); circle != nil {
			t.Errorf("docs/internals/map.md, %s: %s is a circle", heading, strings.Join(circle, " -> "))
		}
	}
}

func TestCFilesHaveNoCircle(t *testing.T) {
	actual := fileIncludes(t, root, pictureOf(t, "C modules"))
	if len(actual) < 100 {
		t.Fatalf("only %d C files include another", len(actual))
	}
	if circle := actual.circle(); circle != nil {
		t.Errorf("%s is a circle", strings.Join(circle, " -> "))
	}
}

func TestFileIncludesFindsCircle(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"datapath/daemon/a.c":     "#include \"a.h\"\n#include \"b.h\"\n",
		"datapath/daemon/a.h":     "",
		"datapath/daemon/b.h":     "",
		"datapath/daemon/b.c":     "#include \"b.h\"\n#include \"c.h\"\n#include <a.h>\n",
		"datapath/daemon/sys/c.h": "",
		"datapath/daemon/sys/c.c": "#include \"c.h\"\n#include \"d.h\"\n",
		"datapath/daemon/sys/d.h": "#include \"e.h\"\n",
		"datapath/daemon/sys/e.h": "",
		"datapath/daemon/sys/e.c": "#include \"e.h\"\n#include \"c.h\"\n",
		"datapath/tests/c.c":      "#include \"b.h\"\n",
	} {
		if err := os.MkdirAll(filepath.Join(folder, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	actual := fileIncludes(t, folder, picture{"daemon": {"daemon/sys"}, "daemon/sys": {}})
	want := []string{"datapath/daemon/sys/c", "datapath/daemon/sys/d", "datapath/daemon/sys/e", "datapath/daemon/sys/c"}
	if circle := actual.circle(); !slices.Equal(circle, want) {
		t.Errorf("got %v, want %v", circle, want)
	}
}

func TestCircle(t *testing.T) {
	for _, test := range []struct {
		name   string
		arrows picture
		circle []string
	}{
		{"no arrows", picture{"a": {}}, nil},
		{"two paths to one", picture{"a": {"b", "c"}, "b": {"c"}, "c": {}}, nil},
		{"to itself", picture{"a": {"a"}}, []string{"a", "a"}},
		{"after another", picture{"a": {"b"}, "b": {"c"}, "c": {"b"}}, []string{"b", "c", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if circle := test.arrows.circle(); !slices.Equal(circle, test.circle) {
				t.Errorf("got %v, want %v", circle, test.circle)
			}
		})
	}
}
