// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// word is a line of the file words: a part of identifiers and file names that docs/contributing/glossary.md replaces by a term.
type word struct {
	language string // c, go, or name for both
	part     string
	term     string
	unless   *regexp.Regexp // of "FILE:IDENTIFIER", nil for never
}

type words []word

func parseWords(list string) (words, error) {
	var all words
	for number, line := range strings.Split(list, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
		if len(columns) < 3 || len(columns) > 4 || !slices.Contains([]string{"name", "c", "go"}, columns[0]) {
			return nil, fmt.Errorf("line %d of the words: %q: want language, word, term and maybe an exception", number+1, line)
		}
		entry := word{language: columns[0], part: columns[1], term: columns[2]}
		if len(columns) == 4 {
			var err error
			if entry.unless, err = regexp.Compile(columns[3]); err != nil {
				return nil, fmt.Errorf("line %d of the words: %w", number+1, err)
			}
		}
		all = append(all, entry)
	}
	return all, nil
}

// tokens matches identifiers, and what is skipped: comments, strings, characters, includes.
var tokens = regexp.MustCompile("(?s)//[^\n]*|/\\*.*?\\*/|\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\\n])+'|`[^`]*`|[A-Za-z_][A-Za-z0-9_]*|#include[^\n]*")

// check finds words in the name of a C or Go file and in its identifiers, each once.
func (w words) check(file, text string) []finding {
	base := path.Base(file)
	all := w.checkParts(file, 0, base, strings.FieldsFunc(strings.ToLower(base), func(r rune) bool { return strings.ContainsRune("._-", r) }))
	seen := map[string]bool{}
	line, last := 1, 0
	for _, at := range tokens.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if strings.ContainsRune("/\"'`#", rune(name[0])) || seen[name] {
			continue
		}
		seen[name] = true
		line += strings.Count(text[last:at[0]], "\n")
		last = at[0]
		if parts := partsOf(name); len(parts) <= 4 && !isTest(name) {
			all = append(all, w.checkParts(file, line, name, parts)...)
		}
	}
	return all
}

func (w words) checkParts(file string, line int, name string, parts []string) []finding {
	var all []finding
	for _, entry := range w {
		if !slices.Contains(parts, entry.part) || entry.language == "c" && !isC(file) || entry.language == "go" && !isGo(file) ||
			entry.unless != nil && entry.unless.MatchString(file+":"+name) {
			continue
		}
		all = append(all, finding{"word", file, line, fmt.Sprintf("%q in %s: the term is %s", entry.part, name, entry.term)})
	}
	return all
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Benchmark") || strings.HasPrefix(name, "Fuzz")
}

var humps = regexp.MustCompile(`[A-Z]+(?:[A-Z][a-z]|$)|[A-Z]?[a-z]+|[A-Z]+|[0-9]+`)

// partsOf divides a name at underscores and humps: KTSN_RING_has, rawDataOf, URLPath.
func partsOf(name string) []string {
	var parts []string
	for rest := range strings.SplitSeq(name, "_") {
		for rest != "" {
			at := humps.FindStringIndex(rest)
			if at == nil {
				break
			}
			end := at[1]
			if piece := rest[at[0]:end]; len(piece) > 2 && strings.ToUpper(piece[:len(piece)-1]) == piece[:len(piece)-1] && piece[len(piece)-1] >= 'a' {
				end -= 2 // the hump that follows an abbreviation
			}
			parts = append(parts, strings.ToLower(rest[at[0]:end]))
			rest = rest[end:]
		}
	}
	return parts
}
