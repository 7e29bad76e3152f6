// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// group is a table of constants. Groups of several files with the same title become one.
type group struct {
	title string
	rows  []constant
}

type constant struct{ identifier, value, comment string }

// titled matches the comments of groups that are written. Programs alone use the others, and fields describe their values.
var titled = regexp.MustCompile(`^(Annotations|Names|Reasons|Types|Other names)\b`)

var word = regexp.MustCompile(`\w+`)

// writeNames writes the page of the constants in Go files.
func writeNames(out io.Writer, files []string) error {
	var groups []*group
	values := map[string]string{}
	for _, file := range files {
		var err error
		if groups, err = readNames(groups, values, file); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "# Names\n\n", head)
	for _, group := range groups {
		fmt.Fprintf(out, "## %s\n\n| name | meaning |\n|---|---|\n", withValues(group.title, values))
		for _, row := range group.rows {
			fmt.Fprintf(out, "| `%s` | %s |\n", row.value, row.sentence(values))
		}
		fmt.Fprintln(out)
	}
	return nil
}

// readNames adds the groups of a file, and the values of all its constants.
func readNames(groups []*group, values map[string]string, path string) ([]*group, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	titles := 0
	for _, declaration := range file.Decls {
		declared, ok := declaration.(*ast.GenDecl)
		if !ok || declared.Tok != token.CONST {
			continue
		}
		rows, err := constants(declared)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, row := range rows {
			values[row.identifier] = row.value
		}
		if title := strings.TrimSuffix(plain(declared.Doc.Text()), "."); declared.Lparen.IsValid() && titled.MatchString(title) {
			groups = add(groups, title, rows)
			titles++
		}
	}
	if titles == 0 {
		return nil, fmt.Errorf("%s has no group of names", path)
	}
	return groups, nil
}

func add(groups []*group, title string, rows []constant) []*group {
	for _, group := range groups {
		if group.title == title {
			group.rows = append(group.rows, rows...)
			return groups
		}
	}
	return append(groups, &group{title, rows})
}

// constants returns those of a declaration that are strings.
func constants(declared *ast.GenDecl) ([]constant, error) {
	var rows []constant
	for _, spec := range declared.Specs {
		spec := spec.(*ast.ValueSpec)
		if len(spec.Values) == 0 {
			continue
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return nil, err
		}
		// Further paragraphs are for programmers.
		comment, _, _ := strings.Cut(spec.Doc.Text(), "\n\n")
		rows = append(rows, constant{spec.Names[0].Name, text, plain(comment)})
	}
	return rows, nil
}

// sentence returns the comment with values instead of identifiers. A comment "NAME : text" becomes a sentence of its own.
func (c *constant) sentence(values map[string]string) string {
	text := define(c.identifier, c.comment)
	if rest, named := strings.CutPrefix(text, c.identifier+" : "); named {
		text = rest
		if first, _, _ := strings.Cut(rest, " "); isWord(first) {
			text = strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return withValues(text, values)
}

// isWord reports whether a sentence can begin with text in upper case: not if it is the name of a program or of a field.
func isWord(text string) bool {
	return !strings.HasPrefix(text, "ktsn") && text != "chronyd" && !strings.ContainsFunc(strings.TrimRight(text, ",:;"), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
}

// withValues replaces the identifiers of constants by their values.
func withValues(text string, values map[string]string) string {
	return word.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := values[name]; ok && value != name {
			return "`" + value + "`"
		}
		return name
	})
}
