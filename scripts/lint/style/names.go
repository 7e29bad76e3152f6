// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// standIns are names that give a variable's role in a sentence instead of what it holds.
var standIns = []string{"one", "of", "is", "found", "made", "own", "said", "told", "heard"}

// smallPackageLines is the size below which a package is not worth its folder.
const smallPackageLines = 100

//go:embed words
var wordList string

func checkFiles(files []string) ([]finding, error) {
	words, err := parseWords(wordList)
	if err != nil {
		return nil, err
	}
	var all []finding
	packageLines := map[string]int{}
	for _, file := range files {
		if !isC(file) && !isGo(file) {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text := string(content)
		all = append(all, words.check(file, text)...)
		switch {
		case strings.HasSuffix(file, ".h") && len(prototypes(text)) == 1 && !isInline(text):
			all = append(all, finding{"single-prototype", file, 1, "a header with a single prototype: declare it in the header of its module"})
		case isGo(file):
			standIns, err := checkVariables(file, text)
			if err != nil {
				return nil, err
			}
			all = append(all, standIns...)
			if !strings.HasSuffix(file, "_test.go") {
				packageLines[path.Dir(file)] += strings.Count(text, "\n")
			}
		}
	}
	return append(all, smallPackages(packageLines)...), nil
}

func smallPackages(lines map[string]int) []finding {
	var all []finding
	for folder, count := range lines {
		if count < smallPackageLines && !strings.HasPrefix(folder, "cmd/") && !strings.Contains(folder, "/cmd/") && !strings.HasPrefix(folder, "test/") &&
			!strings.HasPrefix(folder, "internal/checks") {
			all = append(all, finding{"small-package", folder, 0, fmt.Sprintf("a package of %d lines: merge it with what uses it", count)})
		}
	}
	slices.SortFunc(all, func(a, b finding) int { return strings.Compare(a.file, b.file) })
	return all
}

// checkVariables finds declarations of variables, parameters and fields with a name of standIns.
func checkVariables(file, text string) ([]finding, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []finding
	declare := func(names ...*ast.Ident) {
		for _, name := range names {
			if slices.Contains(standIns, name.Name) {
				all = append(all, finding{"stand-in", file, set.Position(name.Pos()).Line, fmt.Sprintf("variable %q: name the thing", name.Name)})
			}
		}
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Field:
			declare(node.Names...)
		case *ast.ValueSpec:
			declare(node.Names...)
		case *ast.AssignStmt:
			if node.Tok == token.DEFINE {
				declare(identifiersIn(node.Lhs...)...)
			}
		case *ast.RangeStmt:
			if node.Tok == token.DEFINE {
				declare(identifiersIn(node.Key, node.Value)...)
			}
		}
		return true
	})
	return all, nil
}

func identifiersIn(expressions ...ast.Expr) []*ast.Ident {
	var names []*ast.Ident
	for _, expression := range expressions {
		if name, ok := expression.(*ast.Ident); ok {
			names = append(names, name)
		}
	}
	return names
}

var (
	// prototype is a declaration of a function at the beginning of a line; its parameters may take several lines.
	prototype = regexp.MustCompile(`(?m)^[a-z][A-Za-z0-9_ *]*[ *][a-z0-9_]+\([^;{}]*\)[^;{}]*;`)
	inline    = regexp.MustCompile(`(?m)^(struct|enum|union|typedef|static inline|#define [A-Z_a-z0-9]+\()`)
	comments  = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
)

func prototypes(header string) []string {
	return prototype.FindAllString(comments.ReplaceAllString(header, ""), -1)
}

// isInline reports whether a header has more than prototypes: types or functions.
func isInline(header string) bool {
	return inline.MatchString(comments.ReplaceAllString(header, ""))
}
