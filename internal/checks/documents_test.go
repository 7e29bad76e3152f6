// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// columns is the width of prose. Tables, code and words that are longer than a line are exempt.
const columns = 120

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	codeSpan = regexp.MustCompile("`([^`]+)`")
	// fileName is a path with an extension of the tree's sources; a placeholder such as FILE or * does not match.
	fileName = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9_./-]*\.(c|h|go|sh|yaml|json|md|build|service)$`)
	// folderName is a path below one of the tree's folders of sources.
	folderName = regexp.MustCompile(`^(api|charts|cmd|datapath|docs|images|internal|packaging|scripts|test)/[a-z0-9_/-]*$`)
	// notOurs begins what the tree does not hold: what a build or a run writes.
	notOurs = regexp.MustCompile(`^(out|bin|build)/`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
	// sourceName is a structure, a function or a test.
	sourceName = regexp.MustCompile(`^(?:(?:struct|enum) (\w+)|(\w+)\(\)|(Test[A-Z]\w+))$`)
	word       = regexp.MustCompile(`\w+`)
	// foreign are files of the kernel's sources.
	foreign = map[string]bool{"net/unix/af_unix.c": true}
)

// tree has the names of all files and folders of the repository, with slashes, and of the Markdown pages among them.
type tree struct {
	paths map[string]bool
	pages []string
}

func readTree(t *testing.T) *tree {
	t.Helper()
	files := &tree{paths: map[string]bool{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && written(name) {
			return fs.SkipDir
		}
		files.paths[name] = true
		if path.Ext(name) == ".md" {
			files.pages = append(files.pages, name)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	if len(files.pages) < 10 {
		t.Fatalf("%d pages below %s, want more", len(files.pages), root)
	}
	return files
}

// written reports whether a build or a tool has written a folder.
func written(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, ".") && base != ".github" || !strings.Contains(name, "/") &&
		(name == "out" || name == "bin" || name == "shared" || strings.HasPrefix(name, "build"))
}

// has reports whether there is a file or folder of that name, or with that end: pages name files of datapath/ without the prefix.
func (f *tree) has(name string) bool {
	name = strings.TrimSuffix(name, "/")
	if f.paths[name] {
		return true
	}
	for path := range f.paths {
		if strings.HasSuffix(path, "/"+name) {
			return true
		}
	}
	return false
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(read(t, name), "\n")
}

// eachLine calls visit for each line of a page outside blocks of code.
func eachLine(lines []string, visit func(number int, line string)) {
	code := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "```"):
			code = !code
		case !code:
			visit(i+1, line)
		}
	}
}

// anchors returns the anchors that GitHub derives from a page's headings.
func anchors(lines []string) map[string]bool {
	all := map[string]bool{}
	eachLine(lines, func(_ int, line string) {
		if match := heading.FindStringSubmatch(line); match != nil {
			all[anchor(match[1])] = true
		}
	})
	return all
}

// anchor is a heading in lower case, with hyphens for spaces and without punctuation.
func anchor(title string) string {
	var all strings.Builder
	for _, r := range strings.ToLower(link.ReplaceAllString(title, "]")) {
		switch {
		case r == ' ':
			all.WriteRune('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			all.WriteRune(r)
		}
	}
	return all.String()
}

func TestLinksOfPagesResolve(t *testing.T) {
	files := readTree(t)
	links := 0
	for _, page := range files.pages {
		eachLine(lines(t, page), func(number int, line string) {
			for _, match := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
					continue
				}
				links++
				if broken := files.broken(t, page, match[1]); broken != "" {
					t.Errorf("%s:%d: link to %s: %s", page, number, match[1], broken)
				}
			}
		})
	}
	if links < 50 {
		t.Errorf("%d links found, want more: the pages are not read as they are written", links)
	}
}

// broken says what is wrong with a link of a page, or nothing.
func (f *tree) broken(t *testing.T, page, target string) string {
	t.Helper()
	name, section, hasSection := strings.Cut(target, "#")
	file := page
	if name != "" {
		file = path.Join(path.Dir(page), name)
	}
	if !f.paths[file] {
		return "there is no " + file
	}
	if hasSection && path.Ext(file) == ".md" && !anchors(lines(t, file))[section] {
		return file + " has no such heading"
	}
	return ""
}

// Git keeps a symbolic link whose target has moved, and the link fails only when a program opens it.
func TestSymbolicLinksResolve(t *testing.T) {
	links := 0
	for name := range readTree(t).paths {
		file := path.Join(root, name)
		entry, err := os.Lstat(file)
		if err != nil {
			t.Fatalf("stat %s: %v", name, err)
		}
		if entry.Mode().Type() != fs.ModeSymlink {
			continue
		}
		links++
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s is a symbolic link to nothing: %v", name, err)
		}
	}
	if links == 0 {
		t.Error("no symbolic link found, want at least the seeds of the control requests")
	}
}

func TestFilesThatPagesNameExist(t *testing.T) {
	files := readTree(t)
	names := 0
	for _, page := range files.pages {
		eachLine(lines(t, page), func(number int, line string) {
			for _, match := range codeSpan.FindAllStringSubmatch(line, -1) {
				name := strings.TrimPrefix(match[1], "./")
				isFile := fileName.MatchString(name) && !notOurs.MatchString(name) && (strings.Contains(name, "/") || sourceOnly(name))
				if !isFile && !folderName.MatchString(name) || foreign[name] {
					continue
				}
				names++
				if !files.has(name) {
					t.Errorf("%s:%d: there is no %s", page, number, name)
				}
			}
		})
	}
	if names < 100 {
		t.Errorf("%d names of files found, want more: the pages are not read as they are written", names)
	}
}

// sourceOnly tells a bare name that can only be a source: summary.json and the like are what programs write.
func sourceOnly(name string) bool {
	switch path.Ext(name) {
	case ".c", ".h", ".go":
		return true
	}
	return false
}

func TestSourcesHaveTheNamesInPages(t *testing.T) {
	files := readTree(t)
	words := files.words(t)
	names := 0
	for _, page := range files.pages {
		if page == "docs/contributing/glossary.md" { // it names where words come from, too
			continue
		}
		eachLine(lines(t, page), func(number int, line string) {
			for _, match := range codeSpan.FindAllStringSubmatch(line, -1) {
				name := sourceName.FindStringSubmatch(match[1])
				if name == nil {
					continue
				}
				names++
				if word := name[1] + name[2] + name[3]; !words[word] {
					t.Errorf("%s:%d: no source has %s", page, number, word)
				}
			}
		})
	}
	if names < 15 {
		t.Errorf("%d names found, want more: the pages are not read as they are written", names)
	}
}

// words returns all words of the C and Go sources.
func (f *tree) words(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for name := range f.paths {
		if sourceOnly(name) {
			for _, line := range lines(t, name) {
				for _, identifier := range word.FindAllString(line, -1) {
					all[identifier] = true
				}
			}
		}
	}
	return all
}

func TestProseOfPagesIsWrapped(t *testing.T) {
	files := readTree(t)
	for _, page := range files.pages {
		if strings.HasPrefix(page, "docs/reference/api/") || strings.HasPrefix(page, "docs/measurements/results/") { // programs write them
			continue
		}
		eachLine(lines(t, page), func(number int, line string) {
			text := strings.TrimLeft(line, " ")
			if strings.HasPrefix(text, "|") || strings.HasPrefix(line, "    ") || !strings.Contains(text, " ") {
				return
			}
			if width := utf8.RuneCountInString(line); width > columns {
				t.Errorf("%s:%d: %d columns, want at most %d", page, number, width, columns)
			}
		})
	}
}
