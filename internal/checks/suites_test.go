// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suite is a line of scripts/suites. With a kind, "content" or "timing", it runs only the tests that begin with a call of that name.
type suite struct {
	name, target, module, tag, kind string
	run                             *regexp.Regexp
	packages                        []string
}

// suites reads scripts/suites.
func suites(t *testing.T) []suite {
	t.Helper()
	var all []suite
	for line := range strings.Lines(read(t, "scripts/suites")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) < 6 {
			t.Fatalf("scripts/suites: %q has %d columns, want 6 or more", line, len(fields))
		}
		parsed := suite{name: fields[0], target: fields[1], module: fields[2], packages: fields[5:]}
		if fields[3] != "-" {
			parsed.tag = fields[3]
		}
		if kind, ok := strings.CutPrefix(fields[4], "@"); ok {
			parsed.kind = kind
		} else if fields[4] != "-" {
			parsed.run = regexp.MustCompile(fields[4])
		}
		all = append(all, parsed)
	}
	return all
}

// testFile is a file with Go tests: its folder, the build tag that it needs, and its tests with their kinds.
type testFile struct {
	name, dir, tag string
	tests          []string
	kinds          map[string]string
}

// skipped matches build folders, and folders that the go command ignores.
var skipped = regexp.MustCompile(`^(\..*|build|build-.*|bin|out|testdata)$`)

// testFiles returns the test files of all modules.
func testFiles(t *testing.T) []testFile {
	t.Helper()
	var all []testFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		base := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && skipped.MatchString(base):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(base, "_test.go"):
			all = append(all, testFileOf(t, name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testFileOf(t *testing.T, name string) testFile {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	within, err := filepath.Rel(root, name)
	if err != nil {
		t.Fatal(err)
	}
	file := testFile{name: within, dir: path.Dir(filepath.ToSlash(within)), tag: tagOf(t, parsed), kinds: map[string]string{}}
	for _, declaration := range parsed.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") && function.Name.Name != "TestMain" {
			file.tests = append(file.tests, function.Name.Name)
			file.kinds[function.Name.Name] = kindOf(function)
		}
	}
	return file
}

// kindOf returns "content" or "timing" if the test calls the function of that name, else "".
func kindOf(test *ast.FuncDecl) string {
	for _, statement := range test.Body.List {
		if expression, ok := statement.(*ast.ExprStmt); ok {
			if call, ok := expression.X.(*ast.CallExpr); ok {
				if function, ok := call.Fun.(*ast.Ident); ok && (function.Name == "content" || function.Name == "timing") {
					return function.Name
				}
			}
		}
	}
	return ""
}

// tagOf returns the build tag that a test file needs, "" for none.
func tagOf(t *testing.T, file *ast.File) string {
	t.Helper()
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if comment.Pos() > file.Package || !constraint.IsGoBuild(comment.Text) {
				continue
			}
			expression, err := constraint.Parse(comment.Text)
			if err != nil {
				t.Fatal(err)
			}
			tag, ok := expression.(*constraint.TagExpr)
			if !ok {
				t.Fatalf("%s: tests need one tag or none, and not %s", file.Name, expression)
			}
			return tag.Tag
		}
	}
	return ""
}

// has reports whether the suite has a package in that folder.
func (s *suite) has(dir string) bool {
	for _, pattern := range s.packages {
		from := path.Join(s.module, strings.TrimSuffix(pattern, "/..."))
		below := strings.HasPrefix(dir, from+"/") || from == "."
		if dir == from || strings.HasSuffix(pattern, "/...") && below {
			return true
		}
	}
	return false
}

// runs reports whether the suite runs a test of the file.
func (s *suite) runs(file testFile, test string) bool {
	return s.has(file.dir) && (file.tag == "" || file.tag == s.tag) && (s.run == nil || s.run.MatchString(test)) &&
		(s.kind == "" || file.tag == "" && file.kinds[test] == s.kind)
}

// mandatory reports whether CI runs the suite.
func mandatory(s suite) bool { return s.target == "test" || s.target == "e2e" }

func TestEachTestIsRunByATarget(t *testing.T) {
	all := suites(t)
	files := testFiles(t)
	if len(files) < 100 {
		t.Fatalf("only %d files with tests are found", len(files))
	}
	for _, file := range files {
		for _, test := range file.tests {
			if !slices.ContainsFunc(all, func(s suite) bool { return s.runs(file, test) && (file.tag != "" || mandatory(s)) }) {
				t.Errorf("%s: %s is in no suite of scripts/suites that CI, or for a tag another target, runs", file.name, test)
			}
		}
	}
}

func TestEachSuiteHasTests(t *testing.T) {
	files := testFiles(t)
	for _, s := range suites(t) {
		for _, pattern := range s.packages {
			part := suite{module: s.module, packages: []string{pattern}}
			if !slices.ContainsFunc(files, func(file testFile) bool { return part.has(file.dir) }) {
				t.Errorf("suite %s: there are no tests in %s", s.name, pattern)
			}
		}
		if s.run == nil || s.run.String() == "^$" { // the benchmarks'
			continue
		}
		if !slices.ContainsFunc(files, func(file testFile) bool {
			return slices.ContainsFunc(file.tests, func(test string) bool { return s.runs(file, test) })
		}) {
			t.Errorf("suite %s: no test is named %s", s.name, s.run)
		}
	}
}

// script returns the text of the script or Makefile that runs a target's tests.
func script(t *testing.T, target string) string {
	t.Helper()
	switch target {
	case "bench", "capture", "clocks", "conformance", "receive":
		return read(t, "Makefile")
	}
	return read(t, "scripts/"+target+".sh")
}

// TestEachSuiteIsRun looks for the suite's name after the commands that take one: run_go, start_go, figures.sh, tabletest.sh and suite.sh.
func TestEachSuiteIsRun(t *testing.T) {
	for _, s := range suites(t) {
		if used := regexp.MustCompile(`(?m)^[^#\n]*(run_go|start_go|suite\.sh|figures\.sh|tabletest\.sh) ` + regexp.QuoteMeta(s.name) + `([ )]|$)`); !used.MatchString(script(t, s.target)) {
			t.Errorf("nothing runs suite %s in `make %s`", s.name, s.target)
		}
	}
}

// TestOnlySuitesNamesPackages fails for scripts that name packages themselves.
func TestOnlySuitesNamesPackages(t *testing.T) {
	other := regexp.MustCompile(`(?m)^[^#\n]*(run_go|start_go|\bgo\.sh test|\$\(GO\) test) .*\s\./(api|cmd|internal|test|e2e|\.\.\.)`)
	for _, name := range []string{"Makefile", "scripts/test.sh", "scripts/e2e.sh", "scripts/chaos.sh", "scripts/tabletest.sh",
		"scripts/sanitize.sh", "scripts/unit.sh", "scripts/soak.sh", "scripts/tally.sh"} {
		if line := other.FindString(read(t, name)); line != "" {
			t.Errorf("%s names packages of its own: %s", name, strings.TrimSpace(line))
		}
	}
}

// TestSoakedTestsExist looks for the tests of scripts/soak/list: `go test -run` ignores names without a test.
func TestSoakedTestsExist(t *testing.T) {
	files, unitOfC := testFiles(t), read(t, "datapath/tests/unit/meson.build")
	listed := 0
	for line := range strings.Lines(read(t, "scripts/soak/list")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		listed++
		if len(fields) < 3 {
			t.Errorf("scripts/soak/list: %q has no reason", strings.TrimSpace(line))
			continue
		}
		where, test := fields[0], fields[1]
		known := slices.ContainsFunc(files, func(file testFile) bool {
			return file.dir == where && file.tag == "" && slices.Contains(file.tests, test)
		})
		if where == "build-tsan" {
			known = strings.Contains(unitOfC, "'"+test+"'")
		}
		if !known {
			t.Errorf("scripts/soak/list: there is no test %s in %s", test, where)
		}
		if !strings.Contains(read(t, "scripts/soak.sh"), where) {
			t.Errorf("scripts/soak.sh runs nothing of %s, where scripts/soak/list has %s", where, test)
		}
	}
	if listed == 0 {
		t.Error("scripts/soak/list is empty")
	}
}

func TestMesonListsCTests(t *testing.T) {
	for folder, prefix := range map[string]string{"datapath/tests/unit": "test_", "datapath/tests/fuzz": "fuzz_"} {
		listed := read(t, folder+"/meson.build")
		sources, err := filepath.Glob(filepath.Join(root, folder, prefix+"*.c"))
		if err != nil || len(sources) == 0 {
			t.Fatalf("there are no tests in %s: %v", folder, err)
		}
		for _, file := range sources {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), prefix), ".c")
			if !strings.Contains(listed, "'"+name+"'") {
				t.Errorf("%s/meson.build does not know %s", folder, filepath.Base(file))
			}
		}
	}
	if line := regexp.MustCompile(`(?m)^.*meson test .*$`).FindString(read(t, "scripts/tally.sh")); line == "" || strings.Contains(line, "suite") {
		t.Errorf("scripts/tally.sh does not run all of meson's tests: %q", line)
	}
}

// upwards returns a folder and its parents.
func upwards(dir string) []string {
	all := []string{dir}
	for dir = path.Dir(dir); dir != "."; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	return all
}

const pageOfTargets = "docs/contributing/tests.md"

// TestPageListsSuites looks for a row of the table with the target and the packages of its suites.
func TestPageListsSuites(t *testing.T) {
	page := read(t, pageOfTargets)
	for _, s := range suites(t) {
		for _, pattern := range s.packages {
			folder := path.Join(s.module, strings.TrimSuffix(pattern, "/..."))
			row := regexp.MustCompile("(?m)^\\| `make " + s.target + "` \\|.*\\|$").FindString(page)
			if !slices.ContainsFunc(upwards(folder), func(dir string) bool { return strings.Contains(row, "`"+dir+"`") }) {
				t.Errorf("the table of %s has no row of `make %s` with `%s`", pageOfTargets, s.target, folder)
			}
		}
	}
}

// TestPageListsTargets compares the rows of the table with the targets that `make help` prints.
func TestPageListsTargets(t *testing.T) {
	targets, rows := map[string]bool{}, map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[match[1]] = true
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `make ([a-z0-9-]+)` \\|").FindAllStringSubmatch(read(t, pageOfTargets), -1) {
		if rows[match[1]] {
			t.Errorf("%s has two rows of `make %s`", pageOfTargets, match[1])
		}
		rows[match[1]] = true
	}
	for target := range targets {
		if !rows[target] {
			t.Errorf("%s has no row of `make %s`", pageOfTargets, target)
		}
	}
	for target := range rows {
		if !targets[target] {
			t.Errorf("%s has a row of `make %s`, which the Makefile does not have", pageOfTargets, target)
		}
	}
}

// TestPageListsClusterTests looks for each file with tests of the cluster in a row of its table.
func TestPageListsClusterTests(t *testing.T) {
	const page = "docs/contributing/test-cluster.md"
	for _, dir := range []string{"test/cluster/e2e", "test/cluster/federation"} {
		_, table, ok := strings.Cut(read(t, page), "| file in `"+dir+"` |")
		if !ok {
			t.Errorf("%s has no table of %s", page, dir)
			continue
		}
		table, _, _ = strings.Cut(table, "\n\n")
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("there are no tests in %s: %v", dir, err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			if name != "main_test.go" && regexp.MustCompile(`(?m)^func Test`).MatchString(read(t, path.Join(dir, name))) && !strings.Contains(table, "`"+name+"`") {
				t.Errorf("the table of %s in %s lacks %s", dir, page, name)
			}
		}
	}
}
