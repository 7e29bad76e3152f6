// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// check finds what the rules refuse in a file: in its name, its identifiers and its lines.
func check(file, content string, rules []rule) []string {
	found := checkName(file, rules)
	if isC(file) || isGo(file) {
		for _, one := range identifiers(content) {
			found = append(found, checkIdentifier(file, one, rules)...)
		}
	}
	for number, line := range strings.Split(content, "\n") {
		for i := range rules {
			r := &rules[i]
			if r.text == nil || r.allowed(file, line) {
				continue
			}
			if word := r.text.FindString(line); word != "" {
				found = append(found, fmt.Sprintf("%s:%d: %q: say %s", file, number+1, word, r.term))
			}
		}
	}
	return found
}

func checkName(file string, rules []rule) []string {
	base := path.Base(file)
	parts := strings.FieldsFunc(strings.ToLower(base), func(r rune) bool { return strings.ContainsRune("._-", r) })
	if !isC(file) && !isGo(file) {
		return nil
	}
	var found []string
	for i := range rules {
		if r := &rules[i]; r.in(file) && slices.Contains(parts, r.word) && !r.allowed(file, base) {
			found = append(found, fmt.Sprintf("%s: %q in the name of a file: say %s", file, r.word, r.term))
		}
	}
	return found
}

// identifier is one of a file, and the first line that has it.
type identifier struct {
	name string
	line int
}

func checkIdentifier(file string, one identifier, rules []rule) []string {
	parts := partsOf(one.name)
	if isSentence(one.name, parts) {
		return nil
	}
	var found []string
	for i := range rules {
		if r := &rules[i]; r.in(file) && slices.Contains(parts, r.word) && !r.allowed(file, one.name) {
			found = append(found, fmt.Sprintf("%s:%d: %q in %s: say %s", file, one.line, r.word, one.name, r.term))
		}
	}
	return found
}

// isSentence tells names of tests, which are English.
func isSentence(name string, parts []string) bool {
	return len(parts) > 4 || slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// tokens are what is skipped, or an identifier: comments, strings, characters.
var tokens = regexp.MustCompile("(?s)//[^\n]*|/\\*.*?\\*/|\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\\n])+'|`[^`]*`|[A-Za-z_][A-Za-z0-9_]*|#include[^\n]*")

// identifiers are those of a source in C or Go, each once.
func identifiers(content string) []identifier {
	var all []identifier
	seen := map[string]bool{}
	line, last := 1, 0
	for _, at := range tokens.FindAllStringIndex(content, -1) {
		name := content[at[0]:at[1]]
		if strings.ContainsRune("/\"'`#", rune(name[0])) || seen[name] {
			continue
		}
		line += strings.Count(content[last:at[0]], "\n")
		last = at[0]
		seen[name] = true
		all = append(all, identifier{name, line})
	}
	return all
}

var humps = regexp.MustCompile(`[A-Z]+(?:[A-Z][a-z]|$)|[A-Z]?[a-z]+|[A-Z]+|[0-9]+`)

// partsOf divides a name at underscores and humps: KTSN_RING_has, rawDataOf, URLPath.
func partsOf(name string) []string {
	var parts []string
	for word := range strings.SplitSeq(name, "_") {
		for len(word) > 0 {
			at := humps.FindStringIndex(word)
			if at == nil {
				break
			}
			end := at[1]
			if piece := word[at[0]:end]; len(piece) > 2 && strings.ToUpper(piece[:len(piece)-1]) == piece[:len(piece)-1] && piece[len(piece)-1] >= 'a' {
				end -= 2 // the hump that follows an abbreviation
			}
			parts = append(parts, strings.ToLower(word[at[0]:end]))
			word = word[end:]
		}
	}
	return parts
}
